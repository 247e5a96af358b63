#include "comm/tuning_file.hpp"

#include "base/text_file.hpp"
#include "discover/machine_key.hpp"

namespace sennit {

Result<std::shared_ptr<const TuningTable>> load_tuning_table(const std::string& file) {
  if (file.empty()) {
    return std::shared_ptr<const TuningTable>();
  }
  const Result<std::string> text = read_text_file(file);
  if (!text.ok()) {
    return fail(Code::kInvalidArgument,
                "the tuning table {} cannot be read: {}; SENNIT_TUNING_TABLE and `tuning_table` of "
                "the config name it",
                file,
                text.status().message());
  }
  SENNIT_ASSIGN_OR_RETURN(TuningTable table, tuning_table_from_text(*text, file));
  SENNIT_ASSIGN_OR_RETURN(const MachineKey here, discover_machine_key());
  SENNIT_RETURN_IF_ERROR(check_machine(table, here, file));
  return std::make_shared<const TuningTable>(std::move(table));
}

Result<std::optional<GpuProfile>> load_gpu_profile(const std::string& file) {
  if (file.empty()) {
    return std::optional<GpuProfile>();
  }
  const Result<std::string> text = read_text_file(file);
  if (!text.ok()) {
    return fail(Code::kInvalidArgument,
                "the GPU profile {} cannot be read: {}; SENNIT_GPU_PROFILE names it",
                file,
                text.status().message());
  }
  SENNIT_ASSIGN_OR_RETURN(GpuProfile profile, gpu_profile_from_text(*text, file));
  return std::optional(std::move(profile));
}

}  // namespace sennit
