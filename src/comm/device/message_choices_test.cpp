#include "comm/device/message_choices.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sennit {
namespace {

Operation send_of(std::int64_t count) {
  Operation operation;
  operation.collective = Collective::kSendRecv;
  operation.is_send = true;
  operation.dtype = Dtype::kFloat32;
  operation.count = count;
  return operation;
}

TEST(MessageChoices, AreOfMessagesThatAreAlike) {
  MessageChoices ways;
  const Operation empty = send_of(0);
  EXPECT_EQ(ways.find(empty, false), nullptr);
  const Operation message = send_of(100);
  EXPECT_EQ(ways.find(message, false), nullptr);
  ways.keep(message, false, {.plan_hash = 7});
  ASSERT_NE(ways.find(message, false), nullptr);
  EXPECT_EQ(ways.find(message, false)->plan_hash, 7U);

  Operation similar = message;
  similar.dtype = Dtype::kUint8;
  similar.count = 400;
  similar.peer = 3;
  EXPECT_NE(ways.find(similar, false), nullptr);

  EXPECT_EQ(ways.find(message, true), nullptr) << "to this rank itself";
  ways.keep(message, true, {.plan_hash = 8});
  EXPECT_EQ(ways.find(message, false)->plan_hash, 7U);
  Operation other = message;
  other.is_send = false;
  ASSERT_NE(ways.find(other, true), nullptr) << "the other end";
  EXPECT_EQ(ways.find(other, true)->plan_hash, 8U);
  other = message;
  other.is_send = false;
  EXPECT_EQ(ways.find(other, false), nullptr);
  for (std::string CallRequest::* const request :
       {&CallRequest::algorithm, &CallRequest::path, &CallRequest::protocol}) {
    other = message;
    other.request.*request = "x";
    EXPECT_EQ(ways.find(other, false), nullptr);
  }
  for (std::int64_t count = 1; count < 200; ++count) {
    EXPECT_EQ(ways.find(send_of(count), false) != nullptr, count == 100) << count;
  }
}

TEST(MessageChoices, KeepTheLastOfAPlace) {
  MessageChoices ways;
  for (std::int64_t count = 1; count < 200; ++count) {
    ways.keep(send_of(count), false, {.plan_hash = static_cast<std::uint64_t>(count)});
    ASSERT_NE(ways.find(send_of(count), false), nullptr);
    EXPECT_EQ(ways.find(send_of(count), false)->plan_hash, static_cast<std::uint64_t>(count));
  }
  EXPECT_EQ(ways.find(send_of(1), false), nullptr);
}

}  // namespace
}  // namespace sennit
