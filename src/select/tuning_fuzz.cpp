// Any bytes as a tuning table: refused with the place, or a table that is printed as it was read
// and chooses what it names.
#include "base/check.hpp"
#include "base/named_place.hpp"
#include "select/tuning_table.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<TuningTable> table = tuning_table_from_text(text, "fuzz");
  if (!table.ok()) {
    SENNIT_CHECK(table.status().code() == Code::kInvalidArgument, "another code");
    SENNIT_CHECK(names_a_place(table.status().message(), 2), "a failure without its place");
    return 0;
  }
  const Result<TuningTable> again = tuning_table_from_text(to_text(*table), "fuzz");
  SENNIT_CHECK(again.ok() && again->timings() == table->timings() && again->hash() == table->hash(),
               "what is printed reads back as another table");
  for (const Timing& timing : table->timings()) {
    const Timing* best = table->best(timing.collective, timing.ranks, timing.bytes, Carriers::kAny);
    SENNIT_CHECK(best != nullptr && best->bytes == timing.bytes && best->us <= timing.us,
                 "the choice of a measured cell is not its fastest");
  }
  return 0;
}
