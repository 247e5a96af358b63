#include "capi/rank_groups.hpp"

#include <cstdint>
#include <string>

namespace sennit {

Result<std::vector<std::vector<int>>> read_groups(const JsonObject& request, int ranks) {
  SENNIT_ASSIGN_OR_RETURN(const Json* lists, request.list("groups"));
  std::vector<std::vector<int>> groups;
  for (const Json& list : *lists) {
    const std::string where = fmt::format("{}[{}]", request.where("groups"), groups.size());
    SENNIT_RETURN_IF_ERROR(expect_json_list(list, where));
    std::vector<int>& members = groups.emplace_back();
    for (const Json& value : list) {
      const std::string member = fmt::format("{}[{}]", where, members.size());
      SENNIT_ASSIGN_OR_RETURN(const std::int64_t rank, json_integer(value, member, 0, ranks - 1));
      members.push_back(static_cast<int>(rank));
    }
  }
  return groups;
}

}  // namespace sennit
