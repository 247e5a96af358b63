#include "comm/error_contract.hpp"

#include <fmt/format.h>

namespace sennit {

Status error_contract(const Work& work,
                      const Verdict& verdict,
                      const World& world,
                      const std::string& comm_name) {
  const Operation& op = work.operation;
  ErrorDetail detail;
  detail.comm = comm_name;
  detail.op = name_of(op);
  detail.sequence = work.sequence;
  detail.count = static_cast<std::uint64_t>(op.count);
  detail.dtype = name(op.dtype);
  detail.reduce_op = is_reduction(op.collective) ? name(op.op) : "";
  detail.root = is_rooted(op.collective) ? op.root : -1;
  detail.rank = world.rank();
  detail.size = world.size();
  detail.blamed_ranks = verdict.blamed_ranks;
  detail.evidence = verdict.evidence;
  detail.elapsed_s = std::chrono::duration<double>(Clock::now() - work.posted).count();
  detail.next = !verdict.next.empty() ? verdict.next
                : verdict.code == Code::kMismatch
                    ? "make all ranks call the same operation in the same order, then start again"
                    : "abort() the communicator, then shrink() it to the survivors, or exit";
  const std::string peer =
      op.peer == kAnyRank ? " from any rank" : fmt::format(" with peer {}", op.peer);
  const std::string call = work.sequence != 0
                               ? fmt::format(" #{}", work.sequence)
                               : peer + (op.tag != 0 ? fmt::format(", tag {}", op.tag) : "");
  std::string message = fmt::format(
      "{}{} ({} x {} = {} bytes{}{}) on comm '{}', rank {} of {}, failed after {:.2f} s: {}. The "
      "communicator is now failed; outputs are undefined. Next: {}.",
      detail.op,
      call,
      detail.count,
      detail.dtype,
      detail.count * size_bytes(op.dtype),
      detail.reduce_op.empty() ? "" : ", " + detail.reduce_op,
      detail.root < 0 ? "" : fmt::format(", root {}", detail.root),
      detail.comm,
      detail.rank,
      detail.size,
      detail.elapsed_s,
      verdict.evidence,
      detail.next);
  return {verdict.code, std::move(message), std::move(detail)};
}

Status gpu_error_contract(const Verdict& verdict,
                          const World& world,
                          const std::string& comm_name) {
  ErrorDetail detail;
  detail.comm = comm_name;
  detail.rank = world.rank();
  detail.size = world.size();
  detail.blamed_ranks = verdict.blamed_ranks;
  detail.evidence = verdict.evidence;
  detail.next = verdict.code == Code::kMismatch
                    ? "make all ranks call the same operation in the same order, then start again"
                    : "abort() it, then shrink() to the survivors, or exit";
  std::string message =
      fmt::format("a GPU call on communicator '{}', rank {} of {}, failed: {}. Next: {}",
                  comm_name,
                  world.rank(),
                  world.size(),
                  verdict.evidence,
                  detail.next);
  return {verdict.code, std::move(message), std::move(detail)};
}

}  // namespace sennit
