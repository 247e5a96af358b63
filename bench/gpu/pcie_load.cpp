// pcie_load: keeps the wires between GPUs and host busy, so that others can be measured meanwhile.
//
//   sennit-pcie-load --gpus 0,1 --duty 50 --direction both --seconds 20
//
// Copies of pinned memory, in each direction asked for, during `duty` percent of every 10 ms.
// Prints what went over the wires as one JSON object when it ends: after its time, or at SIGINT or
// SIGTERM.
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kCopyBytes = std::size_t{4} << 20;  // some 80 us over PCIe 5
constexpr auto kPeriod = std::chrono::milliseconds(10);

struct Options {
  std::vector<int> gpus{0};
  int duty = 100;  // in percent
  std::string direction = "both";
  double seconds = 10;
};

std::atomic<bool> is_over{false};

void end(int /*signal*/) { is_over = true; }

void require(bool good, const std::string& what) {
  if (!good) {
    std::cerr << "pcie_load: " << what << '\n';
    std::exit(3);
  }
}
void require(cudaError_t error, const char* what) {
  require(error == cudaSuccess, std::string(what) + ": " + cudaGetErrorString(error));
}

std::vector<int> numbers_of(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    numbers.push_back(std::stoi(part));
  }
  return numbers;
}

Options parse_options(int argc, char** argv) {
  Options options;
  require(argc % 2 == 1, "every option takes a value");
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--gpus") {
      options.gpus = numbers_of(value);
    } else if (flag == "--duty") {
      options.duty = std::stoi(value);
    } else if (flag == "--direction") {
      options.direction = value;
    } else if (flag == "--seconds") {
      options.seconds = std::stod(value);
    } else {
      require(false, "unknown option " + flag);
    }
  }
  require(options.duty >= 1 && options.duty <= 100, "--duty is 1 to 100");
  require(options.direction == "both" || options.direction == "d2h" || options.direction == "h2d",
          "--direction takes: both, d2h, h2d");
  return options;
}

// One direction of one GPU's wire. Returns the bytes that it has copied.
std::size_t load(int gpu, bool to_host, const Options& options) {
  require(cudaSetDevice(gpu), "cudaSetDevice");
  void* on_device = nullptr;
  void* on_host = nullptr;
  cudaStream_t stream = nullptr;
  require(cudaMalloc(&on_device, kCopyBytes), "cudaMalloc");
  require(cudaMallocHost(&on_host, kCopyBytes), "cudaMallocHost");
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  cudaEvent_t copied[2] = {};
  for (cudaEvent_t& event : copied) {
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
  }
  void* const to = to_host ? on_host : on_device;
  const void* const from = to_host ? on_device : on_host;
  const auto last = Clock::now() + std::chrono::duration<double>(options.seconds);
  std::size_t copies = 0;
  for (auto begin = Clock::now(); !is_over && begin < last; begin += kPeriod) {
    while (!is_over && Clock::now() < begin + kPeriod * options.duty / 100) {
      // The next copy waits behind this one, so that the wire does not wait for the host.
      require(cudaMemcpyAsync(to, from, kCopyBytes, cudaMemcpyDefault, stream), "copy");
      require(cudaEventRecord(copied[copies++ % 2], stream), "event");
      require(cudaEventSynchronize(copied[copies % 2]), "copy");
    }
    std::this_thread::sleep_until(begin + kPeriod);
  }
  require(cudaStreamSynchronize(stream), "copy");
  for (cudaEvent_t const event : copied) {
    require(cudaEventDestroy(event), "event");
  }
  require(cudaStreamDestroy(stream), "stream");
  require(cudaFreeHost(on_host), "free");
  require(cudaFree(on_device), "free");
  return copies * kCopyBytes;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  std::signal(SIGINT, end);
  std::signal(SIGTERM, end);
  std::atomic<std::size_t> bytes{0};
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (const int gpu : options.gpus) {
      for (const bool to_host : {true, false}) {
        if (options.direction == "both" || (options.direction == "d2h") == to_host) {
          threads.emplace_back([&, gpu, to_host] { bytes += load(gpu, to_host, options); });
        }
      }
    }
  }
  const std::chrono::duration<double> lasted = Clock::now() - begin;
  std::cout << R"({"gpus": )" << options.gpus.size() << R"(, "duty_percent": )" << options.duty
            << R"(, "direction": ")" << options.direction << R"(", "seconds": )" << lasted.count()
            << R"(, "gb_per_s": )" << static_cast<double>(bytes) / 1e9 / lasted.count() << "}\n";
  return 0;
}
