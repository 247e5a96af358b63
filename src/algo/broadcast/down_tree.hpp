// The vector on its way down a k-nomial tree, for the rows that differ in where nodes keep it.
#pragma once

#include "algo/k_nomial_tree.hpp"
#include "schedule/builder.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace sennit::algo::broadcast {

// After which step a node has the vector, by virtual number; none at a root that has it from the
// start.
using Arrivals = std::vector<std::optional<StepRef>>;

// `held` says in which block a node keeps the vector while it passes it on.
Arrivals send_down_tree(Builder& b,
                        const KNomialTree& tree,
                        const std::function<Block(int v)>& held,
                        std::optional<StepRef> at_root);

}  // namespace sennit::algo::broadcast
