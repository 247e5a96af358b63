// What the kernel knows of the other ends of TCP connections. UCX waits for them without end.
#pragma once

#include <string>
#include <vector>

namespace sennit::ucx {

// Where others reach a network interface: the address that UCX takes. Empty: it has none.
std::string host_of(const std::string& interface);

// Hosts at the other ends of this process's connections from `host`, such as UCX's, that have not
// acknowledged for 1.5 s what was sent to them, although it was sent again and again. One that runs
// no process that reads is not silent: its kernel acknowledges.
std::vector<std::string> silent_hosts(const std::string& host);

}  // namespace sennit::ucx
