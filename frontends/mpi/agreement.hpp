// What the ranks of a communicator exchange before they make one of the library's: by it all
// of them come to the same answer, whether they can.
#pragma once

#include "sennit/sennit.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace sennit_mpi {

// Travels between ranks as bytes.
struct Facts {
  std::array<char, 64> version{};    // of the library
  std::array<char, 192> settings{};  // that have to be equal
  std::array<char, 40> boot{};       // of the kernel: which machine
  std::uint64_t network = 0;         // namespace, in which the ranks meet
  std::uint64_t user = 0;
  std::uint64_t can_open = 0;   // 1: there are enough file descriptors
  std::uint64_t has_room = 1;   // 0: no more persistent requests
  std::uint64_t is_of_job = 0;  // 1: all ranks of the communicator started with this one
  sennit_unique_id_t id{};      // of rank 0
};

// Of this process, for a communicator of so many ranks.
Facts facts_of_process(int ranks, const std::string& settings);

// Why these ranks cannot have a communicator of the library; empty: they can. `takes_nodes`: ranks
// on several nodes are no obstacle.
std::string obstacle(std::span<const Facts> facts, bool takes_nodes);

}  // namespace sennit_mpi
