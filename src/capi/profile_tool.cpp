// sennit_tool_gpu_profiles: the profiles that are built in, or one that is checked.
#include "base/json.hpp"
#include "capi/respond.hpp"
#include "select/built_in_profiles.hpp"
#include "select/gpu_profile.hpp"
#include "sennit/tools.h"

#include <string>
#include <string_view>

namespace sennit {
namespace {

Json form_of(const GpuProfile& profile, std::string_view text) {
  return {{"name", profile.name},
          {"gpus", profile.gpus},
          {"compute_capability", profile.compute_capability},
          {"hash", profile.hash},
          {"text", text}};
}

Result<Json> list_or_check(const JsonObject& request) {
  Json forms = Json::array();
  if (request.has("text")) {
    SENNIT_ASSIGN_OR_RETURN(const std::string text, request.text("text"));
    SENNIT_ASSIGN_OR_RETURN(const GpuProfile profile, gpu_profile_from_text(text, "text"));
    forms.push_back(form_of(profile, text));
  } else {
    for (std::size_t i = 0; i < gpu_profiles().size(); ++i) {
      forms.push_back(form_of(gpu_profiles()[i], built_in_profiles()[i].text));
    }
  }
  return Json{{"profiles", std::move(forms)}};
}

}  // namespace
}  // namespace sennit

sennit_status_t sennit_tool_gpu_profiles(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {"text"}, sennit::list_or_check);
}
