// Sends and recvs by copy engines on GPUs there are: every rank has a GPU and a thread of its own.
#include "device_ranks.hpp"

#include <functional>
#include <latch>
#include <thread>
#include <vector>

namespace sennit::tests {
namespace {

// Of float32. Large messages request copy engines, small ones do not: both ways are taken in
// turns.
constexpr std::int64_t kLarge = 1'100'003;
constexpr std::int64_t kSmall = 1000;

// What messages request; no path: what their size says.
struct Way {
  const char* path = nullptr;
  const char* protocol = nullptr;
};

class DeviceMessages : public CopyEngineRanks {
 protected:
  // A recv waits for the send, so each rank calls on a thread of its own.
  void each(const std::function<void(DeviceRank&, int)>& calls) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      threads.emplace_back([&, rank] {
        check_cuda(cudaSetDevice(rank % device_count()));
        calls((*ranks_)[rank], rank);
      });
    }
  }

  [[nodiscard]] sennit_call_options_t options_of(std::size_t count, const Way& way = {}) const {
    sennit_call_options_t options = SENNIT_CALL_OPTIONS_INITIALIZER;
    options.protocol = way.path != nullptr ? way.protocol : count > kSmall ? large_ : nullptr;
    options.path = path_here(way.path);
    return options;
  }

  // All ranks send `count` elements to each other, as an all_to_all would, in messages of all but
  // one element and of that one.
  void cross(DeviceRank& r, int rank, std::int64_t count, const Way& way = {}) const {
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    for (int d = 1; d < ranks_->size(); ++d) {
      const int peer = (rank + d) % ranks_->size();
      const auto most = static_cast<std::size_t>(count - 1);
      float* const send = static_cast<float*>(r.send()) + peer * count;
      float* const recv = static_cast<float*>(r.recv()) + peer * count;
      for (const auto& [at, n] :
           {std::pair(std::size_t{0}, most), std::pair(most, std::size_t{1})}) {
        const sennit_call_options_t options = options_of(n, way);
        EXPECT_EQ(sennit_send(send + at, n, SENNIT_FLOAT32, peer, r.comm, r.stream, &options),
                  SENNIT_OK);
        EXPECT_EQ(sennit_recv(recv + at, n, SENNIT_FLOAT32, peer, r.comm, r.stream, &options),
                  SENNIT_OK);
      }
    }
    EXPECT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
  }

  // Inputs of all ranks at random, and the outputs poisoned.
  std::vector<Bytes> prepare(const DeviceCase& c) {
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      inputs.push_back(random_elements(c.dtype, ranks_->size() * c.count, random_));
      (*ranks_)[rank].prepare(c, inputs.back());
    }
    return inputs;
  }

  void expect_crossed(const DeviceCase& c, const std::vector<Bytes>& inputs) {
    for (int rank = 0; rank < ranks_->size(); ++rank) {
      Bytes output = (*ranks_)[rank].output(c);
      const Bytes expected = expected_output(c, inputs, rank);
      const auto block = static_cast<std::size_t>(c.count) * 4;
      // Nothing was sent to itself.
      std::memcpy(output.data() + static_cast<std::size_t>(rank) * block,
                  expected.data() + static_cast<std::size_t>(rank) * block,
                  block);
      ASSERT_TRUE(output == expected) << "rank " << rank << ", " << c.count << " elements";
    }
  }

  const char* large_ = "direct_get";  // what large messages request
};

