#include "comm/own_wait.hpp"

namespace sennit {

void OwnWait::begin(const Work& work, bool for_good, Clock::time_point now) {
  if (work_ != &work) {
    work_ = &work;
    first_ = now;
    spent_ = {};
    reported_ = 0;
  }
  is_on_ = true;
  for_good_ = for_good;
  last_ = now;
  if (reported_ != 0) {
    line_.long_wait.store(reported_, std::memory_order_release);
  }
}

void OwnWait::end() {
  is_on_ = false;
  if (!for_good_) {
    spent_ += Clock::now() - last_;
  }
  if (reported_ != 0 && !is_kept_) {
    line_.long_wait.store(0, std::memory_order_release);
  }
}

bool OwnWait::touch() {
  if (!is_on_) {  // on, where another thread waits for other communicators of the engine
    work_ = nullptr;
  }
  return is_on_;
}

// A program may wait in slices, to look after signals in between: they count as one wait when it
// has come back from some and has done nothing else for a while.
const Work* OwnWait::work(Clock::time_point now) const {
  if (!is_on_ || work_->ended) {
    return nullptr;
  }
  const Clock::duration since = now - first_;
  const bool comes_back = spent_ > kLong && spent_ + (now - last_) > since - since / 16;
  return for_good_ || comes_back ? work_ : nullptr;
}

void OwnWait::report(const LongWait& wait) {
  const std::uint64_t word = wait.word();
  if (word != reported_) {
    reported_ = word;
    line_.long_wait.store(word, std::memory_order_release);
  }
  if (word != 0) {
    line_.beats.fetch_add(1, std::memory_order_acq_rel);
  }
}

bool OwnWait::has_reported(const Work& work) const {
  if (!is_on_ || reported_ == 0) {
    return false;
  }
  const LongWait reported = LongWait::of(reported_);
  if (reported.call == LongWait::Call::kCollective) {
    return work.sequence == reported.number;
  }
  return work.sequence == 0 && work.operation.peer == reported.peer &&
         work.message == reported.number &&
         work.operation.is_send == (reported.call == LongWait::Call::kSend);
}

}  // namespace sennit
