// WakeSocket: lets a doorbell wake a thread that sleeps on descriptors, such as those of network
// cards.
//
// It is a datagram socket of an abstract name, which the system makes up. Its number stands in the
// upper bits of Doorbell::sleepers while somebody sleeps on it, and ring() sends there. All who can
// ring share the network namespace, as ranks of one node do; whoever else sends there wakes the
// sleeper for nothing.
#pragma once

#include "base/fd.hpp"
#include "channel/doorbell.hpp"

#include <cstdint>
#include <mutex>

namespace sennit {

class WakeSocket {
 public:
  // Without a socket nobody is woken by it: descriptor() is -1.
  WakeSocket();
  WakeSocket(const WakeSocket&) = delete;
  WakeSocket& operator=(const WakeSocket&) = delete;

  [[nodiscard]] int descriptor() const { return socket_.get(); }

  // From now on ring(bell) sends here. True when nothing that others have published by now can stay
  // unnoticed by who looks again behind this. Several threads may sleep, at one bell.
  bool announce(Doorbell& bell);
  // Also takes out what has come.
  void withdraw(Doorbell& bell);

  // Of a bell's `sleepers`: where ring() sends, if at all.
  static void send_to(std::uint32_t sleepers);

 private:
  UniqueFd socket_;
  std::uint32_t announcement_ = 0;  // what `sleepers` grows by
  std::mutex mutex_;
  int sleepers_ = 0;
};

}  // namespace sennit
