#include "memory/held_memory.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

namespace sennit {
namespace {

using Pages = std::pair<CudaDriver*, void*>;

struct Held {
  std::mutex mutex;
  std::condition_variable unpinned;
  std::map<std::uint64_t, std::weak_ptr<HeldMemory>> allocations;
  std::map<Pages, std::weak_ptr<HeldMemory>> pins;
};

// Never freed: programs end with communicators alive.
Held& held() {
  static Held& all = *new Held;
  return all;
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

HeldMemory::HeldMemory(CudaDriver& driver, int device)
    : driver_(driver), device_(device), id_(next_id()) {}

Result<std::shared_ptr<HeldMemory>> HeldMemory::allocate(CudaDriver& driver, std::size_t bytes) {
  SENNIT_ASSIGN_OR_RETURN(const int device, driver.current_device());
  SENNIT_ASSIGN_OR_RETURN(void* const memory, driver.allocate(bytes));
  std::shared_ptr<HeldMemory> made(new HeldMemory(driver, device));
  made->on_device_ = static_cast<std::byte*>(memory);
  const std::scoped_lock lock(held().mutex);
  held().allocations[made->id_] = made;
  return made;
}

std::shared_ptr<HeldMemory> HeldMemory::find(std::uint64_t id) {
  const std::scoped_lock lock(held().mutex);
  const auto known = held().allocations.find(id);
  return known == held().allocations.end() ? nullptr : known->second.lock();
}

Result<std::shared_ptr<HeldMemory>> HeldMemory::pin(CudaDriver& driver,
                                                    void* memory,
                                                    std::size_t bytes) {
  SENNIT_ASSIGN_OR_RETURN(const int device, driver.current_device());
  const Pages pages(&driver, memory);
  std::unique_lock lock(held().mutex);
  for (auto known = held().pins.find(pages); known != held().pins.end();
       known = held().pins.find(pages)) {
    if (std::shared_ptr<HeldMemory> shared = known->second.lock()) {
      return shared;
    }
    // The last that held them is about to give them back. wait() without a time would be a symbol
    // that libstdc++ has from version 12 on, and a wheel is to load next to that of RHEL 9 too.
    held().unpinned.wait_for(lock, std::chrono::seconds(1));
  }
  SENNIT_ASSIGN_OR_RETURN(void* const on_device, driver.map_host(memory, bytes));
  std::shared_ptr<HeldMemory> made(new HeldMemory(driver, device));
  made->pinned_ = memory;
  made->on_device_ = static_cast<std::byte*>(on_device);
  held().pins[pages] = made;
  return made;
}

// Without the lock: CUDA may wait for kernels when it takes memory back, and these for a rank that
// waits for the lock.
HeldMemory::~HeldMemory() {
  const DeviceScope scope(driver_, device_);
  if (pinned_ == nullptr) {
    (void)driver_.release(on_device_);
    const std::scoped_lock lock(held().mutex);
    held().allocations.erase(id_);
    return;
  }
  (void)driver_.unmap_host(pinned_);
  {
    const std::scoped_lock lock(held().mutex);
    held().pins.erase({&driver_, pinned_});
  }
  held().unpinned.notify_all();
}

}  // namespace sennit
