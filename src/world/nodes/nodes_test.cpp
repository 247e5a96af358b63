#include "world/nodes/nodes.hpp"

#include "world/nodes/node_links.hpp"  // IWYU pragma: keep: what a pointer points to
#include "world/peer_processes.hpp"
#include "world/rendezvous/join_request.hpp"
#include "world/rendezvous/testing/rendezvous_fixture.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace sennit {
namespace {

// Ranks as threads on nodes that they name themselves.
class Nodes : public RendezvousTest {
 protected:
  [[nodiscard]] Identity identity_over_nodes(int rank, int size) const {
    return {.rank = rank, .size = size, .key = key_, .root = "127.0.0.1"};
  }
  static JoinOptions on_node(const std::string& node, double timeout_s = kGenerousSeconds) {
    JoinOptions options = some_options(timeout_s);
    options.node = node;
    return options;
  }
  // Rank r on the node that nodes[r] names.
  [[nodiscard]] std::vector<Result<Membership>> join_on(const std::string& nodes) const {
    std::vector<Join> joins;
    const int size = static_cast<int>(nodes.size());
    for (int rank = 0; rank < size; ++rank) {
      const std::string node(1, nodes[static_cast<std::size_t>(rank)]);
      joins.emplace_back([this, rank, size, node] {
        JoinOptions options = on_node(node);
        options.rail_address = [rank] { return fmt::format("rail of {}", rank); };
        return join_world(identity_over_nodes(rank, size), options);
      });
    }
    return run_all(joins);
  }
};

TEST_F(Nodes, RanksOfANodeShareMemoryAndKnowTheOthers) {
  for (const std::string nodes : {"aabb", "abab", "aaab", "abcd", "baa", "abbbbbbb"}) {
    const auto results = join_on(nodes);
    std::vector<char> names;  // of the nodes in their order
    for (const char name : nodes) {
      if (std::ranges::find(names, name) == names.end()) {
        names.push_back(name);
      }
    }
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      ASSERT_TRUE(results[rank].ok()) << nodes << ": " << results[rank].status().message();
      const Membership& membership = *results[rank];
      EXPECT_EQ(membership.nodes, static_cast<int>(names.size())) << nodes;
      ASSERT_EQ(membership.members.size(), nodes.size());
      EXPECT_EQ(PeerProcesses(membership, nullptr).ranks_of_machine(),
                static_cast<int>(nodes.size()));
      for (std::size_t peer = 0; peer < nodes.size(); ++peer) {
        const Member& member = membership.members[peer];
        const bool is_local = nodes[peer] == nodes[rank];
        EXPECT_EQ(names[static_cast<std::size_t>(member.node)], nodes[peer]) << nodes;
        EXPECT_EQ(member.rail_address, fmt::format("rail of {}", peer));
        EXPECT_EQ(member.same_process, is_local);
        EXPECT_EQ(member.pid, is_local ? getpid() : 0);
        EXPECT_EQ(member.pid_there, getpid());
        EXPECT_EQ(membership.segment->data() == results[peer]->segment->data(), is_local) << nodes;
      }
    }
  }
}

TEST_F(Nodes, TheLowestRanksKeepConnections) {
  const auto results = join_on("aabbc");
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status().message();
  }
  EXPECT_EQ(results[1]->links, nullptr);
  EXPECT_EQ(results[3]->links, nullptr);
  const auto& root = results[0]->links->to_node;
  ASSERT_EQ(root.size(), 3U);
  EXPECT_EQ(root[0], nullptr);
  for (const std::size_t node : {std::size_t{1}, std::size_t{2}}) {
    NodeLink& guest = *results[node == 1 ? 2 : 4]->links->to_node.front();
    guest.send(100, "hello");
    std::optional<StreamMessage> message;
    while (!message && root[node]->pump() == NodeLink::State::kOpen) {
      message = root[node]->next();
    }
    ASSERT_TRUE(message);
    EXPECT_EQ(message->type, 100);
  }
}

TEST_F(Nodes, OnOneNodeNothingIsKept) {
  for (const auto& result : join_on("aaa")) {
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->nodes, 1);
    EXPECT_EQ(result->links, nullptr);
    EXPECT_TRUE(result->members[1].rail_address.empty()) << "nobody needs it";
  }
}

