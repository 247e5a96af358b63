// Any unique id and any config: a communicator of one rank that works, or a failure with a message.
#include "base/check.hpp"
#include "sennit/sennit.h"

#include <cstdint>
#include <cstring>
#include <string>

namespace {

// Takes values off the front of the input; zeros when it has ended.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  template <typename T>
  T take() {
    T value{};
    const std::size_t bytes = size_ < sizeof(T) ? size_ : sizeof(T);
    std::memcpy(&value, data_, bytes);
    data_ += bytes;
    size_ -= bytes;
    return value;
  }
  std::string rest() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

void use(sennit_comm_t comm) {
  double value = 1;
  const sennit_status_t status =
      sennit_all_reduce(&value, &value, 1, SENNIT_FLOAT64, SENNIT_SUM, comm, nullptr, nullptr);
  SENNIT_CHECK(status == SENNIT_OK && value == 1, "a communicator that does not work");
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  // The parts that do not wait: a join of one rank needs nobody.
  config.join_timeout_s = bytes.take<float>();
  config.deadline_s = bytes.take<float>();
  config.slot_bytes = bytes.take<std::int32_t>();
  config.slots = bytes.take<std::int16_t>();
  config.ports = bytes.take<std::int16_t>();
  const std::string text = bytes.rest();
  config.paths = text.empty() ? nullptr : text.c_str();
  config.name = text.c_str();

  sennit_unique_id_t id{};
  sennit_unique_id_t same{};
  const sennit_status_t named = sennit_unique_id_from_text(&id, text.c_str());
  SENNIT_CHECK((named == SENNIT_OK) == (text.c_str()[0] != '\0'), "only the empty text has no id");
  sennit_unique_id_from_text(&same, text.c_str());
  SENNIT_CHECK(std::memcmp(&id, &same, sizeof(id)) == 0, "one text, two ids");
  std::memcpy(id.bytes, data, size < sizeof(id.bytes) ? size : sizeof(id.bytes));

  sennit_comm_t comm = nullptr;
  if (sennit_comm_init_rank(&comm, 1, &id, 0, &config) == SENNIT_OK) {
    if (config.deadline_s <= 0 || config.deadline_s > 1) {
      use(comm);
    }
    sennit_comm_destroy(comm);
  } else {
    SENNIT_CHECK(*sennit_last_error_message() != '\0', "a failure without a message");
  }
  return 0;
}
