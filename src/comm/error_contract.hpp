// The error contract (docs/errors.md): the one line, and its fields, by which a failed call is
// reported.
#pragma once

#include "comm/work.hpp"
#include "world/watch.hpp"

#include <string>

namespace sennit {

Status error_contract(const Work& work,
                      const Verdict& verdict,
                      const World& world,
                      const std::string& comm_name);
// Of a call of GPU ranks, which has no Work.
Status gpu_error_contract(const Verdict& verdict, const World& world, const std::string& comm_name);

}  // namespace sennit
