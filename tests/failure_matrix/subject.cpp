#include "failure_matrix/subject.hpp"

#include "node_groups.hpp"

#include <fmt/format.h>

namespace sennit::tests {
namespace {

constexpr std::size_t kTileBytes = 128;
constexpr std::size_t kTiles = 2;

float value(int rank, std::size_t index) {
  return static_cast<float>(1000 * (rank + 1) + static_cast<int>(index));
}

float sum(int ranks, std::size_t index) {
  float total = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    total += value(rank, index);
  }
  return total;
}

// One for each algorithm, otherwise as `subject` is.
void add_subjects(Subject subject, std::vector<Subject>& all) {
  // Trees of other roots are the same but for the ranks' numbers; this root is not the first.
  subject.root = 1;
  for (const Collective collective : kCollectives) {
    for (const Algorithm& algorithm : algorithms(collective)) {
      subject.algorithm = &algorithm;
      const bool is_pair = collective == Collective::kSendRecv;
      Shape shape{.ranks = is_pair ? 2 : subject.ranks, .root = is_pair ? 0 : subject.root};
      if (!is_pair) {
        shape.groups = groups_of(subject.nodes);
      }
      const auto schedule = make_schedule(algorithm, shape);
      if (!schedule.ok()) {
        continue;
      }
      const auto blocks = is_cut(collective) ? static_cast<std::size_t>(schedule->problem.cut) : 1;
      const bool has_data = collective != Collective::kBarrier;
      subject.count = has_data ? blocks * kTiles * kTileBytes / sizeof(float) : 0;
      all.push_back(subject);
    }
  }
}

}  // namespace

std::string Subject::name() const {
  return fmt::format("{} {}, {}, {} ranks{}{}",
                     sennit::name(algorithm->collective),
                     algorithm->name,
                     protocol,
                     ranks,
                     nodes.empty() ? "" : " on nodes ",
                     nodes);
}

std::vector<Subject> subjects(int ranks) {
  std::vector<Subject> all;
  add_subjects({.ranks = ranks, .protocol = "slots"}, all);
  add_subjects({.ranks = ranks, .protocol = "direct"}, all);
  return all;
}

std::vector<Subject> subjects_on(std::string_view nodes) {
  std::vector<Subject> all;
  add_subjects({.ranks = static_cast<int>(nodes.size()), .protocol = "slots", .nodes = nodes}, all);
  return all;
}

SubjectCall::SubjectCall(const Subject& subject, int rank) : subject_(subject), rank_(rank) {
  const auto n = static_cast<std::size_t>(subject.ranks);
  input_.resize(subject.count * n);
  for (std::size_t i = 0; i < input_.size(); ++i) {
    input_[i] = value(rank, i);
  }
  output_.assign(subject.count * n, -1);
}

sennit_status_t SubjectCall::run(sennit_comm_t comm, double deadline_s) {
  const std::string algorithm(subject_.algorithm->name);
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.algorithm = algorithm.c_str();
  options.protocol = subject_.protocol;
  options.tile_bytes = kTileBytes;
  options.deadline_s = deadline_s;
  const auto f32 = SENNIT_FLOAT32;
  const auto add = SENNIT_SUM;
  const float* in = input_.data();
  float* out = output_.data();
  const std::size_t count = subject_.count;
  const int root = subject_.root;
  switch (subject_.algorithm->collective) {
    case Collective::kAllReduce:
      return sennit_all_reduce(in, out, count, f32, add, comm, nullptr, &options);
    case Collective::kReduce:
      return sennit_reduce(in, out, count, f32, add, root, comm, nullptr, &options);
    case Collective::kBroadcast:
      return sennit_broadcast(in, out, count, f32, root, comm, nullptr, &options);
    case Collective::kAllGather:
      return sennit_all_gather(in, out, count, f32, comm, nullptr, &options);
    case Collective::kReduceScatter:
      return sennit_reduce_scatter(in, out, count, f32, add, comm, nullptr, &options);
    case Collective::kAllToAll:
      return sennit_all_to_all(in, out, count, f32, comm, nullptr, &options);
    case Collective::kGather:
      return sennit_gather(in, out, count, f32, root, comm, nullptr, &options);
    case Collective::kScatter:
      return sennit_scatter(in, out, count, f32, root, comm, nullptr, &options);
    case Collective::kBarrier:
      return sennit_barrier(comm, nullptr, &options);
    case Collective::kSendRecv:
      return shift(comm, options);
  }
  return SENNIT_INVALID_USAGE;
}

sennit_status_t SubjectCall::shift(sennit_comm_t comm, const sennit_call_options_t& options) {
  const std::size_t count = subject_.count;
  const int next = (rank_ + 1) % subject_.ranks;
  sennit_group_start();
  sennit_send(input_.data(), count, SENNIT_FLOAT32, next, comm, nullptr, &options);
  sennit_recv(output_.data(), count, SENNIT_FLOAT32, previous(), comm, nullptr, &options);
  return sennit_group_end();
}

std::size_t SubjectCall::output_size() const {
  const bool is_root = rank_ == subject_.root;
  const std::size_t all = subject_.count * static_cast<std::size_t>(subject_.ranks);
  switch (subject_.algorithm->collective) {
    case Collective::kReduce:
      return is_root ? subject_.count : 0;
    case Collective::kGather:
      return is_root ? all : 0;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return all;
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduceScatter:
    case Collective::kScatter:
    case Collective::kBarrier:
    case Collective::kSendRecv:
      break;
  }
  return subject_.count;
}

float SubjectCall::expected(std::size_t index) const {
  const std::size_t count = subject_.count;
  const auto from = static_cast<int>(index / count);
  const std::size_t mine = static_cast<std::size_t>(rank_) * count + index % count;
  switch (subject_.algorithm->collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return sum(subject_.ranks, index);
    case Collective::kBroadcast:
      return value(subject_.root, index);
    case Collective::kAllGather:
    case Collective::kGather:
      return value(from, index % count);
    case Collective::kReduceScatter:
      return sum(subject_.ranks, mine);
    case Collective::kAllToAll:
      return value(from, mine);
    case Collective::kScatter:
      return value(subject_.root, mine);
    case Collective::kSendRecv:
      return value(previous(), index);
    case Collective::kBarrier:
      break;
  }
  return 0;
}

bool SubjectCall::is_right() const {
  for (std::size_t i = 0; i < output_size(); ++i) {
    if (output_[i] != expected(i)) {
      return false;
    }
  }
  return true;
}

}  // namespace sennit::tests
