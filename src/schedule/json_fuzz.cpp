// Any bytes as the JSON of a schedule and of a plan: refused, or printed as they were read.
#include "schedule/json_form.hpp"

namespace sennit {
namespace {

template <typename T>
void read_and_print(Result<T> (*read)(std::string_view, std::string_view), std::string_view text) {
  const Result<T> value = read(text, "fuzz");
  if (!value.ok()) {
    SENNIT_CHECK(value.status().code() == Code::kInvalidArgument, "another code");
    SENNIT_CHECK(value.status().message().starts_with("fuzz"), "a failure without its place");
    return;
  }
  const std::string printed = dump_json(to_json(*value));
  const Result<T> again = read(printed, "fuzz");
  SENNIT_CHECK(again.ok() && dump_json(to_json(*again)) == printed, "it reads back differently");
}

}  // namespace
}  // namespace sennit

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sennit::read_and_print(&sennit::schedule_from_json, text);
  sennit::read_and_print(&sennit::plan_from_json, text);
  return 0;
}
