// Rendezvous: how ranks of one machine find each other and come to share memory.
//
//   SENNIT_ASSIGN_OR_RETURN(const Identity identity, identity_from_environment());
//   SENNIT_ASSIGN_OR_RETURN(Membership membership, join(identity, options));
//
// Rank 0 listens on a Unix socket whose name follows from the key; the others connect until the
// join deadline. Both ends check that the other belongs to the same user before they read a byte.
// Rank 0 makes the shared segment (a sealed memfd) and hands it out together with everyone's pidfd.
// A process keeps one pidfd of each other process, however many sets they are in together. Nothing
// has a name in a file system, so nothing is left behind when a rank is killed. Ranks that
// are threads of one process use the same code and end up with one mapping of the segment.
#pragma once

#include "base/fd.hpp"
#include "base/status.hpp"
#include "world/rendezvous/process_handle.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sennit {

class Deadline;
struct Hello;

struct Identity {
  int rank = 0;
  int size = 1;
  std::string key;  // any bytes that all ranks of the set share, and no other set does
  // Hosts of rank 0 (world/nodes/root_place.hpp): the ranks may be on several nodes. Empty: all are
  // on this one, and nothing listens that other machines could reach.
  std::string root{};
  bool is_key_secret = false;  // nobody else can know or guess it
};

// Where the ranks of a job on several nodes meet, and a key that nobody else knows.
struct MeetingPlace {
  std::string key;
  std::string root;  // as in Identity
};
// What a launcher brings from rank 0 to all ranks.
using MeetByLauncher = std::function<Result<MeetingPlace>(int rank)>;

// From the first complete set of variables: SENNIT_*, torchrun's, Open MPI's, hydra's, Slurm's. The
// n-th successful call of a process adds n to the key, so that several communicators stay separate.
// kInvalidUsage lists what was looked for when no set is complete, or when SENNIT_* is begun and
// not complete; kInvalidArgument names the variable of the chosen set that does not parse.
// `meet`: how ranks of several nodes meet if the variables do not say where rank 0 is.
Result<Identity> identity_from_environment(const MeetByLauncher& meet = {});

// Of the same variables, for ranks that have an identity of their own.
Result<std::string> root_from_environment();

// What may end a join before its time.
struct JoinInterruption {
  // Asked now and then while this rank waits for others; a failure ends the join. May be empty.
  std::function<Status()> reason{};
  // The others find the reason by themselves: nobody stays to report it to those that come late.
  bool is_found_by_all = false;
};

struct JoinOptions {
  double timeout_s = 60.0;
  // What all ranks must agree on, as "name=value" lines; a difference is refused and listed.
  std::string settings;
  std::size_t segment_bytes = 0;  // at least 1; the same on all ranks
  // Where the ranks turn out to be on several nodes. 0: the same.
  std::size_t segment_bytes_over_nodes = 0;
  JoinInterruption interruption{};
  // Asked once, and only where the ranks turn out to be on several nodes: what others need to reach
  // this rank from there, at most 4 KiB. May be empty.
  std::function<Result<std::string>()> rail_address{};
  // Ranks of one machine that name different nodes do not share memory; nothing: SENNIT_NODE says.
  std::optional<std::string> node{};
  bool wants_waker = false;  // the same on all ranks
};

// Memory that all ranks of a set share, zeroed at first. One mapping a process, however many of the
// ranks live in it.
class SharedSegment {
 public:
  SharedSegment(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  [[nodiscard]] std::byte* data() const { return base_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  std::byte* base_;
  std::size_t bytes_;
};

struct Member {
  pid_t pid = 0;  // as this process sees it; 0 where PID namespaces hide it
  std::string host;
  bool same_process = false;
  ProcessHandle process;       // of no process: same_process and ranks of other nodes
  int node = 0;                // nodes are numbered by their lowest rank
  int machine = 0;             // nodes may be parts of one, and share its cores
  pid_t pid_there = 0;         // of a rank of another node, as that sees it
  std::string address{};       // of its node as rank 0's sees it; empty on rank 0's own
  std::string rail_address{};  // by JoinOptions::rail_address
};

struct NodeLinks;  // world/nodes/node_links.hpp

struct Membership {
  Identity identity;
  std::vector<Member> members;             // by rank
  std::shared_ptr<SharedSegment> segment;  // of the ranks of this node
  int nodes = 1;
  UniqueFd waker{};  // an eventfd of this node's ranks, where JoinOptions wants one
  std::shared_ptr<NodeLinks> links{};  // of the lowest rank of a node, where there are several
};

// Blocks until all ranks have joined and have everything, at most options.timeout_s and a moment in
// which ranks report to each other why it failed. Every rank that takes part gets the same failure:
// kJoinTimeout names the ranks that are missing, kMismatch lists in which settings they differ,
// kInvalidArgument a rank that is there twice, kRankFailed one that died meanwhile. May be called
// by several threads at once, as one rank each.
Result<Membership> join(const Identity& identity, const JoinOptions& options);

// The parts of it. What cannot be is kInvalidArgument:
Status check_join(const Identity& identity, const JoinOptions& options);
// What a rank says of itself to rank 0.
Hello hello_of(const Identity& identity, const JoinOptions& options);
// The join itself, with failures as they travel.
Result<Membership> meet(const Identity& identity,
                        const JoinOptions& options,
                        const Deadline& deadline);
// Such a failure as the error contract says it: what, rank, elapsed, why, evidence, next.
Status describe_join_failure(const Identity& identity, const Status& failure, double elapsed_s);

}  // namespace sennit
