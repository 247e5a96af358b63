#include "exec/stream/agreement.hpp"

#include "world/host_wait.hpp"

#include <utility>

namespace sennit {
namespace {

template <typename Function>
void for_each_offer(const AgreementLine& line, Function function) {
  function(line.input);
  function(line.output);
  function(line.staging);
}

}  // namespace

// Who reached into the memory of others for a call that they have not made would write beyond their
// buffers. Each call is reported before its ranks meet here (world/call_ledger.hpp).
bool Agreement::makes_this_call(int rank) const {
  const auto calls_of = [&](int at) -> const auto& { return world_.device_line(at).collectives; };
  const std::uint64_t call = calls_of(world_.rank()).entered.load(std::memory_order_relaxed);
  CallWords mine;
  CallWords theirs;
  if (calls_of(rank).read(call, theirs)) {
    return calls_of(world_.rank()).read(call, mine) && mine == theirs;
  }
  // A rank whose log has this call no more was here, and found it equal. Partner: the release in
  // CallLog::enter.
  return calls_of(rank).entered.load(std::memory_order_acquire) > call;
}

template <typename Predicate>
Status Agreement::await_all(const std::function<Status()>& trouble, Predicate is_there) const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    SENNIT_RETURN_IF_ERROR(wait_on_host(trouble, [&] { return is_there(rank); }));
  }
  return {};
}

void Agreement::offer(const Request& request) {
  const auto line_of = [&](const Buffer& buffer) {
    return buffer.pointer == nullptr || !request.takes_part
               ? BufferOffer()
               : buffers_.offer(buffer.pointer, buffer.bytes);
  };
  AgreementLine& mine = line(world_.rank());
  mine.input = line_of(request.input);
  mine.output = line_of(request.output);
  mine.staging = line_of(request.staging);
  mine.takes_part = request.takes_part && (request.takes_slow || !mine.output.is_slow_to_copy);
  mine.is_idle = request.is_idle;
  mine.place = request.place;
  mine.scalar = request.scalar;
  mine.retired = {};
  for_each_offer(mine, [&](const BufferOffer& offered) {
    if (offered.state == BufferOffer::State::kNew && mine.retired.front() == 0) {
      // A new buffer often stands in the place of one that was freed.
      mine.retired = buffers_.retired();
    }
  });
  // Partner: the acquire in reach().
  mine.offered.store(number_, std::memory_order_release);
}

bool Agreement::is_possible() const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    bool is_reached = line(rank).takes_part;
    for_each_offer(line(rank), [&](const BufferOffer& offered) {
      is_reached = is_reached && offered.state != BufferOffer::State::kUnreachable;
    });
    if (!is_reached) {
      return false;
    }
  }
  return true;
}

bool Agreement::has_news() const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    bool is_new = false;
    for_each_offer(line(rank), [&](const BufferOffer& offered) {
      is_new = is_new || offered.state == BufferOffer::State::kNew;
    });
    if (is_new) {
      return true;
    }
  }
  return false;
}

bool Agreement::are_all_idle() const {
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (!line(rank).is_idle) {
      return false;
    }
  }
  return true;
}

bool Agreement::is_symmetric() const {
  const WindowPlace& mine = line(world_.rank()).place;
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (mine.window == 0 || line(rank).place != mine) {
      return false;
    }
  }
  return true;
}

Status Agreement::map_all(std::vector<stream::Buffers>& buffers) {
  buffers.resize(static_cast<std::size_t>(world_.size()));
  for (int rank = 0; rank < world_.size(); ++rank) {
    const AgreementLine& theirs = line(rank);
    const auto address_of = [&](const BufferOffer& offered) -> Result<std::byte*> {
      return offered.state == BufferOffer::State::kUnused || rank == world_.rank()
                 ? Result<std::byte*>(nullptr)
                 : buffers_.locate(rank, offered);
    };
    stream::Buffers& found = buffers[static_cast<std::size_t>(rank)];
    SENNIT_ASSIGN_OR_RETURN(found.input, address_of(theirs.input));
    SENNIT_ASSIGN_OR_RETURN(found.output, address_of(theirs.output));
    SENNIT_ASSIGN_OR_RETURN(found.staging, address_of(theirs.staging));
    found.scalar = theirs.scalar;
  }
  return {};
}

Result<bool> Agreement::judge(bool mine, const std::function<Status()>& trouble) {
  // Partner: the acquires below, on the other ranks. What a rank has mapped or pinned comes before.
  line(world_.rank()).judged.store(2 * number_ + (mine ? 1 : 0), std::memory_order_release);
  SENNIT_RETURN_IF_ERROR(await_all(trouble, [&](int rank) {
    return line(rank).judged.load(std::memory_order_acquire) / 2 == number_;
  }));
  for (int rank = 0; rank < world_.size(); ++rank) {
    if (line(rank).judged.load(std::memory_order_acquire) % 2 == 0) {
      return false;
    }
  }
  return true;
}

Result<bool> Agreement::do_all_agree(bool mine, const std::function<Status()>& trouble) {
  ++number_;
  return judge(mine, trouble);
}

Result<std::optional<Agreement::Reached>> Agreement::reach(const Request& request) {
  using Answer = std::optional<Reached>;
  ++number_;
  offer(request);
  // A rank that makes another call never comes; the watch names both calls meanwhile.
  SENNIT_RETURN_IF_ERROR(await_all(request.trouble, [&](int rank) {
    return line(rank).offered.load(std::memory_order_acquire) == number_ && makes_this_call(rank);
  }));
  for (int rank = 0; rank < world_.size(); ++rank) {
    for (const std::uint64_t id : line(rank).retired) {
      buffers_.forget_later(rank, id);
    }
  }
  if (!request.is_capturing) {
    buffers_.forget_now();
  }
  if (!is_possible()) {
    return Answer();
  }
  const bool news = has_news();
  Reached reached{.are_all_idle = are_all_idle(), .is_symmetric = is_symmetric()};
  if (!news) {
    SENNIT_RETURN_IF_ERROR(map_all(reached.buffers));  // finds them
    return Answer(std::move(reached));
  }
  const bool yes = !request.is_capturing && map_all(reached.buffers).ok();
  SENNIT_ASSIGN_OR_RETURN(const bool all, judge(yes, request.trouble));
  if (!all) {
    return Answer();
  }
  for_each_offer(line(world_.rank()),
                 [&](const BufferOffer& offered) { buffers_.confirm(offered.id); });
  return Answer(std::move(reached));
}

}  // namespace sennit
