// Messages into memory that a program has mapped itself (cuMemCreate, cuMemMap), which the ranks
// map by file descriptors. Whether they have is read in what they log.
#include "device_ranks.hpp"
#include "gpu_processes.hpp"

#include "drivers/cuda/driver_calls.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace sennit::tests {
namespace {

constexpr std::size_t kMessage = (std::size_t{1} << 20) + 13;
constexpr std::byte kUntouched{0xa5};

// A function of the driver, by the name of the declaration.
#define SENNIT_DRIVER(function) cuda::driver_function<decltype(&function)>(#function)

void check_driver(CUresult result, const char* what) { ASSERT_EQ(result, CUDA_SUCCESS) << what; }

// Addresses of this device in which allocations are mapped side by side, as PyTorch's expandable
// segments are. The allocations can be replaced, the addresses stay.
class Segment {
 public:
  Segment(int device, std::size_t parts) : device_(device), parts_(parts) {
    made_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    made_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    made_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    std::size_t granularity = 0;
    check_driver(SENNIT_DRIVER(cuMemGetAllocationGranularity)(
                     &granularity, &made_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                 "granularity");
    part_bytes_ = (kMessage + 64 + granularity - 1) / granularity * granularity;
    check_driver(SENNIT_DRIVER(cuMemAddressReserve)(&base_, part_bytes_ * parts_, 0, 0, 0),
                 "reserve");
    fill();
  }
  ~Segment() {
    empty();
    EXPECT_EQ(SENNIT_DRIVER(cuMemAddressFree)(base_, part_bytes_ * parts_), CUDA_SUCCESS);
  }
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Other memory at the same addresses.
  void renew() {
    empty();
    fill();
  }
  [[nodiscard]] std::byte* part(std::size_t index) const {
    return reinterpret_cast<std::byte*>(base_) + index * part_bytes_;
  }
  [[nodiscard]] std::size_t bytes() const { return part_bytes_ * parts_; }

 private:
  void fill() {
    for (std::size_t i = 0; i < parts_; ++i) {
      CUmemGenericAllocationHandle handle = 0;
      check_driver(SENNIT_DRIVER(cuMemCreate)(&handle, part_bytes_, &made_, 0), "create");
      check_driver(SENNIT_DRIVER(cuMemMap)(base_ + i * part_bytes_, part_bytes_, 0, handle, 0),
                   "map");
      // The mapping holds it.
      check_driver(SENNIT_DRIVER(cuMemRelease)(handle), "release");
    }
    CUmemAccessDesc access{};
    access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device_};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check_driver(SENNIT_DRIVER(cuMemSetAccess)(base_, bytes(), &access, 1), "access");
  }
  void empty() {
    for (std::size_t i = 0; i < parts_; ++i) {
      check_driver(SENNIT_DRIVER(cuMemUnmap)(base_ + i * part_bytes_, part_bytes_), "unmap");
    }
  }

