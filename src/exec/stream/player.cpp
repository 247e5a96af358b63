#include "exec/stream/player.hpp"

#include "exec/stream/operation_writer.hpp"
#include "exec/stream/reduction.hpp"
#include "exec/stream/stopwatch.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>

namespace sennit::stream {

class Player::Play {
 public:
  Play(Player& player, const OperationList& list, const Scene& scene, void* users_stream)
      : player_(player), list_(list), scene_(scene), users_stream_(users_stream) {
    player_.steps_.clear();
    player_.copies_.count = 0;
  }

  Status run() {
    const Status played = play_all();
    if (!played.ok()) {
      join_streams();
    }
    return played;
  }

  Status operator()(const AwaitFlag& wait) {
    return add({WordStep::Kind::kAwait, address_of(wait.flag, player_.words_), wait.value});
  }
  Status operator()(const StoreFlag& store) {
    return add({WordStep::Kind::kStore, address_of(store.flag, player_.words_), store.value});
  }

  Status operator()(const CopyBytes& copy) {
    std::byte* const to = scene_.address_of(copy.to);
    const std::byte* const from = scene_.address_of(copy.from);
    if (!copy.is_by_kernel) {
      return player_.driver_.copy_async(to, from, static_cast<std::size_t>(copy.bytes), stream());
    }
    if (player_.copies_.count == static_cast<std::int32_t>(player_.copies_.copies.size())) {
      SENNIT_RETURN_IF_ERROR(flush());
    }
    player_.copies_.copies[static_cast<std::size_t>(player_.copies_.count++)] = {
        from, to, copy.bytes};
    return {};
  }

  Status operator()(const ReduceBytes& reduce) {
    ReductionCall call{.outputs = {scene_.address_of(reduce.to)},
                       .bytes = reduce.bytes,
                       .operand_count = reduce.count,
                       .output_count = 1 + reduce.copies,
                       .ranks = static_cast<std::int32_t>(scene_.peers.size())};
    const auto first = std::span(list_.operands).subspan(static_cast<std::size_t>(reduce.first));
    const auto operands = first.first(static_cast<std::size_t>(reduce.count));
    const auto copies = first.subspan(operands.size(), static_cast<std::size_t>(reduce.copies));
    for (std::size_t i = 0; i < copies.size(); ++i) {
      call.outputs[1 + i] = scene_.address_of(copies[i].place);
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      call.operands[i] = {
          .data = scene_.address_of(operands[i].place),
          .scalar = scene_.peers[static_cast<std::size_t>(operands[i].rank)].scalar};
    }
    return launch(scene_.reduce, &call, useful_blocks(reduce.bytes));
  }

  Status operator()(const RecordEvent& record) {
    SENNIT_ASSIGN_OR_RETURN(void* const event, player_.event(record.event));
    return player_.driver_.events().record(event, stream());
  }

  Status operator()(const AwaitEvent& wait) {
    SENNIT_ASSIGN_OR_RETURN(void* const event, player_.event(wait.event));
    return player_.driver_.events().wait_for(event, stream());
  }

  Status operator()(const LaunchKernels& /*launch*/) { return scene_.launch(); }

  Status operator()(const ReadTime& time) {
    Stopwatch& watch = *scene_.watches[static_cast<std::size_t>(time.message)];
    switch (time.what) {
      case ReadTime::What::kBegin:
        return watch.begin(stream());
      case ReadTime::What::kDirectEnd:
        return watch.end(Stopwatch::kDirect, stream());
      case ReadTime::What::kHostEnd:
        return watch.end(Stopwatch::kHost, stream());
    }
    return {};
  }

 private:
  Status play_all() {
    for (const Operation& operation : list_.operations) {
      if (!joins_the_last(operation)) {
        SENNIT_RETURN_IF_ERROR(flush());
      }
      number_ = operation.stream;
      SENNIT_RETURN_IF_ERROR(std::visit(*this, operation.what));
      ++played_;
    }
    return flush();
  }

  [[nodiscard]] void* stream() const {
    return number_ == kUsersStream ? users_stream_
                                   : player_.streams_[static_cast<std::size_t>(number_)];
  }

  Status add(const WordStep& step) {
    if (player_.steps_.size() == kMaxWordSteps) {
      SENNIT_RETURN_IF_ERROR(flush());
    }
    player_.steps_.push_back(step);
    return {};
  }

