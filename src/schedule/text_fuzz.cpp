// Any bytes as the text form: refused with the place, or a schedule that is printed as it was read.
#include "schedule/text.hpp"

#include <cctype>

namespace sennit {
namespace {

// "fuzz:12:3: ..."
bool names_a_place(std::string_view message) {
  constexpr std::string_view kFile = "fuzz:";
  if (!message.starts_with(kFile)) {
    return false;
  }
  int colons = 0;
  for (const char c : message.substr(kFile.size())) {
    if (c == ':' && ++colons == 2) {
      return true;
    }
    if (c != ':' && std::isdigit(static_cast<unsigned char>(c)) == 0) {
      return false;
    }
  }
  return false;
}

}  // namespace
}  // namespace sennit

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Schedule> schedule = schedule_from_text(text, "fuzz");
  if (!schedule.ok()) {
    SENNIT_CHECK(schedule.status().code() == Code::kInvalidArgument, "another code");
    SENNIT_CHECK(names_a_place(schedule.status().message()), "a failure without its place");
    return 0;
  }
  const Result<Schedule> again = schedule_from_text(to_text(*schedule), "fuzz");
  SENNIT_CHECK(again.ok() && *again == *schedule, "what is printed reads back as another schedule");
  return 0;
}
