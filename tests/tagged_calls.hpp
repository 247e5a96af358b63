// For tests: sends and recvs with tags, of elements that say which message they are of.
#pragma once

#include "rank_processes.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace sennit::tests {

using Data = std::vector<std::int32_t>;

// Elements that say which message they are of.
inline Data message(std::size_t count, int first) {
  Data data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

inline sennit_status_t send(const Data& data, int peer, int tag, sennit_comm_t comm) {
  sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
  options.tag = tag;
  return sennit_send(data.data(), data.size(), SENNIT_INT32, peer, comm, nullptr, &options);
}

// A recv on its way.
class Recv {
 public:
  Recv(std::size_t count, int peer, int tag, sennit_comm_t comm, double deadline_s = 0)
      : data(count, -1) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.tag = tag;
    options.work = &work_;
    options.deadline_s = deadline_s;
    status_ = sennit_recv(data.data(), count, SENNIT_INT32, peer, comm, nullptr, &options);
  }
  Recv(const Recv&) = delete;
  Recv& operator=(const Recv&) = delete;
  ~Recv() { sennit_work_destroy(work_); }

  sennit_status_t wait() { return status_ == SENNIT_OK ? sennit_work_wait(work_, -1) : status_; }
  bool has_ended() const {
    int done = 0;
    return sennit_work_test(work_, &done) == SENNIT_OK && done != 0;
  }
  // The sender, once it has ended well; -1: it has not.
  int peer() const {
    int peer = -1;
    return sennit_work_peer(work_, &peer) == SENNIT_OK ? peer : -1;
  }
  // Waits, and compares with what message() makes.
  bool brings(int first) { return wait() == SENNIT_OK && data == message(data.size(), first); }

  Data data;

 private:
  sennit_work_t work_ = nullptr;
  sennit_status_t status_;
};

// Sends on their way.
class Sends {
 public:
  Sends() = default;
  Sends(const Sends&) = delete;
  Sends& operator=(const Sends&) = delete;
  ~Sends() {
    for (sennit_work_t work : works_) {
      sennit_work_destroy(work);
    }
  }
  void add(Data data, int peer, int tag, sennit_comm_t comm) {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.tag = tag;
    options.work = &works_.emplace_back(nullptr);
    const Data& kept = data_.emplace_back(std::move(data));
    sennit_send(kept.data(), kept.size(), SENNIT_INT32, peer, comm, nullptr, &options);
  }

 private:
  std::deque<Data> data_;  // what is in it never moves
  std::deque<sennit_work_t> works_;
};

// Runs `body` on ranks that have joined; it says how its calls came out.
inline std::vector<std::optional<Report>> run_ranks(
    int ranks, const std::function<sennit_status_t(int rank, sennit_comm_t comm)>& body) {
  const std::string name = fresh_name();
  RankProcesses processes(ranks, [&](int rank) {
    const sennit_comm_t comm = join_ranks(name, ranks, rank);
    sennit_barrier(comm, nullptr, nullptr);
    const Report report = report_of([&] { return body(rank, comm); });
    sennit_comm_destroy(comm);
    return report;
  });
  return processes.reports();
}

inline sennit_status_t ok_if(bool is_right) { return is_right ? SENNIT_OK : SENNIT_INTERNAL_ERROR; }

inline void expect_ok(const std::vector<std::optional<Report>>& reports) {
  for (const auto& report : reports) {
    ASSERT_TRUE(report);
    EXPECT_EQ(report->status, SENNIT_OK) << report->message;
  }
}

}  // namespace sennit::tests
