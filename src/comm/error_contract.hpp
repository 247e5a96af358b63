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

}  // namespace sennit