// Either their receivers fetch them all, or senders put those whose buffers they find in time.
class DeviceMessagesEitherWay : public DeviceMessages,
                                public ::testing::WithParamInterface<const char*> {
 protected:
  DeviceMessagesEitherWay() { large_ = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Messages,
                         DeviceMessagesEitherWay,
                         ::testing::Values("direct_get", "copy_engines"));

TEST_P(DeviceMessagesEitherWay, CrossInGroupsOfAllSizes) {
  for (const std::int64_t count : {kSmall, kLarge, 5 * kLarge}) {
    const DeviceCase c{.collective = Collective::kAllToAll, .count = count, .offset = 1};
    const std::vector<Bytes> inputs = prepare(c);
    each([&](DeviceRank& r, int rank) {
      for (int i = 0; i < 3; ++i) {
        cross(r, rank, count);
      }
    });
    expect_crossed(c, inputs);
    ASSERT_FALSE(HasFailure());
  }
}

// Without groups: one rank of each pair sends first, the other receives first.
TEST_P(DeviceMessagesEitherWay, KeepTheirOrderWhateverTheirSizes) {
  const DeviceCase c{.collective = Collective::kAllToAll, .count = kLarge};
  const std::vector<Bytes> inputs = prepare(c);
  const std::vector<std::size_t> parts = {kSmall, kLarge - 3 * kSmall, kSmall, kSmall};
  each([&](DeviceRank& r, int rank) {
    const int peer = rank ^ 1;
    if (peer >= ranks_->size()) {
      return;
    }
    for (int round = 0; round < 10; ++round) {
      std::size_t at = static_cast<std::size_t>(peer) * kLarge;
      for (const std::size_t n : parts) {
        const sennit_call_options_t options = options_of(n);
        const auto send = [&] {
          EXPECT_EQ(sennit_send(static_cast<float*>(r.send()) + at,
                                n,
                                SENNIT_FLOAT32,
                                peer,
                                r.comm,
                                r.stream,
                                &options),
                    SENNIT_OK)
              << sennit_last_error_message();
        };
        const auto recv = [&] {
          EXPECT_EQ(sennit_recv(static_cast<float*>(r.recv()) + at,
                                n,
                                SENNIT_FLOAT32,
                                peer,
                                r.comm,
                                r.stream,
                                &options),
                    SENNIT_OK)
              << sennit_last_error_message();
        };
        rank % 2 == 0 ? send() : recv();
        rank % 2 == 0 ? recv() : send();
        at += n;
      }
    }
  });
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    if ((rank ^ 1) >= ranks_->size()) {
      continue;
    }
    const auto block = static_cast<std::size_t>(kLarge) * 4;
    const auto from = static_cast<std::size_t>(rank ^ 1) * block;
    const Bytes output = (*ranks_)[rank].output(c);
    const Bytes expected = expected_output(c, inputs, rank);
    ASSERT_EQ(std::memcmp(output.data() + from, expected.data() + from, block), 0)
        << "rank " << rank;
  }
}

TEST_P(DeviceMessagesEitherWay, AreReplayed) {
  const DeviceCase c{.collective = Collective::kAllToAll, .count = kLarge};
  const std::vector<Bytes> inputs = prepare(c);
  each([&](DeviceRank& r, int rank) {
    cross(r, rank, c.count);
    check_cuda(cudaStreamSynchronize(r.stream));
    const CapturedGraph replay(r.stream, [&] {
      for (int i = 0; i < 3; ++i) {
        cross(r, rank, c.count);
      }
    });
    replay.launch(20);
    check_cuda(cudaStreamSynchronize(r.stream));
    cross(r, rank, c.count);
  });
  expect_crossed(c, inputs);
}

TEST_P(DeviceMessagesEitherWay, AndCollectivesTakeTurns) {
  for (int i = 0; i < 5; ++i) {
    const DeviceCase c{.collective = Collective::kAllToAll, .count = kLarge};
    const std::vector<Bytes> inputs = prepare(c);
    each([&](DeviceRank& r, int rank) {
      cross(r, rank, c.count);
      DeviceCase all = c;
      all.protocol = "copy_engines";
      EXPECT_EQ(r.call(all), SENNIT_OK) << sennit_last_error_message();
      cross(r, rank, c.count);
    });
    expect_crossed(c, inputs);
    ASSERT_FALSE(HasFailure());
  }
}

// The first call pins rings, the next ones go through them.
TEST_F(DeviceMessages, CrossOverHostMemoryBesideCopyEnginesAndBesideKernels) {
  for (const Way& way : {Way{"nvlink+host:30", "direct_get"},
                         Way{"nvlink+host:30", "copy_engines"},
                         Way{"nvlink+host:70", "ll128"},
                         Way{"nvlink+host:40", "slots"},
                         Way{"nvlink+host:dynamic", "direct_get"},
                         Way{"nvlink+host:dynamic", "direct_put"},
                         Way{"host", nullptr},
                         Way{"nvlink+host:5", nullptr}}) {
    for (const std::int64_t count : {kSmall, 5 * kLarge}) {
      const DeviceCase c{.collective = Collective::kAllToAll, .count = count, .offset = 1};
      const std::vector<Bytes> inputs = prepare(c);
      each([&](DeviceRank& r, int rank) {
        for (int i = 0; i < 3; ++i) {
          cross(r, rank, count, way);
        }
      });
      expect_crossed(c, inputs);
      ASSERT_FALSE(HasFailure()) << way.path;
    }
  }
}

