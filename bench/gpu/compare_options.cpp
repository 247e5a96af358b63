#include "compare_options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <span>
#include <sstream>

namespace sennit_bench {
namespace {

constexpr int kBadUsage = 2;
constexpr const char* kHelp =
    R"(sennit-compare times Sennit on GPUs and NCCL in turn, and prints JSON. More ranks than GPUs
share them; their rival is copies through host memory, since NCCL refuses that.

  --nccl FILE            NCCL's library, libnccl.so.2
  --ranks N              2 to 16; default: 4
  --collective NAME      all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce or
                         send_recv; default: all of them
  --mode MODE            how calls are made: graph, stream or call (the host waits for each, which
                         is timed with that); default: graph
  --sizes N,N...         bytes of the total buffer; else
  --min-bytes N          from here, times 4 each; default: 256
  --max-bytes N          to here; default: 16777216
  --samples N            timed batches of calls; default: 21
  --warmup N             batches before them; default: 3
  --check yes|no         compare outputs with NCCL's; default: yes
  --registered yes|no    yes: Sennit, too, on the memory of NCCL's symmetric windows, beside these
                         alone; no: both on memory of cudaMalloc; default: Sennit on that, beside
                         both
  --algorithm NAME       of Sennit's own calls, as are
  --path NAME            nvlink, host, nvlink+host or nvlink+host:8 (percent through the host);
                         device in place of nvlink where all ranks share one GPU; and
  --protocol NAME        ll, ll128, slots, direct_put, direct_get or copy_engines; default: its
                         choice
  --codec NAME           q8, zfp:8, ...: rows have the error in place of wrong elements
  --against NAME         further ways of Sennit: engines (and kernels by hand) or shares
  --beside NAME          time calls together with matmul (products of cuBLAS) or copy (of the GPU's
                         memory, by a kernel), and each alone
  --cublas FILE          of matmul: libcublas.so; default: where the loader finds it
  --load-sms N           of matmul: products are made for N SMs (cublasSetSmCountTarget); default:
                         for all
  --paths NAMES          shares of what: nvlink, host or nvlink,host (the default); or device,
                         device,host
  --share N,N...         the shares, in percent through host memory; also the word dynamic, for
                         send_recv with --mode stream: it follows the load
  --pair A:B             send_recv from rank A to B alone
  --bidirectional yes|no and back
  --window N             send_recv: N messages at once, 1 to 64
  --sm-budget N          thread blocks of Sennit's and NCCL's kernels for each direction, 1 to 128
)";

void require(bool good, const std::string& what) {
  if (!good) {
    std::cerr << "compare: " << what << '\n';
    std::exit(kBadUsage);
  }
}

template <typename Number>
Number number_of(const std::string& flag, const std::string& text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  require(error == std::errc() && last == end, flag + " takes a number, not '" + text + "'");
  return number;
}

template <typename Number>
std::vector<Number> numbers_of(const std::string& flag, const std::string& text) {
  std::vector<Number> numbers;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    numbers.push_back(number_of<Number>(flag, one));
  }
  return numbers;
}

bool is_yes(const std::string& flag, const std::string& text) {
  require(text == "yes" || text == "no", flag + " takes: yes, no");
  return text == "yes";
}

constexpr int kShares[] = {0, 2, 4, 6, 8, 12};
// Where NVLink has a block or two, the host has about as much to carry.
constexpr int kSharesBesideFewBlocks[] = {0, 30, 50, 60, 70, 80};
// Of whole copies, whose number is rounded.
constexpr int kSharesOfCopies[] = {0, 25, 50, 75, 100};

void set_shares(Options& options, const std::string& paths, const std::string& wanted) {
  const bool is_stream = options.mode == "stream";  // a graph keeps the share it was captured with
  if (paths != "nvlink,host" && paths != "device,host") {
    require(paths == "nvlink" || paths == "device" || paths == "host",
            "--paths takes: nvlink, device, host, nvlink,host, device,host");
    require(wanted.empty(), "--share needs --paths nvlink,host or device,host");
    options.shares = {paths == "host" ? 100 : 0};
    return;
  }
  if (wanted.empty()) {
    std::span<const int> usual = kShares;
    if (options.algorithm == "shared_buffer") {
      usual = kSharesOfCopies;
    } else if (options.sm_budget > 0) {
      usual = kSharesBesideFewBlocks;
    }
    options.shares.assign(usual.begin(), usual.end());
    options.dynamic_share = is_stream;
    return;
  }
  options.shares = {0};  // what the others are measured against
  std::istringstream list(wanted);
  for (std::string one; std::getline(list, one, ',');) {
    if (one == "dynamic") {
      require(is_stream, "--share dynamic needs --mode stream: a graph keeps its share");
      options.dynamic_share = true;
      continue;
    }
    options.shares.push_back(number_of<int>("--share", one));
    require(options.shares.back() > 0 && options.shares.back() <= 100,
            "--share is 1 to 100, in percent, or dynamic");
  }
}

// What the command line says before it is made sense of.
struct Words {
  Options options;
  std::string paths = "nvlink,host";
  std::string share;
  std::size_t min_bytes = 256;
  std::size_t max_bytes = std::size_t{16} << 20;
};

using Setter = std::function<void(const std::string& flag, const std::string& value)>;

Setter into(std::string& target) {
  return [&target](const std::string& /*flag*/, const std::string& value) { target = value; };
}

template <typename Number>
Setter into(Number& target) {
  return [&target](const std::string& flag, const std::string& value) {
    target = number_of<Number>(flag, value);
  };
}

