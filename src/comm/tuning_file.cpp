#include "comm/tuning_file.hpp"

#include "discover/machine_key.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace sennit {

Result<std::shared_ptr<const TuningTable>> load_tuning_table(const std::string& file) {
  if (file.empty()) {
    return std::shared_ptr<const TuningTable>();
  }
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream.is_open() || stream.bad()) {
    return fail(Code::kInvalidArgument,
                "the tuning table {} cannot be read: {}; SENNIT_TUNING_TABLE and `tuning_table` of "
                "the config name it",
                file,
                std::strerror(errno));
  }
  SENNIT_ASSIGN_OR_RETURN(TuningTable table, tuning_table_from_text(text, file));
  SENNIT_ASSIGN_OR_RETURN(const MachineKey here, discover_machine_key());
  SENNIT_RETURN_IF_ERROR(check_machine(table, here, file));
  return std::make_shared<const TuningTable>(std::move(table));
}

}  // namespace sennit
