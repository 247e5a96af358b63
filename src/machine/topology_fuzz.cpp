// Any bytes as a machine file: refused with the line, or a machine that is printed as it was read.
#include "base/check.hpp"
#include "base/named_place.hpp"
#include "machine/topology.hpp"
#include "machine/topology_picture.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sennit;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Topology> machine = topology_from_text(text, "fuzz");
  if (!machine.ok()) {
    SENNIT_CHECK(machine.status().code() == Code::kInvalidArgument, "another code");
    SENNIT_CHECK(names_a_place(machine.status().message(), 1), "a failure without its line");
    return 0;
  }
  const std::string printed = to_text(*machine);
  const Result<Topology> again = topology_from_text(printed, "fuzz");
  SENNIT_CHECK(again.ok() && to_text(*again) == printed,
               "what is printed reads back as another machine");
  SENNIT_CHECK(
      !machine->devices().empty() && machine->islands().size() == machine->devices().size(),
      "a device without an island");
  SENNIT_CHECK(topology_svg(*machine).starts_with("<svg"), "a machine without a picture");
  return 0;
}