TEST_F(Nodes, ManyRanksAndNodesFitIntoSeveralMessages) {
  std::string nodes;
  for (int rank = 0; rank < 70; ++rank) {
    nodes += static_cast<char>('0' + rank % 5);
  }
  const auto results = join_on(nodes);
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->nodes, 5);
    EXPECT_EQ(result->members[69].rail_address, "rail of 69");
  }
}

TEST_F(Nodes, OneKeyServesOneJoinAfterAnother) {
  constexpr int kSize = 4;
  std::vector<Join> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([this, rank]() -> Result<Membership> {
      const JoinOptions options = on_node(rank < 2 ? "a" : "b");
      for (int time = 1; time < 10; ++time) {
        SENNIT_RETURN_IF_ERROR(join_world(identity_over_nodes(rank, kSize), options).status());
      }
      return join_world(identity_over_nodes(rank, kSize), options);
    });
  }
  for (const auto& result : run_all(ranks)) {
    EXPECT_TRUE(result.ok()) << result.status().message();
  }
}

TEST_F(Nodes, EveryRankThatJoinedNamesTheOneThatDidNot) {
  std::vector<Join> joins;
  for (const int rank : {0, 1, 3}) {
    joins.emplace_back([this, rank] {
      return join_world(identity_over_nodes(rank, 4), on_node(rank < 2 ? "a" : "b", 0.5));
    });
  }
  for (const auto& result : run_all(joins)) {
    expect_failure(result, Code::kJoinTimeout, {2}, "rank 2 of 4 did not join");
  }
}

TEST_F(Nodes, WithoutRankZeroTheOthersNameIt) {
  const auto results =
      run_all({[this] { return join_world(identity_over_nodes(1, 3), on_node("a", 0.3)); },
               [this] { return join_world(identity_over_nodes(2, 3), on_node("b", 0.3)); }});
  for (const auto& result : results) {
    expect_failure(result, Code::kJoinTimeout, {0}, "rank 0 did not join");
  }
}

TEST_F(Nodes, AnotherKeyIsNotLetInAndIsToldWhatItMet) {
  const std::string root = "127.0.0.1:24711";
  const auto with = [&](int rank, const std::string& key) {
    return join_world({.rank = rank, .size = 2, .key = key, .root = root},
                      on_node(rank == 0 ? "a" : "b", 1.0));
  };
  const auto results =
      run_all({[&] { return with(0, key_); }, [&] { return with(1, key_ + " of others"); }});
  expect_failure(results[0], Code::kJoinTimeout, {1}, "rank 1 of 2 did not join");
  expect_failure(results[1], Code::kJoinTimeout, {0}, "does not have this job's key");
}

TEST_F(Nodes, DifferentSettingsAreListedOnEveryRank) {
  JoinOptions other = on_node("b");
  other.settings = "slots=8\npaths=shm";
  const auto results =
      run_all({[this] { return join_world(identity_over_nodes(0, 3), on_node("a")); },
               [this] { return join_world(identity_over_nodes(1, 3), on_node("b")); },
               [&] { return join_world(identity_over_nodes(2, 3), other); }});
  for (const auto& result : results) {
    expect_failure(result, Code::kMismatch, {2}, "slots: 4 on rank 0, 8 on rank 2");
  }
}

TEST_F(Nodes, ARankThatIsThereTwiceIsReportedToAll) {
  const auto results =
      run_all({[this] { return join_world(identity_over_nodes(0, 3), on_node("a")); },
               [this] { return join_world(identity_over_nodes(1, 3), on_node("b")); },
               [this] { return join_world(identity_over_nodes(1, 3), on_node("c")); }});
  for (const auto& result : results) {
    expect_failure(result, Code::kInvalidArgument, {1}, "rank 1 joined twice");
  }
}

TEST_F(Nodes, ARailThatFailsOnOneRankIsReportedToAll) {
  JoinOptions broken = on_node("b");
  broken.rail_address = [] {
    return Result<std::string>(join_failure(Code::kSystemError, "no card", {}, "none", "look"));
  };
  const auto results =
      run_all({[this] { return join_world(identity_over_nodes(0, 3), on_node("a")); },
               [this] { return join_world(identity_over_nodes(1, 3), on_node("a")); },
               [&] { return join_world(identity_over_nodes(2, 3), broken); }});
  for (const auto& result : results) {
    expect_failure(result, Code::kSystemError, {}, "no card");
  }
}

