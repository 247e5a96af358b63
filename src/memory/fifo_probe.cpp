#include "memory/fifo_probe.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

namespace sennit {
namespace {

// Of each pair: a few packets of PCIe and a page.
constexpr std::size_t kPatternBytes = 4096;

// One word of what `from` writes to `to`; never zero, which the FIFO holds before.
std::uint64_t pattern_word(BrokenPair pair, std::size_t index) {
  const auto ends =
      static_cast<std::uint64_t>(pair.from) << 8 | static_cast<std::uint64_t>(pair.to);
  return (ends << 32 | (index + 1)) * 0x9e3779b97f4a7c15ULL | 1;
}

bool holds_pattern(const std::byte* memory, BrokenPair pair) {
  for (std::size_t i = 0; i < kPatternBytes / sizeof(std::uint64_t); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory + i * sizeof(word), sizeof(word));
    if (word != pattern_word(pair, i)) {
      return false;
    }
  }
  return true;
}

// The begin of each FIFO holds what comes from each rank, then what goes to each.
class PatternTest {
 public:
  PatternTest(const DeviceBootstrap& bootstrap, const std::vector<std::byte*>& fifos)
      : bootstrap_(bootstrap),
        driver_(bootstrap.driver()),
        fifos_(fifos),
        half_(static_cast<std::size_t>(bootstrap.ranks()) * kPatternBytes) {}
  ~PatternTest() {
    if (stream_ != nullptr) {
      (void)driver_.destroy_stream(stream_);
    }
    if (host_.host != nullptr) {
      (void)driver_.release_mapped(host_);
    }
  }
  PatternTest(const PatternTest&) = delete;
  PatternTest& operator=(const PatternTest&) = delete;

  // Out of this device's memory, so that the bytes take the wire that kernels take.
  Status write() {
    SENNIT_ASSIGN_OR_RETURN(stream_, driver_.create_stream());
    SENNIT_ASSIGN_OR_RETURN(host_, driver_.allocate_mapped(2 * half_));
    for (int to = 0; to < bootstrap_.ranks(); ++to) {
      for (std::size_t i = 0; i < kPatternBytes / sizeof(std::uint64_t); ++i) {
        const std::uint64_t word = pattern_word({bootstrap_.rank(), to}, i);
        std::memcpy(host(to) + i * sizeof(word), &word, sizeof(word));
      }
    }
    SENNIT_RETURN_IF_ERROR(driver_.copy_async(mine() + half_, host(0), half_, stream_));
    for (int to = 0; to < bootstrap_.ranks(); ++to) {
      if (to != bootstrap_.rank() && fifos_[static_cast<std::size_t>(to)] != nullptr) {
        SENNIT_RETURN_IF_ERROR(
            driver_.copy_async(fifos_[static_cast<std::size_t>(to)] + part(bootstrap_.rank()),
                               mine() + half_ + part(to),
                               kPatternBytes,
                               stream_));
      }
    }
    return driver_.synchronize(stream_);
  }

  // Once all have written. By sender: what came is not what it wrote.
  Result<std::vector<char>> read() {
    SENNIT_RETURN_IF_ERROR(driver_.copy_async(host_.host, mine(), half_, stream_));
    SENNIT_RETURN_IF_ERROR(driver_.synchronize(stream_));
    std::vector<char> broken(static_cast<std::size_t>(bootstrap_.ranks()), 0);
    for (int from = 0; from < bootstrap_.ranks(); ++from) {
      const bool is_right = from == bootstrap_.rank() ||
                            fifos_[static_cast<std::size_t>(from)] == nullptr ||
                            holds_pattern(host(from), {from, bootstrap_.rank()});
      broken[static_cast<std::size_t>(from)] = is_right ? 0 : 1;
    }
    std::memset(host_.host, 0, 2 * half_);
    SENNIT_RETURN_IF_ERROR(driver_.copy_async(mine(), host_.host, 2 * half_, stream_));
    SENNIT_RETURN_IF_ERROR(driver_.synchronize(stream_));
    return broken;
  }

 private:
  [[nodiscard]] static std::size_t part(int rank) {
    return static_cast<std::size_t>(rank) * kPatternBytes;
  }
  [[nodiscard]] std::byte* mine() const {
    return fifos_[static_cast<std::size_t>(bootstrap_.rank())];
  }
  [[nodiscard]] std::byte* host(int rank) const {
    return static_cast<std::byte*>(host_.host) + part(rank);
  }

  const DeviceBootstrap& bootstrap_;
  CudaDriver& driver_;
  const std::vector<std::byte*>& fifos_;
  std::size_t half_;
  void* stream_ = nullptr;
  MappedMemory host_;
};

}  // namespace

Result<std::vector<BrokenPair>> find_corrupting_pairs(const DeviceBootstrap& bootstrap,
                                                      const std::vector<std::byte*>& fifos) {
  PatternTest test(bootstrap, fifos);
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(test.write()));
  const Result<std::vector<char>> broken = test.read();
  SENNIT_RETURN_IF_ERROR(bootstrap.agree(broken.status()));
  // Reported by the reader.
  SENNIT_ASSIGN_OR_RETURN(auto pairs, bootstrap.gather(*broken));
  for (BrokenPair& pair : pairs) {
    std::swap(pair.from, pair.to);
  }
  return pairs;
}

}  // namespace sennit
