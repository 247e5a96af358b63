#include "compare_options.hpp"

#include <cstdlib>
#include <iostream>

namespace sennit_bench {
namespace {

void require(bool good, const std::string& what) {
  if (!good) {
    std::cerr << "compare: " << what << '\n';
    std::exit(3);
  }
}

}  // namespace

Exchange exchange_of(const Options& options, int rank) {
  Exchange exchange{.to = {}, .from = {}, .window = options.window};
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
      require(value == "engines", "--against takes: engines");
      options.engines = true;
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
  require(options.window >= 1 && options.window <= 32, "--window is 1 to 32");
  return options;
}

}  // namespace sennit_bench