TEST_F(Nodes, AnAbortedJoinIsReportedToAll) {
  JoinOptions impatient = on_node("b");
  const auto begin = std::chrono::steady_clock::now();
  impatient.interruption.reason = [begin]() -> Status {
    // Long enough for rank 0 to have counted it.
    if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(500)) {
      return {};
    }
    return join_failure(Code::kAborted, "it was aborted", {}, "by its user", "nothing");
  };
  const auto results =
      run_all({[this] { return join_world(identity_over_nodes(0, 3), on_node("a")); },
               [&] { return join_world(identity_over_nodes(1, 3), impatient); }});
  EXPECT_EQ(results[0].status().code(), Code::kAborted) << results[0].status().message();
  EXPECT_EQ(results[1].status().code(), Code::kAborted) << results[1].status().message();
}

TEST_F(Nodes, ARankThatDiesAfterItsNodeHasMetIsNamed) {
  const Identity second = identity_over_nodes(3, 4);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    JoinOptions options = on_node("b");
    options.rail_address = []() -> Result<std::string> { _exit(0); };  // before it is ready
    static_cast<void>(join_world(second, options));
    _exit(1);
  }
  const auto results =
      run_all({[this] { return join_world(identity_over_nodes(0, 4), on_node("a")); },
               [this] { return join_world(identity_over_nodes(1, 4), on_node("a")); },
               [this] { return join_world(identity_over_nodes(2, 4), on_node("b")); }});
  for (const auto& result : results) {
    expect_failure(result, Code::kRankFailed, {3}, "rank 3 (");
  }
  int state = 0;
  EXPECT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST_F(Nodes, ProcessesOfANodeHaveEachOthersHandles) {
  constexpr int kSize = 4;
  std::vector<pid_t> children;
  for (int rank = 1; rank < kSize; ++rank) {
    const Identity own = identity_over_nodes(rank, kSize);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto joined = join_world(own, on_node(rank < 2 ? "a" : "b"));
      const auto is_right = [&](int peer) {
        const Member& member = joined->members[static_cast<std::size_t>(peer)];
        return member.process.valid() == (peer != rank && (peer < 2) == (rank < 2));
      };
      _exit(joined.ok() && is_right(0) && is_right(1) && is_right(2) && is_right(3) ? 0 : 1);
    }
    children.push_back(child);
  }
  const auto joined = join_world(identity_over_nodes(0, kSize), on_node("a"));
  ASSERT_TRUE(joined.ok()) << joined.status().message();
  EXPECT_EQ(joined->members[2].pid_there, children[1]);
  EXPECT_EQ(joined->members[2].pid, 0);
  EXPECT_EQ(PeerProcesses(*joined, nullptr).ranks_of_machine(), kSize);
  for (const pid_t child : children) {
    int state = 0;
    EXPECT_EQ(waitpid(child, &state, 0), child);
    EXPECT_EQ(WEXITSTATUS(state), 0);
  }
}

TEST_F(Nodes, AnAddressOfTheRootMayBeNamedTwice) {
  const auto join = [this](int rank) {
    Identity identity = identity_over_nodes(rank, 2);
    identity.root = "127.0.0.1,127.0.0.1";
    return join_world(identity, on_node(rank == 0 ? "a" : "b"));
  };
  for (const auto& result : run_all({[&] { return join(0); }, [&] { return join(1); }})) {
    EXPECT_TRUE(result.ok()) << result.status().message();
  }
}

TEST_F(Nodes, ARootThatIsNotHereIsRefusedAtOnce) {
  // An address for documentation: no machine has it.
  const auto result =
      join_world({.rank = 0, .size = 2, .key = key_, .root = "192.0.2.7"}, on_node("a"));
  expect_failure(result, Code::kInvalidArgument, {0}, "rank 0 is not on 192.0.2.7");
  EXPECT_LT(result.status().detail().elapsed_s, kGenerousSeconds / 2);
}

}  // namespace
}  // namespace sennit
