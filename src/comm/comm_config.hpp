// CommConfig: the settings of a communicator. All ranks must have the same; the handshake compares.
#pragma once

#include "base/die_at.hpp"
#include "base/status.hpp"
#include "path/host/rings.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sennit {

// What a thread that waits for a call of the communicator runs between polls.
struct IdleHook {
  int (*call)(void* argument) = nullptr;  // not 0: something moved; null: nothing is run
  void* argument = nullptr;
  double after_s = 0;  // of waiting
};

struct CommConfig {
  std::string name = "world";
  double join_timeout_s = 60.0;
  double deadline_s = 30.0;  // negative: none
  std::string paths = "shm,cma";
  std::string path_policy = "least_loaded";
  std::string codec;            // rules of codec/codec_rules.hpp
  std::string tuning_table;     // file that `sennit tune` wrote; empty: none
  std::int64_t slot_bytes = 0;  // 0: by the number of ranks
  int slots = 0;                // 0: by the number of ranks
  int ports = 4;
  static constexpr int kMostDeviceBlocks = 256;
  int device_blocks = 128;            // of a call on a GPU, at most
  int device_group = 0;               // ranks that path nvlink may join; 0: all
  std::string gpu_profile;            // file; empty: that of the GPU's model
  std::string machine;                // whose islands path nvlink may join; empty: unknown
  std::string copy_engines = "auto";  // of GPUs: auto, on, off
  int host_share = -1;                // percent through host memory; -1: what pays
  bool dynamic_share = false;         // of messages, which then begin with that
  std::optional<std::size_t> host_ring_bytes{};  // of a rank with a GPU; see host_rings()
  std::optional<std::size_t> host_slot_bytes{};
  std::string device = "host";    // or "cuda", the calling thread's device, or "cuda:1"
  std::optional<DieAt> die_at{};  // for tests
  int first_place = 0;            // on its node, of the lowest rank there: which card it has
  std::string gpu_bus_id;         // of a rank whose GPU has what host ranks carry between nodes
  bool reproducible = false;      // every call
  double first_warning_s = 5.0;   // of a call; each rank may have its own
  IdleHook idle;                  // each rank may have its own

  // The environment's values over the defaults.
  static Result<CommConfig> from_environment();
  // As set, or by the number of ranks, whose rings share the host's cache.
  [[nodiscard]] host::RingShape host_rings(int ranks) const;
  // What the handshake compares, as "name=value" lines; `table` and `profile` name the contents of
  // the tuning table and GPU profile, whose files may lie elsewhere for each rank.
  [[nodiscard]] std::string settings(std::string_view table, std::string_view profile) const;
};

}  // namespace sennit
