// Memory of ranks that are threads of one process.
#include "path/cma/peer_memory.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace sennit::cma {
namespace {

class MappedPage {
 public:
  MappedPage()
      : address_(
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~MappedPage() { ::munmap(address_, kBytes); }
  MappedPage(const MappedPage&) = delete;
  MappedPage& operator=(const MappedPage&) = delete;

  void forbid() { ::mprotect(address_, kBytes, PROT_NONE); }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(address_); }

  static constexpr std::size_t kBytes = 4096;

 private:
  void* address_;
};

TEST(PeerMemory, OfAThreadOfThisProcessIsRead) {
  const MappedPage page;
  page.data()[7] = std::byte{42};
  std::byte got{};
  const PeerMemory memory(::getpid(), true);
  const Status status = memory.read(&got, reinterpret_cast<std::uint64_t>(page.data() + 7), 1);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(got, std::byte{42});
}

TEST(PeerMemory, OfAThreadThatHasFreedItIsAnErrorAndNotTheEndOfTheProcess) {
  MappedPage page;
  page.forbid();  // what is unmapped might be mapped again by then
  std::byte got{};
  const PeerMemory memory(::getpid(), true);
  EXPECT_EQ(memory.read(&got, reinterpret_cast<std::uint64_t>(page.data()), 1).code(),
            Code::kSystemError);
  EXPECT_FALSE(PeerMemory::is_refused());  // the peer is to blame
}

}  // namespace
}  // namespace sennit::cma
