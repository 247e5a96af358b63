// A row as one line of JSON, in the fields that docs/bench_json.md lists.
#pragma once

#include "measure.hpp"
#include "work_order.hpp"

#include <string>

namespace sennit::bench {

// `rival_version` is empty where there is no rival.
std::string to_json(const WorkOrder& order,
                    int ranks,
                    const Row& row,
                    const std::string& rival_version);

}  // namespace sennit::bench
