#include "exec/cpu/assigner.hpp"

namespace sennit {

Assigner::Assigner(std::vector<Bundle>& bundles, std::int64_t copies, Trace* trace)
    : bundles_(bundles), policy_(copies), trace_(trace) {
  for (std::size_t b = 0; b < bundles_.size(); ++b) {
    if (bundles_[b].by_reader() && !bundles_[b].ends().outgoing) {
      mine_.push_back(b);
    }
  }
}

bool Assigner::advance() {
  bool moved = false;
  for (const std::size_t b : mine_) {
    Bundle& bundle = bundles_[b];
    if (bundle.awaits_late()) {
      // The message that it is a copy of was the one before.
      const std::optional<int> late = bundle.drop_late();
      if (late) {
        if (trace_ != nullptr) {
          TraceMessage message = bundle.trace(TraceMessage::Event::kLate, *late);
          --message.message;
          --message.position;
          message.tick = trace_->tick();
          trace_->add(message);
        }
        policy_.complete(static_cast<int>(b), *late);
        bundle.order(Orders::Answer::kEnd, 0);
        moved = true;
      }
    } else if (bundle.orders().take_ask()) {
      policy_.arrive(static_cast<int>(b));
      moved = true;
    }
  }
  while (const auto issue = policy_.next()) {
    bundles_[static_cast<std::size_t>(issue->member)].order(
        issue->again ? Orders::Answer::kAgain : Orders::Answer::kGo, issue->type);
    moved = true;
  }
  all_written_ = true;
  for (const std::size_t b : mine_) {
    all_written_ = bundles_[b].orders().write() && all_written_;
  }
  return moved;
}

void Assigner::taken(std::size_t index) {
  Bundle& bundle = bundles_[index];
  policy_.complete(static_cast<int>(index), bundle.path());
  bundle.taken();
  if (!bundle.awaits_late()) {
    bundle.order(Orders::Answer::kEnd, 0);
    all_written_ = bundle.orders().write() && all_written_;
  }
}

}  // namespace sennit
