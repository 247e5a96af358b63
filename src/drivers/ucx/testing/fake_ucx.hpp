// FakeUcx: cards that are not here, between the threads of one process.
//
//   FakeUcx ucx({.seed = 7});
//   const auto card = ucx.open({.device = "rail0"});
//
// Nothing leaves a card but in its progress(), and then some of it. A small payload that is the
// first to leave is copied, and its send ends at once; others are read, and end, when they leave.
// What has left arrives in any order.
#pragma once

#include "drivers/ucx/ucx.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace sennit {

class FakeUcx final : public UcxDriver {
 public:
  struct Options {
    std::uint64_t seed = 1;
    bool keeps_order = false;
    std::size_t copied_bytes = 1024;  // payloads up to this size are copied
    bool ends_when_left = false;      // and then only empty ones
  };
  struct Network;

  explicit FakeUcx(const Options& options);
  ~FakeUcx() override;

  std::string version() override { return "fake"; }
  Result<std::unique_ptr<UcxCard>> open(const UcxCardOptions& options) override;

  // Connections to and from the card with this address fail, at their ends' next progress().
  void cut(const std::string& address);
  // What goes over cards of this device leaves, and arrives nowhere.
  void mute(const std::string& device);
  // What was sent through all cards.
  [[nodiscard]] std::uint64_t messages() const;
  [[nodiscard]] std::uint64_t payload_bytes() const;

 private:
  std::shared_ptr<Network> network_;
};

}  // namespace sennit
