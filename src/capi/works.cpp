// Works in the C ABI.
#include "capi/guard.hpp"
#include "capi/handles.hpp"

#include <memory>
#include <optional>
#include <span>

namespace sennit {
namespace {

Status check_work(sennit_work_t work) {
  if (work == nullptr) {
    return fail(Code::kInvalidArgument, "the work is NULL");
  }
  const bool is_enqueued = work->in_stream != nullptr && work->in_stream->is_enqueued();
  if (work->work == nullptr && !is_enqueued) {
    return fail(Code::kInvalidUsage, "the work belongs to a group that has not ended well");
  }
  return work->comm->check_process();
}

// How the call has ended, or nothing where it has not within `limit`.
std::optional<Status> outcome_of(sennit_work& work, Clock::duration limit) {
  if (work.in_stream != nullptr) {
    return work.in_stream->wait(*work.engine, limit);
  }
  return work.engine->run_until(*work.comm, *work.work, limit) ? std::optional(work.work->status)
                                                               : std::nullopt;
}

}  // namespace
}  // namespace sennit

using namespace sennit;  // NOLINT(google-build-using-namespace): entries are one line each

extern "C" {

sennit_status_t sennit_work_wait(sennit_work_t work, double timeout_s) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_work(work));
    return outcome_of(*work, to_limit(timeout_s))
        .value_or(Status(Code::kInProgress, "the call has not ended yet"));
  });
}

sennit_status_t sennit_work_test(sennit_work_t work, int* done) {
  return sennit_works_test(&work, 1, done);
}

sennit_status_t sennit_works_test(const sennit_work_t* works, size_t count, int* done) {
  return guard([&]() -> Status {
    if (count > 0 && (works == nullptr || done == nullptr)) {
      return fail(Code::kInvalidArgument, "the works or the result pointer are NULL");
    }
    const std::span<const sennit_work_t> all(works, count);
    for (const sennit_work_t work : all) {
      SENNIT_RETURN_IF_ERROR(check_work(work));
    }
    ProgressEngine* moved = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
      sennit_work& work = *all[i];
      ProgressEngine& engine = *work.engine;
      if (&engine != moved) {
        moved = &engine;
        engine.poke();
      }
      if (work.in_stream != nullptr) {
        done[i] = work.in_stream->poll() ? 1 : 0;
      } else {
        const auto guard = engine.lock();
        done[i] = work.work->ended ? 1 : 0;
      }
    }
    return {};
  });
}

sennit_status_t sennit_work_peer(sennit_work_t work, int* peer) {
  return guard([&]() -> Status {
    SENNIT_RETURN_IF_ERROR(check_work(work));
    if (peer == nullptr) {
      return fail(Code::kInvalidArgument, "the result pointer is NULL");
    }
    if (work->in_stream != nullptr) {
      return fail(Code::kUnsupported, "works of GPU ranks do not know the peer");
    }
    const auto guard = work->engine->lock();
    if (!work->work->is_message()) {
      return fail(Code::kInvalidUsage,
                  "{} has no peer: it is no send or recv",
                  name_of(work->work->operation));
    }
    if (!work->work->ended) {
      return {Code::kInProgress, "the call has not ended yet"};
    }
    *peer = work->work->operation.peer;
    return work->work->status;
  });
}

sennit_status_t sennit_work_destroy(sennit_work_t work) {
  return guard([&]() -> Status {
    if (work == nullptr) {
      return {};
    }
    const std::unique_ptr<sennit_work> handle(work);
    if (!handle->comm->check_process().ok()) {
      if (handle->in_stream != nullptr) {
        handle->in_stream->forget();
      }
    } else if (check_work(work).ok()) {
      (void)outcome_of(*handle, Clock::duration::max());
    }
    return {};
  });
}

}  // extern "C"
