#include "exec/cpu/bundle.hpp"

#include <chrono>
#include <cstring>
#include <utility>

namespace sennit {

static_assert(kMaxBundlePaths == channel::kMaxPaths);

Bundle::Bundle(const BoundProgram& bound, const ProgramBundle& ends, std::uint32_t fingerprint)
    : bound_(bound), ends_(ends), fingerprint_(fingerprint) {
  for (int p = 0; p < ends_.paths; ++p) {
    channel::add_path(counts_, p, *link(p).position);
    begin_[p] = untaken_[p] = counts_.position[p];
  }
  first_ = counts_.sequence;
  if (ends_.ask >= 0) {
    orders_.emplace(bound_, ends_, fingerprint);
  }
}

Spot Bundle::spot_on(int path) const {
  return {.link = &link(path),
          .position = counts_.position[path],
          .protocol = link(path).protocol,
          .tag = counts_.sequence};
}

TraceMessage Bundle::trace(TraceMessage::Event event, int path) const {
  return {.rank = bound_.program().rank,
          .strand = ends_.strand,
          .copy = ends_.copy,
          .channel = ends_.channel,
          .peer = peer(),
          .event = event,
          .message = static_cast<std::int64_t>(counts_.sequence - first_),
          .path = path,
          .position = spot_on(path).position};
}

void Bundle::finish() const {
  for (int p = 0; p < ends_.paths; ++p) {
    *link(p).position = counts_.position[p];
  }
  if (orders_) {
    orders_->finish();
  }
}

bool Bundle::has_slot(int path) const {
  const std::uint64_t position = counts_.position[path];
  const shm::Ring& ring = link(path).ring;
  return channel::may_write(ring.free(position), position, ring.slots());
}

// Slots of a path are returned in order, so looking on from the oldest is enough.
void Bundle::add_load(int path, PathView& view) {
  std::uint64_t& oldest = untaken_[path];
  while (oldest < counts_.position[path] &&
         channel::is_released(link(path).ring.free(oldest), oldest)) {
    ++oldest;
  }
  const int now = published_ && path == path_ ? 1 : 0;
  view.under_way += static_cast<std::int64_t>(counts_.position[path] - oldest) + now;
  view.taken += static_cast<std::int64_t>(oldest - begin_[path]);
}

bool Bundle::pick(const PathPolicy& policy, std::span<PathView> views) {
  for (int p = 0; p < ends_.paths; ++p) {
    views[static_cast<std::size_t>(p)].free = has_slot(p);
  }
  const MessageId id{.number = counts_.sequence,
                     .channel = static_cast<std::uint64_t>(ends_.first_link)};
  return use(sennit::pick(policy, id, views.first(static_cast<std::size_t>(ends_.paths))));
}

bool Bundle::use(int path) {
  path_ = path;
  return has_slot(path);
}

void Bundle::sent() {
  if (again_ >= 0) {
    ++counts_.position[again_];
  }
  channel::pass(counts_, path_);
  again_ = -1;
  published_ = false;
  if (orders_) {
    orders_->pass();
  }
}

bool Bundle::holds(int path, std::uint64_t sequence) const {
  const std::uint64_t position = counts_.position[path];
  const shm::Ring& ring = link(path).ring;
  return channel::is_full(ring.full(position), position, fingerprint_) &&
         ring.tag(position) == sequence;
}

bool Bundle::is_visible(int path, std::uint64_t sequence) {
  if (!holds(path, sequence)) {
    return false;
  }
  const std::optional<SlowPath>& slow = bound_.rank().slow_path;
  if (!slow || slow->path != link(path).path.kind) {
    return true;
  }
  const auto now = std::chrono::steady_clock::now();
  if (seen_ != sequence + 1) {
    seen_ = sequence + 1;
    seen_since_ = now;
  }
  return now >= seen_since_ + slow->delay;
}

bool Bundle::find() {
  for (int p = 0; p < ends_.paths; ++p) {
    if (is_visible(p, counts_.sequence)) {
      path_ = p;
      return true;
    }
  }
  return false;
}

bool Bundle::is_there() const {
  for (int p = 0; p < ends_.paths; ++p) {
    if (holds(p, counts_.sequence)) {
      return true;
    }
  }
  return false;
}

bool Bundle::is_foreign() const {
  for (int p = 0; p < ends_.paths; ++p) {
    const std::uint64_t position = counts_.position[p];
    if (channel::is_foreign(link(p).ring.full(position), position, fingerprint_)) {
      return true;
    }
  }
  return false;
}

void Bundle::taken() {
  if (orders_) {
    orders_->taken();
  }
  if (again_ >= 0) {
    late_ = path_ == again_ ? first_path_ : again_;
    late_sequence_ = counts_.sequence;
    again_ = -1;
  }
  channel::pass(counts_, path_);
}

void Bundle::order(Orders::Answer answer, int path) {
  orders_->add({.answer = answer, .path = path});
  if (answer == Orders::Answer::kGo) {
    first_path_ = path;
  } else if (answer == Orders::Answer::kAgain) {
    again_ = path;
  }
}

std::optional<int> Bundle::drop_late() {
  if (late_ < 0 || !is_visible(late_, late_sequence_)) {
    return std::nullopt;
  }
  const int path = std::exchange(late_, -1);
  const std::uint64_t position = counts_.position[path]++;
  channel::release_slot(link(path).ring.free(position), position);
  wake(*link(path).bell);
  return path;
}

}  // namespace sennit
