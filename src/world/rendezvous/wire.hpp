// Numbers and texts as bytes of a message, and back. Numbers are in host order.
#pragma once

#include "world/rendezvous/process.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace sennit {

template <typename T>
concept Number = std::is_arithmetic_v<T>;

class WireWriter {
 public:
  template <Number T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void token(const Token& value) {
    bytes_.append(reinterpret_cast<const char*>(value.data()), value.size());
  }
  void text(std::string_view value) {
    number(static_cast<std::uint16_t>(value.size()));
    bytes_.append(value);
  }
  void bytes(std::string_view value) { bytes_.append(value); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what a peer wrote. After the first thing that does not fit all further reads give nothing.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  template <Number T>
  T number() {
    T value{};
    if (const std::string_view bytes = take(sizeof value); !bytes.empty()) {
      std::memcpy(&value, bytes.data(), sizeof value);
    }
    return value;
  }
  Token token() {
    Token value{};
    if (const std::string_view bytes = take(value.size()); !bytes.empty()) {
      std::memcpy(value.data(), bytes.data(), value.size());
    }
    return value;
  }
  std::string text(std::size_t max_bytes) {
    const std::size_t bytes = number<std::uint16_t>();
    good_ = good_ && bytes <= max_bytes;
    return std::string(take(bytes));
  }
  std::string_view bytes(std::size_t count) { return take(count); }
  [[nodiscard]] bool good() const { return good_; }
  // True when everything fitted and nothing is left over.
  [[nodiscard]] bool complete() const { return good_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t bytes) {
    if (!good_ || bytes > rest_.size()) {
      good_ = false;
      return {};
    }
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace sennit
