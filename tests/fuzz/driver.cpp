// Drives a fuzz target where there is no libFuzzer: replays every file of its corpus, then mutates
// what is there for as long as it is told. The same seed tries the same inputs.
//
//   text_fuzz tests/fuzz/corpus/text --seconds 60 --seed 7
//
// An input that ends the program is left in crash-<target>; to replay it, name it as the corpus.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLongestInput = 1 << 16;

std::string crash_file;     // NOLINT(cert-err58-cpp): for the handler, which may allocate nothing
std::string current_input;  // NOLINT(cert-err58-cpp)

extern "C" void save_input(int number) {
  const int file = ::open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  static_cast<void>(::write(file, current_input.data(), current_input.size()));
  static_cast<void>(::write(STDERR_FILENO, crash_file.data(), crash_file.size()));
  static_cast<void>(::write(STDERR_FILENO, " holds the input\n", 17));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void run(std::string input) {
  current_input = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current_input.data()),
                         current_input.size());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One file, or all files of a folder, by name, so that a seed means the same everywhere.
std::vector<std::string> read_corpus(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files = {path};
  if (std::filesystem::is_directory(path)) {
    files.assign(std::filesystem::directory_iterator(path), {});
    std::sort(files.begin(), files.end());
  }
  std::vector<std::string> corpus;
  for (const auto& file : files) {
    corpus.push_back(read_file(file));
  }
  return corpus;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, unsigned seed) : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string input = pick();
    for (std::size_t left = 1 + below(below(4) == 0 ? 16 : 4); left > 0; --left) {
      mutate(input);
    }
    input.resize(std::min(input.size(), kLongestInput));
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& pick() { return corpus_[below(corpus_.size())]; }
  // A piece of a corpus input: often a word of the format.
  std::string piece() {
    const std::string& from = pick();
    return from.substr(below(from.size()), 1 + below(16));
  }

  void mutate(std::string& input) {
    const std::size_t at = below(input.size());
    switch (below(7)) {
      case 0:
        if (!input.empty()) {
          input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        }
        break;
      case 1:
        if (!input.empty()) {
          input[at] = static_cast<char>(random_());
        }
        break;
      case 2:
        input.erase(at, 1 + below(below(8) == 0 ? input.size() : 8));
        break;
      case 3:
        input.insert(at, piece());
        break;
      case 4:
        input.insert(at, input.substr(at, 1 + below(64)));
        break;
      case 5:
        input.insert(at, number());
        break;
      default: {
        const std::string& other = pick();
        input = input.substr(0, at) + other.substr(below(other.size()));
        break;
      }
    }
  }

  // Numbers at which parsers and sizes change their minds.
  std::string number() {
    static constexpr std::array<std::string_view, 10> kNumbers = {"0",
                                                                  "-1",
                                                                  "1",
                                                                  "64",
                                                                  "4096",
                                                                  "65536",
                                                                  "2147483647",
                                                                  "2147483648",
                                                                  "9223372036854775807",
                                                                  "18446744073709551616"};
    return std::string(kNumbers[below(kNumbers.size())]);
  }

  const std::vector<std::string>& corpus_;
  std::mt19937 random_;
};

bool read_number(std::string_view text, unsigned& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size();
}

struct Options {
  std::filesystem::path corpus;
  unsigned seconds = 0;
  unsigned seed = 1;
};

bool read_options(const std::vector<std::string_view>& arguments, Options& options) {
  if (arguments.size() % 2 == 1) {
    return false;
  }
  options.corpus = arguments[1];
  for (std::size_t k = 2; k < arguments.size(); k += 2) {
    unsigned* target = arguments[k] == "--seconds" ? &options.seconds
                       : arguments[k] == "--seed"  ? &options.seed
                                                   : nullptr;
    if (target == nullptr || !read_number(arguments[k + 1], *target)) {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv, argv + argc);
  Options options;
  if (!read_options(arguments, options)) {
    std::fprintf(stderr, "usage: %s CORPUS [--seconds N] [--seed N]\n", argv[0]);
    return 2;
  }
  const std::string target = std::filesystem::path(argv[0]).filename();
  crash_file = "crash-" + target;
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    std::signal(number, save_input);
  }
  const std::vector<std::string> corpus = read_corpus(options.corpus);
  for (const std::string& input : corpus) {
    run(input);
  }
  Mutator mutator(corpus, options.seed);
  const auto end = Clock::now() + std::chrono::seconds(options.seconds);
  std::size_t mutated = 0;
  for (; !corpus.empty() && Clock::now() < end; ++mutated) {
    run(mutator.next());
  }
  std::printf("%s: %zu inputs of the corpus, %zu mutated in %u s, seed %u: no fault\n",
              target.c_str(),
              corpus.size(),
              mutated,
              options.seconds,
              options.seed);
  return corpus.empty() ? 1 : 0;
}
