#include "world/rendezvous/rendezvous.hpp"

#include "world/rendezvous/testing/rendezvous_fixture.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>

namespace sennit {
namespace {

class Rendezvous : public RendezvousTest {
 protected:
  void expect_joined(const std::vector<Result<Membership>>& results) const {
    const int size = static_cast<int>(results.size());
    for (int rank = 0; rank < size; ++rank) {
      const Result<Membership>& result = results[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(result.ok()) << result.status().message();
      EXPECT_EQ(result->identity.rank, rank);
      EXPECT_EQ(result->identity.key, key_);
      EXPECT_EQ(result->members.size(), results.size());
      EXPECT_EQ(result->segment->size(), some_options().segment_bytes);
    }
  }
};

TEST_F(Rendezvous, OneRankNeedsNoOther) {
  const auto results = join_ranks({0}, 1, some_options());
  expect_joined(results);
  EXPECT_TRUE(results[0]->members[0].same_process);
  EXPECT_EQ(results[0]->members[0].pid, getpid());
}

TEST_F(Rendezvous, ThreadsJoinAndShareOneMapping) {
  for (const int size : {2, 8, 64, 260}) {  // 260 members do not fit into one message
    const auto results = join_ranks(all_ranks(size), size, some_options());
    expect_joined(results);
    for (const Result<Membership>& result : results) {
      EXPECT_EQ(result->segment->data(), results[0]->segment->data());
      for (const Member& member : result->members) {
        EXPECT_TRUE(member.same_process);
        EXPECT_EQ(member.pid, getpid());
        EXPECT_FALSE(member.process.valid());
      }
    }
  }
}

TEST_F(Rendezvous, OneKeyServesOneJoinAfterAnother) {
  constexpr int kSize = 4;
  constexpr int kTimes = 20;
  std::vector<Join> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    // Without anything between the joins that would keep a fast rank from meeting a slow one's
    // past.
    ranks.emplace_back([this, rank]() -> Result<Membership> {
      for (int time = 1; time < kTimes; ++time) {
        SENNIT_RETURN_IF_ERROR(join(identity(rank, kSize), some_options()).status());
      }
      return join(identity(rank, kSize), some_options());
    });
  }
  expect_joined(run_all(ranks));
}

// What a rank in its own process does; the exit code says what was wrong.
int child_rank(const Identity& identity, pid_t parent) {
  const Result<Membership> joined = join(identity, some_options());
  if (!joined.ok()) {
    return 1;
  }
  const std::vector<Member>& members = joined->members;
  for (int rank = 0; rank < identity.size; ++rank) {
    const Member& member = members[static_cast<std::size_t>(rank)];
    if (member.same_process != (rank == identity.rank) ||
        member.process.valid() != (rank != identity.rank)) {
      return 2;
    }
  }
  if (members[0].pid != parent ||
      members[static_cast<std::size_t>(identity.rank)].pid != getpid()) {
    return 3;
  }
  auto* words = reinterpret_cast<std::atomic<int>*>(joined->segment->data());
  words[identity.rank].store(identity.rank + 100);
  pause();  // until the parent has looked, and ends this process
  return 4;
}

TEST_F(Rendezvous, ProcessesJoinAndSeeEachOtherEnd) {
  constexpr int kSize = 4;
  std::vector<pid_t> children = {getpid()};
  for (int rank = 1; rank < kSize; ++rank) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      _exit(child_rank(identity(rank, kSize), parent));
    }
    children.push_back(child);
  }
  const Result<Membership> joined = join(identity(0, kSize), some_options());
  EXPECT_TRUE(joined.ok()) << joined.status().message();
  for (int rank = 1; rank < kSize; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (joined.ok()) {
      const auto* words = reinterpret_cast<const std::atomic<int>*>(joined->segment->data());
      pollfd watched{joined->members[index].process.get(), POLLIN, 0};
      while (words[rank].load() == 0 && poll(&watched, 1, 1) == 0) {
      }
      EXPECT_EQ(words[rank].load(), rank + 100);
      EXPECT_EQ(joined->members[index].pid, children[index]);
      kill(children[index], SIGKILL);
      EXPECT_EQ(poll(&watched, 1, static_cast<int>(kGenerousSeconds * 1000)), 1)
          << "the pidfd must show that the process has ended";
    } else {
      kill(children[index], SIGKILL);
    }
    int state = 0;
    EXPECT_EQ(waitpid(children[index], &state, 0), children[index]);
    EXPECT_TRUE(WIFSIGNALED(state)) << "rank " << rank << " left with code " << WEXITSTATUS(state);
  }
}

