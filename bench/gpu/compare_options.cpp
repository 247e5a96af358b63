#include "compare_options.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <sstream>

namespace sennit_bench {
namespace {

void require(bool good, const std::string& what) {
  if (!good) {
    std::cerr << "compare: " << what << '\n';
    std::exit(3);
  }
}

constexpr int kShares[] = {0, 2, 4, 6, 8, 12};
// Where NVLink has a block or two, the host has about as much to carry.
constexpr int kSharesBesideFewBlocks[] = {0, 30, 50, 60, 70, 80};

std::vector<int> shares_of(const std::string& paths, const std::string& wanted, bool few_blocks) {
  if (paths != "nvlink,host") {
    require(paths == "nvlink" || paths == "host", "--paths takes: nvlink, host, nvlink,host");
    require(wanted.empty(), "--share needs --paths nvlink,host");
    return {paths == "nvlink" ? 0 : 100};
  }
  if (wanted.empty()) {
    return few_blocks
               ? std::vector(std::begin(kSharesBesideFewBlocks), std::end(kSharesBesideFewBlocks))
               : std::vector(std::begin(kShares), std::end(kShares));
  }
  std::vector<int> shares{0};  // what the others are measured against
  std::istringstream list(wanted);
  for (std::string share; std::getline(list, share, ',');) {
    shares.push_back(std::stoi(share));
    require(shares.back() > 0 && shares.back() <= 100, "--share is 1 to 100, in percent");
  }
  return shares;
}

}  // namespace

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
  Options options;
  std::string paths = "nvlink,host";
  std::string share;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--ranks") {
      options.ranks = std::stoi(value);
    } else if (flag == "--nccl") {
      options.nccl = value;
    } else if (flag == "--mode") {
      options.mode = value;
    } else if (flag == "--collective") {
      options.collective = value;
    } else if (flag == "--algorithm") {
      options.algorithm = value;
    } else if (flag == "--against") {
      require(value == "engines" || value == "shares", "--against takes: engines, shares");
      options.against = value;
    } else if (flag == "--pair") {
      const std::size_t colon = value.find(':');
      require(colon != std::string::npos, "--pair takes two ranks, like 0:1");
      options.pair_from = std::stoi(value.substr(0, colon));
      options.pair_to = std::stoi(value.substr(colon + 1));
    } else if (flag == "--bidirectional") {
      require(value == "yes" || value == "no", "--bidirectional takes: yes, no");
      options.bidirectional = value == "yes";
    } else if (flag == "--window") {
      options.window = std::stoi(value);
    } else if (flag == "--paths") {
      paths = value;
    } else if (flag == "--share") {
      share = value;
    } else if (flag == "--sm-budget") {
      options.sm_budget = std::stoi(value);
    } else if (flag == "--min-bytes") {
      options.min_bytes = std::stoull(value);
    } else if (flag == "--max-bytes") {
      options.max_bytes = std::stoull(value);
    } else if (flag == "--samples") {
      options.samples = std::stoi(value);
    } else {
      require(false, "unknown option " + flag);
    }
  }
  require(options.ranks >= 2 && options.ranks <= kMaxRanks, "--ranks is 2 to 16");
  require(options.pair_from < options.ranks && options.pair_to < options.ranks &&
              (options.pair_from < 0 || options.pair_from != options.pair_to),
          "--pair takes two different ranks");
  require(options.window >= 1 && options.window <= kMaxWindow, "--window is 1 to 64");
  require(options.sm_budget >= 0 && options.sm_budget <= 128, "--sm-budget is 1 to 128 blocks");
  options.shares = shares_of(paths, share, options.sm_budget > 0);
  return options;
}

}  // namespace sennit_bench