// One message at a time, so that each is measured, and some are trials of other shares.
TEST_F(DeviceMessages, ArriveWhateverShareIsTriedForThem) {
  const DeviceCase c{.collective = Collective::kAllToAll, .count = kLarge};
  for (const char* const protocol : {"direct_get", "direct_put", "ll128"}) {
    const std::vector<Bytes> inputs = prepare(c);
    each([&](DeviceRank& r, int rank) {
      cross(r, rank, c.count);
      const int peer = rank ^ 1;
      const auto n = static_cast<std::size_t>(c.count);
      const sennit_call_options_t options = options_of(n, {"nvlink+host:dynamic", protocol});
      float* const send = static_cast<float*>(r.send()) + peer * c.count;
      float* const recv = static_cast<float*>(r.recv()) + peer * c.count;
      for (int i = 0; i < 60 && peer < ranks_->size(); ++i) {
        check_cuda(cudaMemsetAsync(recv, 0, n * sizeof(float), r.stream));
        ASSERT_EQ(sennit_group_start(), SENNIT_OK);
        EXPECT_EQ(sennit_send(send, n, SENNIT_FLOAT32, peer, r.comm, r.stream, &options),
                  SENNIT_OK);
        EXPECT_EQ(sennit_recv(recv, n, SENNIT_FLOAT32, peer, r.comm, r.stream, &options),
                  SENNIT_OK);
        EXPECT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
        if (i % 3 == 0) {
          check_cuda(cudaStreamSynchronize(r.stream));
        }
      }
    });
    expect_crossed(c, inputs);
    ASSERT_FALSE(HasFailure()) << protocol;
  }
}

TEST_F(DeviceMessages, AreReplayedOverBothPaths) {
  constexpr Way kWay{"nvlink+host:40", "direct_get"};
  const DeviceCase c{.collective = Collective::kAllToAll, .count = kLarge};
  const std::vector<Bytes> inputs = prepare(c);
  each([&](DeviceRank& r, int rank) {
    for (int i = 0; i < 2; ++i) {
      cross(r, rank, c.count, kWay);
    }
    check_cuda(cudaStreamSynchronize(r.stream));
    const CapturedGraph replay(r.stream, [&] {
      cross(r, rank, c.count, kWay);
      cross(r, rank, c.count);
    });
    replay.launch(10);
    cross(r, rank, c.count, kWay);
    check_cuda(cudaStreamSynchronize(r.stream));
  });
  expect_crossed(c, inputs);
}

// A send that is fetched does not wait on the host for its recv, not even where it pins a ring
// first while the stream waits for that recv.
TEST_F(DeviceMessages, PinARingWhileTheStreamWaits) {
  const DeviceCase c{.collective = Collective::kAllToAll, .count = kLarge};
  const std::vector<Bytes> inputs = prepare(c);
  each([&](DeviceRank& r, int rank) { cross(r, rank, c.count); });
  std::latch both_sent(1);
  each([&](DeviceRank& r, int rank) {
    const std::size_t n = static_cast<std::size_t>(kLarge);
    const sennit_call_options_t plain = options_of(n);
    const sennit_call_options_t shared = options_of(n, {"nvlink+host:50", "direct_get"});
    float* const send = static_cast<float*>(r.send()) + kLarge;
    float* const recv = static_cast<float*>(r.recv());
    if (rank == 0) {
      for (const sennit_call_options_t* const options : {&plain, &shared}) {
        EXPECT_EQ(sennit_send(send, n, SENNIT_FLOAT32, 1, r.comm, r.stream, options), SENNIT_OK)
            << sennit_last_error_message();
      }
      both_sent.count_down();
    } else if (rank == 1) {
      both_sent.wait();
      for (const sennit_call_options_t* const options : {&plain, &shared}) {
        EXPECT_EQ(sennit_recv(recv, n, SENNIT_FLOAT32, 0, r.comm, r.stream, options), SENNIT_OK)
            << sennit_last_error_message();
      }
    }
    check_cuda(cudaStreamSynchronize(r.stream));
  });
  expect_crossed(c, inputs);
}

}  // namespace
}  // namespace sennit::tests