int open_descriptors() {
  const std::filesystem::directory_iterator folder("/proc/self/fd");
  return static_cast<int>(std::distance(begin(folder), end(folder)));
}

// Joins `times` sets of two ranks and keeps them; how many more descriptors are open after the last
// one than after the first, -1 if a join fails.
int descriptors_of_later_joins(const Identity& identity, int times) {
  std::vector<Membership> kept;
  int after_first = 0;
  for (int time = 0; time < times; ++time) {
    Result<Membership> joined = join(identity, some_options());
    if (!joined.ok()) {
      return -1;
    }
    kept.push_back(std::move(*joined));
    after_first = time == 0 ? open_descriptors() : after_first;
  }
  return open_descriptors() - after_first;
}

TEST_F(Rendezvous, ProcessesHaveNoMoreDescriptorsWithMoreSets) {
  constexpr int kTimes = 64;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    _exit(descriptors_of_later_joins(identity(1, 2), kTimes) == 0 ? 0 : 1);
  }
  EXPECT_EQ(descriptors_of_later_joins(identity(0, 2), kTimes), 0);
  int state = 0;
  EXPECT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
}

TEST_F(Rendezvous, EveryRankThatJoinedNamesTheOneThatDidNot) {
  for (const Result<Membership>& result : join_ranks({0, 1, 3}, 4, some_options(0.4))) {
    expect_failure(result, Code::kJoinTimeout, {2}, "rank 2 of 4 did not join");
    EXPECT_GE(result.status().detail().elapsed_s, 0.3);
    EXPECT_EQ(result.status().detail().size, 4);
  }
}

TEST_F(Rendezvous, WithoutRankZeroTheOthersNameIt) {
  for (const Result<Membership>& result : join_ranks({1, 2}, 3, some_options(0.2))) {
    expect_failure(result, Code::kJoinTimeout, {0}, "rank 0 did not join");
  }
}

TEST_F(Rendezvous, AnImpatientRankStillLearnsWhoIsMissing) {
  const auto results = run_all({[this] { return join(identity(0, 3), some_options(1.5)); },
                                [this] { return join(identity(1, 3), some_options(0.3)); }});
  for (const Result<Membership>& result : results) {
    expect_failure(result, Code::kJoinTimeout, {2}, "rank 2 of 3 did not join");
  }
}

TEST_F(Rendezvous, ARankThatIsThereTwiceIsReportedToAll) {
  for (const Result<Membership>& result : join_ranks({0, 1, 1}, 3, some_options())) {
    expect_failure(result, Code::kInvalidArgument, {1}, "rank 1 joined twice");
  }
}

TEST_F(Rendezvous, DifferentSettingsAreListedOnEveryRank) {
  JoinOptions other = some_options();
  other.settings = "slots=8\npaths=shm\nports=2";
  other.segment_bytes = 8192;
  const auto results = run_all({[this] { return join(identity(0, 3), some_options()); },
                                [this] { return join(identity(1, 3), some_options()); },
                                [&] { return join(identity(2, 3), other); }});
  for (const Result<Membership>& result : results) {
    expect_failure(result, Code::kMismatch, {2}, "slots: 4 on rank 0, 8 on rank 2");
    const std::string message = result.status().message();
    EXPECT_NE(message.find("ports: (none) on rank 0, 2 on rank 2"), std::string::npos) << message;
    EXPECT_NE(message.find("segment bytes: 4096 on rank 0, 8192"), std::string::npos) << message;
    EXPECT_EQ(message.find("paths"), std::string::npos) << "that one is the same: " << message;
  }
}

TEST_F(Rendezvous, ARankThatComesLateIsToldOfTheMismatchToo) {
  JoinOptions other = some_options();
  other.settings = "slots=8\npaths=shm";
  Result<Membership> rank0 = Status(Code::kInternalError, "not run");
  std::thread host([&] { rank0 = join(identity(0, 3), some_options()); });
  const Result<Membership> rank2 = join(identity(2, 3), other);
  const Result<Membership> rank1 = join(identity(1, 3), some_options());
  host.join();
  for (const auto* result : std::vector<const Result<Membership>*>{&rank0, &rank1, &rank2}) {
    expect_failure(*result, Code::kMismatch, {2}, "slots: 4 on rank 0, 8 on rank 2");
  }
}