  // What was gathered may take the operation, too, or there is nothing of it.
  [[nodiscard]] bool joins_the_last(const Operation& operation) const {
    const auto* const copy = std::get_if<CopyBytes>(&operation.what);
    const bool is_flag = std::holds_alternative<AwaitFlag>(operation.what) ||
                         std::holds_alternative<StoreFlag>(operation.what);
    return operation.stream == number_ &&
           (is_flag ? player_.copies_.count == 0
                    : copy != nullptr && copy->is_by_kernel && player_.steps_.empty());
  }

  // Puts into the stream what was gathered: flags, or copies.
  Status flush() {
    if (!player_.steps_.empty()) {
      const Status walked = player_.driver_.walk_words(player_.steps_, stream());
      player_.steps_.clear();
      return walked;
    }
    if (player_.copies_.count == 0) {
      return {};
    }
    std::int64_t useful = 0;
    for (const CopiesCall::Copy& copy :
         std::span(player_.copies_.copies).first(static_cast<std::size_t>(player_.copies_.count))) {
      useful += useful_blocks(copy.bytes);
    }
    const Status launched = launch(scene_.copy, &player_.copies_, useful);
    player_.copies_.count = 0;
    return launched;
  }

  // With a unit a thread.
  static constexpr std::int64_t useful_blocks(std::int64_t bytes) {
    constexpr std::int64_t kBlockBytes = std::int64_t{16} * kReductionThreads;
    return (bytes + kBlockBytes - 1) / kBlockBytes;
  }

  Status launch(const void* kernel, const void* call, std::int64_t useful) {
    const auto blocks = static_cast<unsigned>(std::min(useful, std::int64_t{scene_.most_blocks}));
    return player_.driver_.launch(
        kernel, {.blocks = blocks, .threads = kReductionThreads}, call, stream());
  }

  // As many as can be joined: what failed first is what the caller gets.
  void join_streams() {
    std::vector<bool> has_begun(player_.streams_.size());
    for (std::size_t i = 0; i < played_; ++i) {
      has_begun[static_cast<std::size_t>(list_.operations[i].stream)] = true;
    }
    for (std::size_t number = 1; number < has_begun.size(); ++number) {
      if (!has_begun[number]) {
        continue;
      }
      const Result<void*> event =
          player_.event(OperationWriter::event_of(static_cast<int>(number)));
      if (event.ok() && player_.driver_.events().record(*event, player_.streams_[number]).ok()) {
        (void)player_.driver_.events().wait_for(*event, users_stream_);
      }
    }
  }

  Player& player_;
  const OperationList& list_;
  const Scene& scene_;
  void* users_stream_;
  int number_ = kUsersStream;  // of the stream of the last operation
  std::size_t played_ = 0;
};

Player::Player(CudaDriver& driver, std::vector<RankWords*> words)
    : driver_(driver), words_(std::move(words)), streams_(1, nullptr) {
  steps_.reserve(kMaxWordSteps);
}

Status Player::reserve(int streams) {
  const std::size_t before = streams_.size();
  const Status status = add_streams(streams);
  while (!status.ok() && streams_.size() > before) {
    (void)driver_.destroy_stream(streams_.back());
    streams_.pop_back();
  }
  return status;
}

Status Player::add_streams(int streams) {
  SENNIT_RETURN_IF_ERROR(event(OperationWriter::kForkEvent).status());
  for (auto number = static_cast<int>(streams_.size()); number < streams; ++number) {
    SENNIT_RETURN_IF_ERROR(event(OperationWriter::event_of(number)).status());
    SENNIT_ASSIGN_OR_RETURN(void* const stream, driver_.create_stream());
    streams_.push_back(stream);
  }
  return {};
}

Result<void*> Player::event(int number) {
  const auto index = static_cast<std::size_t>(number);
  if (events_.size() <= index) {
    events_.resize(index + 1, nullptr);
  }
  if (events_[index] == nullptr) {
    SENNIT_ASSIGN_OR_RETURN(events_[index], driver_.events().create_event());
  }
  return events_[index];
}

void Player::close() {
  for (void* const stream : streams_) {
    if (stream != nullptr) {
      (void)driver_.destroy_stream(stream);
    }
  }
  streams_.assign(1, nullptr);
  for (void* const event : std::exchange(events_, {})) {
    if (event != nullptr) {
      (void)driver_.events().destroy_event(event);
    }
  }
}

Status Player::play(const OperationList& list, const Scene& scene, void* stream) {
  return Play(*this, list, scene, stream).run();
}

}  // namespace sennit::stream