Setter into(bool& target) {
  return [&target](const std::string& flag, const std::string& value) {
    target = is_yes(flag, value);
  };
}

void set_pair(Options& options, const std::string& flag, const std::string& value) {
  const std::size_t colon = value.find(':');
  require(colon != std::string::npos, flag + " takes two ranks, like 0:1");
  options.pair_from = number_of<int>(flag, value.substr(0, colon));
  options.pair_to = number_of<int>(flag, value.substr(colon + 1));
}

std::map<std::string, Setter> setters_of(Words& words) {
  Options& options = words.options;
  return {
      {"--ranks", into(options.ranks)},
      {"--nccl", into(options.nccl)},
      {"--mode", into(options.mode)},
      {"--collective", into(options.collective)},
      {"--algorithm", into(options.algorithm)},
      {"--path", into(options.path)},
      {"--protocol", into(options.protocol)},
      {"--codec", into(options.codec)},
      {"--against", into(options.against)},
      {"--beside", into(options.load)},
      {"--cublas", into(options.cublas)},
      {"--load-sms", into(options.load_sms)},
      {"--registered",
       [&options](const std::string& flag, const std::string& value) {
         options.rivals = is_yes(flag, value) ? Rivals::kWindows : Rivals::kPlain;
       }},
      {"--pair",
       [&options](const std::string& flag, const std::string& value) {
         set_pair(options, flag, value);
       }},
      {"--bidirectional", into(options.bidirectional)},
      {"--window", into(options.window)},
      {"--paths", into(words.paths)},
      {"--share", into(words.share)},
      {"--sm-budget", into(options.sm_budget)},
      {"--sizes",
       [&options](const std::string& flag, const std::string& value) {
         options.sizes = numbers_of<std::size_t>(flag, value);
       }},
      {"--min-bytes", into(words.min_bytes)},
      {"--max-bytes", into(words.max_bytes)},
      {"--samples", into(options.samples)},
      {"--warmup", into(options.warmup)},
      {"--check", into(options.check)},
  };
}

Words read_words(int argc, char** argv) {
  Words words;
  const std::map<std::string, Setter> setters = setters_of(words);
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--help") {
      std::cout << kHelp;
      std::exit(0);
    }
    const auto setter = setters.find(flag);
    require(setter != setters.end(), "unknown option " + flag + "; see --help");
    require(i + 1 < argc, flag + " takes a value");
    setter->second(flag, argv[i + 1]);
  }
  return words;
}

void check_options(const Options& options) {
  require(options.ranks >= 2 && options.ranks <= kMaxRanks, "--ranks is 2 to 16");
  require(options.mode == "graph" || options.mode == "stream" || options.mode == "call",
          "--mode takes: graph, stream, call");
  require(options.against.empty() || options.against == "engines" || options.against == "shares",
          "--against takes: engines, shares");
  require(options.load.empty() || options.load == "matmul" || options.load == "copy",
          "a load is one of: matmul, copy");
  require(options.load.empty() || options.mode != "call", "--mode call has no load");
  require(options.load_sms >= 0 && (options.load_sms == 0 || options.load == "matmul"),
          "--load-sms is a number of SMs, for matmul");
  require(options.load.empty() || (options.against.empty() && options.rivals != Rivals::kWindows),
          "a load is neither for --against nor for --registered yes");
  require(options.pair_from < options.ranks && options.pair_to < options.ranks &&
              (options.pair_from < 0 || options.pair_from != options.pair_to),
          "--pair takes two different ranks");
  require(options.window >= 1 && options.window <= kMaxWindow, "--window is 1 to 64");
  require(options.sm_budget >= 0 && options.sm_budget <= 128, "--sm-budget is 1 to 128 blocks");
  require(options.samples >= 1 && options.warmup >= 0,
          "--samples is 1 or more, --warmup 0 or more");
  require(!options.sizes.empty(), "there is no size from --min-bytes to --max-bytes");
}

}  // namespace

std::size_t buffer_bytes(const Options& options) {
  constexpr std::size_t kPage = std::size_t{2} << 20;
  return (std::ranges::max(options.sizes) + kPage - 1) / kPage * kPage;
}

Exchange exchange_of(const Options& options, int rank) {
  // A group of Sennit has at most so many sends and recvs; all ranks divide the window alike.
  constexpr int kMostOfAGroup = 64;
  const bool is_both_ways = options.pair_from < 0 || options.bidirectional;
  Exchange exchange{.to = {},
                    .from = {},
                    .window = options.window,
                    .in_group = std::min(options.window, kMostOfAGroup / (is_both_ways ? 2 : 1))};
  if (options.pair_from < 0) {
    exchange.to.push_back((rank + 1) % options.ranks);
    exchange.from.push_back((rank + options.ranks - 1) % options.ranks);
    return exchange;
  }
  const int other = rank == options.pair_from ? options.pair_to : options.pair_from;
  if (rank == options.pair_from || (options.bidirectional && rank == options.pair_to)) {
    exchange.to.push_back(other);
  }
  if (rank == options.pair_to || (options.bidirectional && rank == options.pair_from)) {
    exchange.from.push_back(other);
  }
  return exchange;
}

Options parse_options(int argc, char** argv) {
  const Words words = read_words(argc, argv);
  Options options = words.options;
  if (options.sizes.empty()) {
    for (std::size_t bytes = words.min_bytes; bytes <= words.max_bytes; bytes *= 4) {
      options.sizes.push_back(bytes);
    }
  }
  check_options(options);
  set_shares(options, words.paths, words.share);
  return options;
}

}  // namespace sennit_bench
