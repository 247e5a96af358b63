#include "path/shm/ring_pool.hpp"

namespace sennit::shm {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// heads | tags | free words, in lines of their own because the other end writes them | slots
std::size_t tags_offset(const RingGeometry& g) { return g.slots * sizeof(SlotHead); }
std::size_t free_offset(const RingGeometry& g) {
  return tags_offset(g) + round_up(g.slots * sizeof(std::uint64_t), kLine);
}
std::size_t data_offset(const RingGeometry& g) {
  return free_offset(g) + round_up(g.slots * sizeof(channel::Word), kLine);
}
// Whole pages, so that a ring in use does not bring its neighbours into memory.
std::size_t ring_bytes(const RingGeometry& g) {
  return round_up(data_offset(g) + g.slots * round_up(g.slot_bytes, kLine), kPage);
}

}  // namespace

Ring::Ring(std::byte* base, const RingGeometry& geometry)
    : heads_(reinterpret_cast<SlotHead*>(base)),
      tags_(reinterpret_cast<std::uint64_t*>(base + tags_offset(geometry))),
      free_(reinterpret_cast<channel::Word*>(base + free_offset(geometry))),
      data_(base + data_offset(geometry)),
      slots_(geometry.slots),
      slot_bytes_(round_up(geometry.slot_bytes, kLine)) {}

Ring RingPool::ring(int writer, int reader, int port) const {
  const std::size_t index =
      (static_cast<std::size_t>(writer) * static_cast<std::size_t>(geometry_.ranks) +
       static_cast<std::size_t>(reader)) *
          static_cast<std::size_t>(geometry_.ports) +
      static_cast<std::size_t>(port);
  return {base_ + index * ring_bytes(geometry_), geometry_};
}

std::size_t RingPool::bytes(const RingGeometry& geometry) {
  const auto ranks = static_cast<std::size_t>(geometry.ranks);
  return ranks * ranks * static_cast<std::size_t>(geometry.ports) * ring_bytes(geometry);
}

}  // namespace sennit::shm
