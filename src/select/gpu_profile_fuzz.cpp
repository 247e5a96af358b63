// Any bytes as a GPU profile: refused with the place, or a profile that names all that it must.
#include "base/check.hpp"
#include "base/named_place.hpp"
#include "select/gpu_profile.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<GpuProfile> profile = gpu_profile_from_text(text, "fuzz");
  if (!profile.ok()) {
    SENNIT_CHECK(profile.status().code() == Code::kInvalidArgument, "another code");
    SENNIT_CHECK(names_a_place(profile.status().message(), 2), "a failure without its place");
    return 0;
  }
  SENNIT_CHECK(!profile->name.empty() && !profile->gpus.empty() && profile->hop_bytes >= 0,
               "a profile that lacks what every file must have");
  return 0;
}