TEST_F(Rendezvous, AnotherNumberOfRanksIsAMismatch) {
  const auto results = run_all({[this] { return join(identity(0, 3), some_options()); },
                                [this] { return join(identity(1, 3), some_options()); },
                                [this] { return join(identity(2, 4), some_options()); }});
  for (const Result<Membership>& result : results) {
    expect_failure(result, Code::kMismatch, {2}, "number of ranks: 3 on rank 0, 4 on rank 2");
  }
}

TEST_F(Rendezvous, ArgumentsThatCannotBeAreRefusedAtOnce) {
  JoinOptions options = some_options();
  EXPECT_EQ(join(identity(2, 2), options).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join(identity(-1, 2), options).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join(identity(0, 0), options).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join(identity(0, kMaxRanks + 1), options).status().code(), Code::kInvalidArgument);
  options.timeout_s = 0;
  EXPECT_EQ(join(identity(0, 2), options).status().code(), Code::kInvalidArgument);
  options = some_options();
  options.segment_bytes = 0;
  EXPECT_EQ(join(identity(0, 2), options).status().code(), Code::kInvalidArgument);
  options = some_options();
  options.settings.assign(kMaxSettingsBytes + 1, 'x');
  EXPECT_EQ(join(identity(0, 2), options).status().code(), Code::kInvalidArgument);
}

TEST_F(Rendezvous, ANameInUseIsWaitedForThenItsHolderIsNamed) {
  const Result<SocketAddress> address = rendezvous_address(key_, "");
  ASSERT_TRUE(address.ok());
  Result<ListenAttempt> holder = try_listen(*address);
  ASSERT_TRUE(holder.ok() && holder->listener.valid());
  const Result<Membership> refused = join(identity(0, 2), some_options(0.1));
  expect_failure(refused, Code::kJoinTimeout, {}, fmt::format("pid {} holds it", getpid()));

  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    holder->listener.reset();
  });
  expect_joined(join_ranks({0, 1}, 2, some_options()));
  release.join();
}

TEST_F(Rendezvous, AnotherUsersNameIsAnErrorAndItsConnectionsAreDropped) {
  constexpr uid_t kNobody = 65534;
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can become another user";
  }
  const Result<SocketAddress> address = rendezvous_address(key_, "");
  ASSERT_TRUE(address.ok());
  const pid_t holder = fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    if (setuid(kNobody) != 0) {
      _exit(1);
    }
    const Result<ListenAttempt> attempt = try_listen(*address);
    pause();
    _exit(attempt.ok() ? 0 : 2);
  }
  while (true) {  // until it listens
    const Result<UniqueFd> probe = try_connect(*address);
    if (!probe.ok()) {
      break;
    }
  }
  for (const Result<Membership>& result : join_ranks({0, 1}, 2, some_options())) {
    expect_failure(result, Code::kSystemError, {}, "is held by another user");
  }
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);

  const pid_t intruder = fork();
  ASSERT_GE(intruder, 0);
  if (intruder == 0) {
    const std::string key = key_;
    if (setuid(kNobody) != 0) {
      _exit(1);
    }
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    while (connect(socket.get(),
                   reinterpret_cast<const sockaddr*>(&address->address),
                   address->length) != 0) {
      usleep(1000);
    }
    const RawConnection raw(key, std::move(socket));
    raw.send_hello(hello(1, 2));
    _exit(raw.dropped() ? 0 : 3);
  }
  Result<Membership> rank0 = Status(Code::kInternalError, "not run");
  std::thread host([&] { rank0 = join(identity(0, 2), some_options()); });
  int state = 0;
  waitpid(intruder, &state, 0);
  EXPECT_EQ(WEXITSTATUS(state), 0);
  EXPECT_TRUE(join(identity(1, 2), some_options()).ok());
  host.join();
  EXPECT_TRUE(rank0.ok()) << rank0.status().message();
}

TEST_F(Rendezvous, TooFewDescriptorsAreReportedBeforeTheStart) {
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &former), 0);
  const rlimit low{static_cast<rlim_t>(open_descriptors() + 40), former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const Result<Membership> result = join(identity(0, 64), some_options(0.2));
  setrlimit(RLIMIT_NOFILE, &former);
  expect_failure(result, Code::kSystemError, {}, "joining needs 142 more");
  EXPECT_NE(result.status().message().find("ulimit -n"), std::string::npos);
}

