// Waits: requests that are started many times, and the statuses of their messages.
//
// A persistent message on shadows is to the MPI a message of the rank to itself, which ends with
// the copies. Its own status is in the place of that one when a wait or a test returns.
#pragma once

#include "calls.hpp"
#include "front.hpp"

#include <cstddef>

namespace sennit_mpi {

// Most requests are none of ours; a program without ours pays a load for that.
template <class Abi>
Persistent<Abi>* persistent_requests() {
  auto* const running = front_in_use<Abi>->running();
  return running != nullptr && !running->persistent.is_empty() ? &running->persistent : nullptr;
}
template <class Abi>
int start(typename Abi::Request* request) {
  auto* const ours = persistent_requests<Abi>();
  return ours != nullptr ? ours->start(request) : front_in_use<Abi>->functions.start(request);
}
template <class Abi>
int start_all(int count, typename Abi::Request* requests) {
  auto* const ours = persistent_requests<Abi>();
  return ours != nullptr ? ours->start_all(count, requests)
                         : front_in_use<Abi>->functions.start_all(count, requests);
}
template <class Abi>
int request_free(typename Abi::Request* request) {
  if (auto* const ours = persistent_requests<Abi>()) {
    ours->forget(*request);
  }
  auto* const running = front_in_use<Abi>->running();
  if (running != nullptr && running->requests.forget(*request)) {
    *request = front_in_use<Abi>->abi.request_null();
    return 0;
  }
  return front_in_use<Abi>->functions.request_free(request);
}
template <class Abi>
int cancel(typename Abi::Request* request) {
  auto* const ours = persistent_requests<Abi>();
  return ours != nullptr && ours->cancel(*request) ? 0
                                                   : front_in_use<Abi>->functions.cancel(request);
}

// The status of the one at `index`, which may be MPI_UNDEFINED.
template <class Abi>
void give_status(const typename Abi::Request* requests, int index, void* status) {
  auto* const ours = persistent_requests<Abi>();
  if (ours != nullptr && index >= 0) {
    ours->give_status(requests[index], status);
  }
}
// The same of the element of an array of statuses that is in this place.
template <class Abi>
void give_status_in(const typename Abi::Request* requests, int index, void* statuses, int place) {
  const bool are_wanted = statuses != nullptr && statuses != Abi::status_ignore();
  give_status<Abi>(requests,
                   index,
                   are_wanted ? static_cast<std::byte*>(statuses) +
                                    static_cast<std::size_t>(place) * Abi::kStatusBytes
                              : Abi::status_ignore());
}

template <class Abi>
int wait(typename Abi::Request* request, void* status) {
  const int code = front_in_use<Abi>->functions.wait(request, status);
  if (code == 0) {
    give_status<Abi>(request, 0, status);
  }
  return code;
}
template <class Abi>
int test(typename Abi::Request* request, int* flag, void* status) {
  const int code = front_in_use<Abi>->functions.test(request, flag, status);
  if (code == 0 && *flag != 0) {
    give_status<Abi>(request, 0, status);
  }
  return code;
}
template <class Abi>
int wait_any(int count, typename Abi::Request* requests, int* index, void* status) {
  const int code = front_in_use<Abi>->functions.wait_any(count, requests, index, status);
  if (code == 0) {
    give_status<Abi>(requests, *index, status);
  }
  return code;
}
template <class Abi>
int test_any(int count, typename Abi::Request* requests, int* index, int* flag, void* status) {
  const int code = front_in_use<Abi>->functions.test_any(count, requests, index, flag, status);
  if (code == 0 && *flag != 0) {
    give_status<Abi>(requests, *index, status);
  }
  return code;
}
template <class Abi>
int wait_all(int count, typename Abi::Request* requests, void* statuses) {
  const int code = front_in_use<Abi>->functions.wait_all(count, requests, statuses);
  if (code == 0 && persistent_requests<Abi>() != nullptr) {
    for (int i = 0; i < count; ++i) {
      give_status_in<Abi>(requests, i, statuses, i);
    }
  }
  return code;
}
template <class Abi>
int test_all(int count, typename Abi::Request* requests, int* flag, void* statuses) {
  const int code = front_in_use<Abi>->functions.test_all(count, requests, flag, statuses);
  if (code == 0 && *flag != 0 && persistent_requests<Abi>() != nullptr) {
    for (int i = 0; i < count; ++i) {
      give_status_in<Abi>(requests, i, statuses, i);
    }
  }
  return code;
}
template <class Abi>
int wait_some(
    int count, typename Abi::Request* requests, int* ended, int* indices, void* statuses) {
  const int code =
      front_in_use<Abi>->functions.wait_some(count, requests, ended, indices, statuses);
  for (int i = 0; code == 0 && i < *ended; ++i) {
    give_status_in<Abi>(requests, indices[i], statuses, i);
  }
  return code;
}
template <class Abi>
int test_some(
    int count, typename Abi::Request* requests, int* ended, int* indices, void* statuses) {
  const int code =
      front_in_use<Abi>->functions.test_some(count, requests, ended, indices, statuses);
  for (int i = 0; code == 0 && i < *ended; ++i) {
    give_status_in<Abi>(requests, indices[i], statuses, i);
  }
  return code;
}
template <class Abi>
int request_get_status(typename Abi::Request request, int* flag, void* status) {
  const int code = front_in_use<Abi>->functions.request_get_status(request, flag, status);
  auto* const ours = persistent_requests<Abi>();
  if (ours != nullptr && code == 0 && *flag != 0) {
    ours->show_status(request, status);
  }
  return code;
}

}  // namespace sennit_mpi
