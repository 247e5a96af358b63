// sennit-rank FILE: one rank of a benchmark.
#include "rank_program.h"

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "sennit-rank takes one argument, the file of its job\n");
    return 2;
  }
  return sennit_rank_main(argv[1]);
}
