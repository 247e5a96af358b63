#include "exec/cpu/orders.hpp"

#include <cstring>

namespace sennit {
namespace {

// An order as it lies in a slot.
struct OrderForm {
  std::uint32_t answer = 0;
  std::uint32_t path = 0;
};

}  // namespace

Orders::Orders(const BoundProgram& bound, const ProgramBundle& ends, std::uint32_t fingerprint)
    : bound_(bound),
      ends_(ends),
      fingerprint_(fingerprint),
      asked_(*asks().position),
      answered_(*answers().position) {}

void Orders::finish() const {
  *asks().position = asked_;
  *answers().position = answered_;
}

std::optional<int> Orders::ask() {
  if (!is_asked_) {
    channel::publish(asks().ring.full(asked_), asked_, fingerprint_);
    wake(*asks().bell);
    ++asked_;
    is_asked_ = true;
  }
  if (!path_) {
    if (const std::optional<Order> order = read()) {
      corrupt_ = order->answer != Answer::kGo;
      path_ = corrupt_ ? std::nullopt : std::optional(order->path);
    }
  }
  return path_;
}

std::optional<Orders::Order> Orders::next() {
  const std::optional<Order> order = ended_ ? std::nullopt : read();
  ended_ = ended_ || (order && order->answer == Answer::kEnd);
  return order;
}

void Orders::pass() {
  is_asked_ = ended_ = false;
  path_.reset();
}

std::optional<Orders::Order> Orders::read() {
  const BoundProgram::BoundLink& link = answers();
  if (corrupt_ || !channel::is_full(link.ring.full(answered_), answered_, fingerprint_)) {
    return std::nullopt;
  }
  OrderForm form;
  std::memcpy(&form, link.ring.payload(answered_, sizeof(form)), sizeof(form));
  channel::release_slot(link.ring.free(answered_), answered_);
  wake(*link.bell);
  ++answered_;
  // What a peer wrote is compared before it is used.
  corrupt_ = form.answer > static_cast<std::uint32_t>(Answer::kEnd) ||
             form.path >= static_cast<std::uint32_t>(ends_.paths);
  return corrupt_ ? std::nullopt
                  : std::optional(Order{.answer = static_cast<Answer>(form.answer),
                                        .path = static_cast<int>(form.path)});
}

bool Orders::take_ask() {
  if (!awaited_ || !channel::is_full(asks().ring.full(asked_), asked_, fingerprint_)) {
    return false;
  }
  channel::release_slot(asks().ring.free(asked_), asked_);
  ++asked_;
  awaited_ = false;
  return true;
}

bool Orders::write() {
  const BoundProgram::BoundLink& link = answers();
  while (!waiting_.empty() &&
         channel::may_write(link.ring.free(answered_), answered_, link.ring.slots())) {
    const OrderForm form{.answer = static_cast<std::uint32_t>(waiting_.front().answer),
                         .path = static_cast<std::uint32_t>(waiting_.front().path)};
    std::memcpy(link.ring.payload(answered_, sizeof(form)), &form, sizeof(form));
    channel::publish(link.ring.full(answered_), answered_, fingerprint_);
    wake(*link.bell);
    ++answered_;
    waiting_.pop_front();
  }
  return waiting_.empty();
}

}  // namespace sennit
