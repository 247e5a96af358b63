// Any bytes as the text form: refused with the place, or a schedule that is printed as it was read.
#include "base/named_place.hpp"
#include "schedule/text.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Schedule> schedule = schedule_from_text(text, "fuzz");
  if (!schedule.ok()) {
    SENNIT_CHECK(schedule.status().code() == Code::kInvalidArgument, "another code");
    SENNIT_CHECK(names_a_place(schedule.status().message(), 2), "a failure without its place");
    return 0;
  }
  const Result<Schedule> again = schedule_from_text(to_text(*schedule), "fuzz");
  SENNIT_CHECK(again.ok() && *again == *schedule, "what is printed reads back as another schedule");
  return 0;
}
