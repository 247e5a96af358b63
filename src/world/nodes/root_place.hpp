// RootPlace: where the ranks of a job on several nodes meet.
#pragma once

#include "base/status.hpp"
#include "world/nodes/secure_stream.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

struct RootPlace {
  std::vector<std::string> hosts;    // names or addresses of rank 0's node; any of them will do
  std::vector<std::uint16_t> ports;  // rank 0 takes the first that is free, the others try all
};

struct PortRange {
  std::uint16_t first = 20000;
  std::uint16_t last = 31999;  // below the ports that Linux gives to outgoing connections
};

// "20000-31999".
Result<PortRange> parse_port_range(std::string_view text);

// The same eight ports (or all of a smaller range) on all ranks of a job, most likely other ones
// for another job.
std::vector<std::uint16_t> ports_of(std::string_view key, PortRange range);

// "node7", "node7:4711", "10.0.0.7:4711", "[fd00::7]:4711", "fd00::7", or several of them with
// commas. With a port, that is the only one.
Result<RootPlace> parse_root(std::string_view text, std::string_view key, PortRange range);

// The root of ranks whose lowest is at `address` (in numbers), on the port of `text` if that names
// one.
Result<std::string> root_elsewhere(std::string_view text, const std::string& address);

// What proves that a process is of the job: made of the job's key, and of the content of the file
// `secret_file` where one is named, which must belong to this user and be readable by nobody else.
Result<StreamKey> stream_key(std::string_view key, const std::string& secret_file);

}  // namespace sennit
