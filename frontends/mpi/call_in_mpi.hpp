// CallInMpi: a call that the MPI runs on shadows, by a request that the program does not see.
#pragma once

#include "abi.hpp"
#include "functions.hpp"
#include "persistent.hpp"
#include "requests.hpp"
#include "shadows.hpp"

#include "sennit/sennit.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace sennit_mpi {

// Of a message, for the MPI to fill.
template <class Abi>
class Status {
 public:
  void* data() { return room_.data(); }
  [[nodiscard]] const void* data() const { return room_.data(); }
  // To where the program wants it, which may be nowhere.
  void copy_to(void* status) const {
    if (status != nullptr && status != Abi::status_ignore()) {
      std::memcpy(status, room_.data(), room_.size());
    }
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, Abi::kStatusBytes> room_{};
};

// What has come.
template <class Abi>
std::size_t bytes_of(const Functions<Abi>& functions, typename Abi::Type byte, const void* status) {
  std::int64_t bytes = 0;
  functions.mpi.get_elements_x(status, byte, &bytes);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

// What the request is for.
struct RequestKind {
  bool is_message = false;     // its status says what has come
  bool is_persistent = false;  // started many times
  // All of the buffer goes back, which was read as well: MPICH's status of MPI_Isendrecv does not
  // say how much has come.
  bool is_whole = false;
};

template <class Abi>
class CallInMpi final : public Startable {
 public:
  CallInMpi(const Functions<Abi>& functions,
            const Requests<Abi>& requests,
            Shadows<Abi> shadows,
            typename Abi::Request request,
            RequestKind kind,
            typename Abi::Type byte)
      : functions_(functions),
        requests_(requests),
        shadows_(std::move(shadows)),
        request_(request),
        kind_(kind),
        byte_(byte) {}
  CallInMpi(const CallInMpi&) = delete;
  CallInMpi& operator=(const CallInMpi&) = delete;
  ~CallInMpi() override {
    if (kind_.is_persistent) {
      functions_.request_free(&request_);
    }
  }

  int read_again() override {
    shadows_.copy_in_again();
    return 0;
  }
  sennit_status_t start(const sennit_call_options_t* /*options*/) override {
    return functions_.start(&request_) == 0 ? SENNIT_OK : SENNIT_SYSTEM_ERROR;
  }
  bool has_ended_in_mpi() override { return requests_.has_ended(request_); }
  bool has_status(void* to) const override {
    if (kind_.is_message) {
      status_.copy_to(to);
    }
    return kind_.is_message;
  }
  void cancel() override { functions_.cancel(&request_); }
  int finish() override {
    const int code = functions_.wait(&request_, status_.data());
    int is_cancelled = 0;
    if (kind_.is_message && code == 0) {
      functions_.mpi.test_cancelled(status_.data(), &is_cancelled);
    }
    if (code == 0 && is_cancelled == 0) {
      shadows_.copy_out(kind_.is_message && !kind_.is_whole
                            ? bytes_of(functions_, byte_, status_.data())
                            : Shadows<Abi>::kAll);
    }
    return code;
  }
  [[nodiscard]] std::size_t bytes() const override { return 0; }

 private:
  const Functions<Abi>& functions_;
  const Requests<Abi>& requests_;
  Shadows<Abi> shadows_;
  typename Abi::Request request_;
  RequestKind kind_;
  typename Abi::Type byte_;
  Status<Abi> status_;
};

}  // namespace sennit_mpi