TEST_F(Rendezvous, RunningOutOfDescriptorsOnTheWayIsReported) {
  constexpr int kSize = 8;
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &former), 0);
  // Enough for each rank by itself, but these are threads of one process: 8 pidfds, 14 ends of
  // connections, 7 pidfds that rank 0 gets and a listener are already 30.
  const rlimit low{static_cast<rlim_t>(open_descriptors() - 1 + 30), former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto results = join_ranks(all_ranks(kSize), kSize, some_options(1.0));
  setrlimit(RLIMIT_NOFILE, &former);
  int told_why = 0;
  for (const Result<Membership>& result : results) {
    EXPECT_FALSE(result.ok());
    told_why += result.status().message().find("ulimit -n") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(told_why, 1);
}

// A folder for path sockets that is gone, with the variable, at the end of the test.
class RendezvousFolder : public Rendezvous {
 protected:
  RendezvousFolder() {
    std::string folder = testing::TempDir() + "sennit_sockets_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    setenv("SENNIT_SOCKET_DIR", folder_.c_str(), 1);
  }
  ~RendezvousFolder() override {
    unsetenv("SENNIT_SOCKET_DIR");
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
};

TEST_F(RendezvousFolder, CarriesTheSocketAndIsEmptyAfterwards) {
  expect_joined(join_ranks({0, 1, 2}, 3, some_options()));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  for (const Result<Membership>& result : join_ranks({0, 2}, 3, some_options(0.2))) {
    expect_failure(result, Code::kJoinTimeout, {1}, "rank 1 of 3 did not join");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(RendezvousFolder, ASocketThatAKilledRankLeftIsReplaced) {
  const Result<SocketAddress> address = rendezvous_address(key_, folder_);
  ASSERT_TRUE(address.ok());
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        bind(dead.get(), reinterpret_cast<const sockaddr*>(&address->address), address->length), 0);
  }
  expect_joined(join_ranks({0, 1}, 2, some_options()));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(RendezvousFolder, ASocketOfAnotherJobThatWasKilledIsRemoved) {
  const Result<SocketAddress> other = rendezvous_address(key_ + " of another job", folder_);
  const Result<SocketAddress> live = rendezvous_address(key_ + " of a job that lives", folder_);
  ASSERT_TRUE(other.ok() && live.ok());
  const Result<ListenAttempt> listens = try_listen(*live);
  ASSERT_TRUE(listens.ok() && listens->listener.valid());
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<const sockaddr*>(&other->address), other->length),
              0);
  }
  expect_joined(join_ranks({0, 1}, 2, some_options()));
  EXPECT_FALSE(std::filesystem::exists(other->text));
  EXPECT_TRUE(std::filesystem::exists(live->text));
}

TEST_F(RendezvousFolder, TheOthersRemoveTheSocketOfAKilledRankZero) {
  const pid_t rank0 = fork();
  ASSERT_GE(rank0, 0);
  if (rank0 == 0) {
    _exit(join(identity(0, 3), some_options()).ok() ? 0 : 1);
  }
  Result<Membership> rank1 = Status(Code::kInternalError, "not run");
  std::thread guest([&] { rank1 = join(identity(1, 3), some_options(1.0)); });
  while (std::filesystem::is_empty(folder_)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(rank0, SIGKILL);
  waitpid(rank0, nullptr, 0);
  guest.join();
  EXPECT_EQ(rank1.status().detail().blamed_ranks, std::vector{0}) << rank1.status().message();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(RendezvousFolder, IsRefusedWhenOthersCouldReachIt) {
  for (const mode_t mode : {mode_t{0755}, mode_t{0710}, mode_t{0701}, mode_t{0777}}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    for (const int rank : {0, 1}) {
      const Status status = join(identity(rank, 2), some_options()).status();
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
      EXPECT_NE(status.message().find("0700"), std::string::npos) << status.message();
    }
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  setenv("SENNIT_SOCKET_DIR", (folder_ / "missing").c_str(), 1);
  EXPECT_EQ(join(identity(0, 2), some_options()).status().code(), Code::kInvalidArgument);
  setenv("SENNIT_SOCKET_DIR", (folder_ / std::string(100, 'x')).c_str(), 1);
  EXPECT_EQ(join(identity(0, 2), some_options()).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace sennit