  int device_;
  std::size_t parts_;
  CUmemAllocationProp made_{};
  std::size_t part_bytes_ = 0;
  CUdeviceptr base_ = 0;
};

// A rank of a ring, each of which sends to the next out of virtual memory and into it.
class RingRank {
 public:
  RingRank(sennit_comm_t comm, int rank, int ranks) : comm_(comm), rank_(rank), ranks_(ranks) {
    use_device();
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    out_ = std::make_unique<Segment>(device(), 1);
    in_ = std::make_unique<Segment>(device(), 2);
    Bytes bytes(kMessage);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = content(rank, i);
    }
    check_cuda(cudaMemcpy(out_->part(0), bytes.data(), kMessage, cudaMemcpyHostToDevice));
    check_cuda(cudaDeviceSynchronize());
  }
  ~RingRank() {
    use_device();
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(sennit_comm_destroy(comm_), SENNIT_OK);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  RingRank(const RingRank&) = delete;
  RingRank& operator=(const RingRank&) = delete;

  [[nodiscard]] int device() const { return rank_ % device_count(); }
  void use_device() const { check_cuda(cudaSetDevice(device())); }
  void renew() {
    use_device();
    check_cuda(cudaStreamSynchronize(stream_));
    in_->renew();
  }
  // In the first allocation, the second, or across both.
  enum class Place { kFirst, kSecond, kAcross };
  [[nodiscard]] std::byte* at(Place place) const {
    return place == Place::kFirst    ? in_->part(0)
           : place == Place::kSecond ? in_->part(1) + 5
                                     : in_->part(1) - kMessage / 2;
  }

  void poison() {
    use_device();
    check_cuda(cudaMemsetAsync(in_->part(0), static_cast<int>(kUntouched), in_->bytes(), stream_));
    check_cuda(cudaStreamSynchronize(stream_));
  }
  void post(Place place) {
    use_device();
    sennit_call_options_t request = SENNIT_CALL_OPTIONS_INITIALIZER;
    request.protocol = "direct_put";
    const int next = (rank_ + 1) % ranks_;
    ASSERT_EQ(sennit_group_start(), SENNIT_OK);
    EXPECT_EQ(sennit_send(out_->part(0), kMessage, SENNIT_UINT8, next, comm_, stream_, &request),
              SENNIT_OK)
        << sennit_last_error_message();
    EXPECT_EQ(sennit_recv(at(place), kMessage, SENNIT_UINT8, previous(), comm_, stream_, &request),
              SENNIT_OK)
        << sennit_last_error_message();
    ASSERT_EQ(sennit_group_end(), SENNIT_OK) << sennit_last_error_message();
  }
  void check(Place place) {
    use_device();
    Bytes found(kMessage);
    check_cuda(cudaMemcpyAsync(found.data(), at(place), kMessage, cudaMemcpyDeviceToHost, stream_));
    check_cuda(cudaStreamSynchronize(stream_));
    for (std::size_t i = 0; i < kMessage; ++i) {
      ASSERT_EQ(found[i], content(previous(), i)) << "byte " << i << " of rank " << rank_;
    }
  }
  CapturedGraph capture(Place place) {
    use_device();
    return CapturedGraph(stream_, [&] { post(place); });
  }
  void launch(const CapturedGraph& graph) {
    use_device();
    graph.launch();
  }
  void register_all() {
    use_device();
    void* handle = nullptr;
    EXPECT_EQ(sennit_comm_register(comm_, in_->part(0), in_->bytes(), &handle), SENNIT_OK);
    EXPECT_EQ(sennit_comm_deregister(comm_, handle), SENNIT_OK);
  }
  void meet() {
    use_device();
    EXPECT_EQ(sennit_barrier(comm_, stream_, nullptr), SENNIT_OK);
    check_cuda(cudaStreamSynchronize(stream_));
  }

 private:
  static std::byte content(int rank, std::size_t at) {
    return static_cast<std::byte>(at * 7 + at / 251 + static_cast<std::size_t>(rank) * 37 + 1);
  }
  [[nodiscard]] int previous() const { return (rank_ + ranks_ - 1) % ranks_; }

  sennit_comm_t comm_;
  int rank_;
  int ranks_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Segment> out_;
  std::unique_ptr<Segment> in_;
};

using Place = RingRank::Place;
using Ring = std::vector<std::unique_ptr<RingRank>>;  // the ranks of this process

void pass(Ring& ring, Place place) {
  for (int i = 0; i < 4; ++i) {
    for (auto& rank : ring) {
      rank->poison();
    }
    for (auto& rank : ring) {
      rank->post(place);
    }
    for (auto& rank : ring) {
      rank->check(place);
    }
  }
}

void pass_everywhere(Ring& ring) {
  for (int generation = 0; generation < 3; ++generation) {
    for (const Place place : {Place::kFirst, Place::kSecond, Place::kAcross, Place::kFirst}) {
      pass(ring, place);
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
    for (auto& rank : ring) {
      rank->renew();
    }
  }
}

std::string contents_of(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// One thread makes the calls of all: nothing that maps may wait for what runs on another device.
TEST(VirtualMemory, OfThreadsOfOneProcess) {
  if (device_count() < 2) {
    GTEST_SKIP() << "gpu2: needs two GPUs";
  }
  const int ranks = std::min(device_count(), 4);
  std::vector<int> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(rank);
  }
  std::vector<sennit_comm_t> comms(devices.size());
  ASSERT_EQ(sennit_comm_init_all(comms.data(), ranks, devices.data(), nullptr), SENNIT_OK)
      << sennit_last_error_message();
  Ring ring;
  for (int rank = 0; rank < ranks; ++rank) {
    ring.push_back(std::make_unique<RingRank>(comms[static_cast<std::size_t>(rank)], rank, ranks));
  }
  pass_everywhere(ring);
}

// Nothing is mapped in a capture, though it may tell others of memory.
void replay(RingRank& rank, Place place) {
  const CapturedGraph graph = rank.capture(place);
  for (int i = 0; i < 5; ++i) {
    rank.poison();
    rank.launch(graph);
    rank.check(place);
  }
}

// The same of processes, whose logs say how the memory was mapped.
TEST(VirtualMemory, OfProcesses) {
  if (gpu_ranks() == 0) {
    GTEST_SKIP() << "gpu1: needs one GPU";
  }
  const auto log_of = [](const std::string& process) {
    return std::filesystem::temp_directory_path() / ("sennit-virtual-memory-" + process);
  };
  const GpuJob job{
      .ranks = gpu_ranks(),
      .environment = {"SENNIT_DEBUG=INFO", "SENNIT_DEBUG_FILE=" + log_of("%p").string()}};
  run_as_processes(job, [&](const GpuProcess& self) {
    Ring ring;
    ring.push_back(std::make_unique<RingRank>(self.join("ring"), self.rank(), self.ranks()));
    replay(*ring.front(), Place::kFirst);
    pass_everywhere(ring);
    // What is registered is mapped in the calls that follow.
    ring.front()->register_all();
    for (int i = 0; i < 5; ++i) {
      ring.front()->meet();
    }
    replay(*ring.front(), Place::kSecond);
    const std::filesystem::path file = log_of(std::to_string(getpid()));
    const std::string log = contents_of(file);
    EXPECT_NE(log.find("is mapped by a descriptor for"), std::string::npos) << log;
    EXPECT_EQ(log.find("go by packets"), std::string::npos) << log;
    std::filesystem::remove(file);
  });
}

}  // namespace
}  // namespace sennit::tests
