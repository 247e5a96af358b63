// FakeRanks: ranks that are processes as far as their memory goes, and threads of this one, each
// with a fake GPU, a StreamEngine and the buffers of a call, for tests.
//
//   FakeRanks ranks({.ranks = 4});
//   ranks.prepare(problem, block_bytes, in_place);
//   ranks.each([&](FakeRank& r, int rank) { ... r.engine->run(...) ... });
#pragma once

#include "drivers/cuda/testing/fake_cuda.hpp"
#include "exec/stream/stream_engine.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace sennit::stream {

template <typename T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}

// A process with one GPU and the buffers of a call.
struct FakeRank {
  explicit FakeRank(const FakeCuda::Options& options) : cuda(options) {}

  FakeCuda cuda;
  std::unique_ptr<StreamEngine> engine;
  void* stream = nullptr;
  std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<Buffers> peers;
};

class FakeRanks {
 public:
  struct Options {
    int ranks = 4;
    bool one_queue = false;
    std::int64_t staging_bytes = std::int64_t{1} << 20;
  };

  explicit FakeRanks(const Options& options) : words_(std::make_unique<RankWords[]>(kMaxRanks)) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      auto& r = *ranks_.emplace_back(std::make_unique<FakeRank>(
          FakeCuda::Options{.has_peers = false, .one_queue = options.one_queue}));
      std::vector<RankWords*> words;
      auto* const mapped = static_cast<RankWords*>(
          take(r.cuda.map_host(words_.get(), sizeof(RankWords) * kMaxRanks)));
      for (int peer = 0; peer < options.ranks; ++peer) {
        words.push_back(mapped + peer);
      }
      r.engine = take(StreamEngine::create(r.cuda, words, options.staging_bytes));
      r.stream = take(r.cuda.create_stream());
    }
  }

  // Buffers of the size that the call needs, mapped into all other ranks.
  void prepare(const Problem& problem, std::int64_t block_bytes, bool in_place) {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      FakeRank& r = (*this)[rank];
      r.input = allocate(r, block_bytes * problem.input_blocks(rank));
      r.output = allocate(r, block_bytes * problem.output_blocks(rank));
      for (int b = 0; b < problem.output_blocks(rank) && in_place; ++b) {
        if (const auto alias = problem.aliased_input(rank, b)) {
          // The smaller of the two lies within the larger.
          if (problem.input_blocks(rank) > problem.output_blocks(rank)) {
            r.output = r.input + (*alias - b) * block_bytes;
          } else {
            r.input = r.output + (b - *alias) * block_bytes;
          }
          break;
        }
      }
    }
    for (auto& reader : ranks_) {
      reader->peers.clear();
      for (const auto& owner : ranks_) {
        reader->peers.push_back({.output = mapped(*reader, *owner, owner->output)});
      }
    }
  }

  // Staging memory of so many bytes on each, mapped into all other ranks.
  void prepare_staging(std::int64_t bytes) {
    for (auto& owner : ranks_) {
      EXPECT_TRUE(owner->engine->reserve_staging(bytes).ok());
      for (auto& writer : ranks_) {
        Buffers& peer = writer->peers[static_cast<std::size_t>(&owner - ranks_.data())];
        peer.staging = mapped(*writer, *owner, owner->engine->staging().memory() + 1) - 1;
      }
    }
  }

  // Every rank on a thread, as a process would.
  template <typename Function>
  void each(Function function) {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&, rank] { function(*ranks_[rank], static_cast<int>(rank)); });
    }
  }

  // All that was filled has been consumed: the next call begins as the last one did. And no copy
  // went astray.
  void expect_at_rest() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      EXPECT_EQ(ranks_[rank]->cuda.faults(), "");
      const RankWords& words = words_[rank];
      EXPECT_TRUE(words.ready == fresh_.ready && words.done == fresh_.done);
      EXPECT_TRUE(words.filled == fresh_.filled && words.emptied == fresh_.emptied);
      EXPECT_EQ(words.running, kIdle);
    }
  }

  FakeRank& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  RankWords& words(int rank) { return words_[static_cast<std::size_t>(rank)]; }

 private:
  static std::byte* allocate(FakeRank& r, std::int64_t bytes) {
    // A pointer of the user may lie anywhere in its allocation.
    constexpr std::size_t kShift = 48;
    return static_cast<std::byte*>(
               take(r.cuda.allocate(static_cast<std::size_t>(bytes) + kShift))) +
           kShift;
  }

  static std::byte* mapped(FakeRank& reader, FakeRank& owner, const std::byte* pointer) {
    const Allocation allocation = take(owner.cuda.allocation_of(pointer - 1));
    const auto handle = take(owner.cuda.export_memory(allocation.base)).handle;
    return static_cast<std::byte*>(take(reader.cuda.import_memory(handle))) +
           (pointer - allocation.base);
  }

  std::unique_ptr<RankWords[]> words_;
  RankWords fresh_;
  std::vector<std::unique_ptr<FakeRank>> ranks_;
};

}  // namespace sennit::stream
