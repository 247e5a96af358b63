// Assigner: a reader that chooses the paths of what is sent to it, by the Dynamic rule
// (schedule/dynamic_policy.hpp). It turns asks, messages taken and late copies of its bundles into
// events of the rule, and what the rule issues into orders.
#pragma once

#include "exec/cpu/bundle.hpp"
#include "exec/cpu/trace.hpp"
#include "schedule/dynamic_policy.hpp"

#include <cstdint>
#include <vector>

namespace sennit {

class Assigner {
 public:
  // Of those `bundles` that this rank reads and chooses for; `copies` messages come on them.
  Assigner(std::vector<Bundle>& bundles, std::int64_t copies, Trace* trace);

  // Takes what has come and issues what is due; true when anything moved.
  bool advance();
  // Bundle `index` is about to pass the message that was found on its path.
  void taken(std::size_t index);
  // Nothing more will come, no late copy either, and all orders are out.
  [[nodiscard]] bool finished() const { return policy_.finished() && all_written_; }
  [[nodiscard]] const DynamicPolicy& policy() const { return policy_; }

 private:
  std::vector<Bundle>& bundles_;
  std::vector<std::size_t> mine_;
  DynamicPolicy policy_;
  Trace* trace_;
  bool all_written_ = true;
};

}  // namespace sennit
