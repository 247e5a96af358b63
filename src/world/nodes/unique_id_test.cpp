#include "world/nodes/unique_id.hpp"

#include "world/nodes/tcp_socket.hpp"

#include <gtest/gtest.h>

#include <array>

namespace sennit {
namespace {

TEST(UniqueId, HoldsTheAddressesOfThisMachine) {
  std::array<unsigned char, kUniqueIdBytes> id{};
  make_unique_id(id);
  std::vector<std::string> expected;
  for (const TcpAddress& address : own_addresses(3)) {
    expected.push_back(address.host());
    EXPECT_FALSE(address.is_loopback());
  }
  EXPECT_EQ(addresses_of(id), expected);
}

TEST(UniqueId, NoTwoAreEqual) {
  std::array<unsigned char, kUniqueIdBytes> first{};
  std::array<unsigned char, kUniqueIdBytes> second{};
  make_unique_id(first);
  make_unique_id(second);
  EXPECT_NE(first, second);
}

TEST(UniqueId, OneOfATextHoldsNoAddresses) {
  std::array<unsigned char, kUniqueIdBytes> id{};
  id.fill('7');
  EXPECT_TRUE(addresses_of(id).empty());
  EXPECT_FALSE(is_random(id));
  make_unique_id(id);
  id[36] = 200;  // the number of addresses
  EXPECT_TRUE(addresses_of(id).empty());
}

}  // namespace
}  // namespace sennit
