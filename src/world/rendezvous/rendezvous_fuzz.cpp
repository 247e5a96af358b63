// A rank that joins, against whatever the other ends of its connections do. The input is a script
// of lines, each an action on one of four connections:
//
//   g                    (first line) the rank is rank 1 of 2, and the script is its rank 0;
//                        otherwise it is rank 0 of 3, and the script is everybody else
//   h C RANK SIZE        a hello with a pidfd
//   m C                  the members, of a set of two, with a pidfd
//   s C                  a shared segment
//   f C TYPE PAYLOAD     a frame of this type, with a pidfd where C is written as C+
//   r C BYTES            no frame at all
//   w C                  nothing, until a message has come, which is dropped
//   x C                  the connection closes
//
// The join must end in time, hold no descriptor afterwards, and succeed only whole.
#include "sennit/sennit.h"
#include "world/rendezvous/frame.hpp"
#include "world/rendezvous/rendezvous.hpp"
#include "world/rendezvous/shared_segment.hpp"
#include "world/rendezvous/unix_socket.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <thread>

namespace sennit {
namespace {

constexpr unsigned kLongestSeconds = 5;
constexpr std::size_t kSegmentBytes = 4096;
constexpr std::size_t kMostLines = 40;
constexpr int kPatienceMs = 25;  // longer than a rank pauses between two tries to connect
constexpr auto kTimeToRead = std::chrono::milliseconds(1);

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

class Script {
 public:
  Script(std::string key, std::string_view text, const std::atomic<bool>& rank_has_ended)
      : key_(std::move(key)),
        digest_(digest_key(key_)),
        lines_(std::string(text)),
        rank_has_ended_(rank_has_ended) {}

  // As everybody but rank 0.
  void disturb_host() {
    run([&](UniqueFd& socket) {
      const Result<SocketAddress> address = rendezvous_address(key_, "");
      // Who has found it once and then finds nobody is too late.
      do {
        socket = try_connect(*address).value();
        found_ = found_ || socket.valid();
      } while (!found_ && !rank_has_ended_);
    });
  }

  // As rank 0, whose listener is open.
  void disturb_guest(const Listener& listener) {
    run([&](UniqueFd& socket) {
      pollfd watched{.fd = listener.get(), .events = POLLIN, .revents = 0};
      ::poll(&watched, 1, kPatienceMs);
      socket = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      pollfd hello{.fd = socket.get(), .events = POLLIN, .revents = 0};
      ::poll(&hello, 1, kPatienceMs);
    });
  }

 private:
  template <typename Connect>
  void run(const Connect& connect) {
    std::string line;
    for (std::size_t count = 0;
         count < kMostLines && !rank_has_ended_ && std::getline(lines_, line);
         ++count) {
      std::istringstream words(line);
      std::string action;
      std::string connection;
      words >> action >> connection;
      const auto number = static_cast<unsigned char>(connection.empty() ? '0' : connection[0]);
      UniqueFd& socket = sockets_[number % sockets_.size()];
      if (!socket.valid()) {
        connect(socket);
      }
      act(socket, action, connection.ends_with('+'), words);
    }
  }

  void act(UniqueFd& socket, const std::string& action, bool with_pidfd, std::istream& words) {
    if (action == "x") {
      socket.reset();
    } else if (action == "w") {
      pollfd message{.fd = socket.get(), .events = POLLIN, .revents = 0};
      ::poll(&message, 1, kPatienceMs);
      static_cast<void>(
          receive_message(socket.get(), kFrameHeaderBytes + kMaxHostPayload, kMaxFdsPerFrame));
    } else if (action == "h") {
      Hello hello = our_hello();
      words >> hello.rank >> hello.size;
      send(socket, FrameType::kHello, encode_hello(hello), /*with_pidfd=*/true);
    } else if (action == "m") {
      const MemberBatch both{0, {{random_token(), "elsewhere"}, {process_token(), "here"}}};
      send(socket, FrameType::kMembers, encode_members(both), /*with_pidfd=*/true);
    } else if (action == "s") {
      const Result<UniqueFd> file = create_segment_file(kSegmentBytes);
      const int fd = file->get();
      send_bytes(socket,
                 frame(FrameType::kSegment, encode_segment({random_token(), kSegmentBytes})),
                 std::span(&fd, 1));
    } else if (action == "f") {
      unsigned type = 0;
      words >> type;
      send(socket, static_cast<FrameType>(type), rest_of(words), with_pidfd);
    } else if (action == "r") {
      send_bytes(socket, rest_of(words), {});
    }
  }

  static std::string rest_of(std::istream& words) {
    std::string rest;
    words.get();  // the space
    std::getline(words, rest);
    return rest;
  }

  static Hello our_hello() {
    Hello hello;
    hello.library_version =
        SENNIT_VERSION_MAJOR * 10000 + SENNIT_VERSION_MINOR * 100 + SENNIT_VERSION_PATCH;
    hello.segment_bytes = kSegmentBytes;
    hello.process = random_token();
    return hello;
  }

  [[nodiscard]] std::string frame(FrameType type, std::string payload) const {
    return encode_frame(digest_, {type, kProtocolVersion, std::move(payload)});
  }

  void send(const UniqueFd& socket, FrameType type, std::string payload, bool with_pidfd) const {
    const Result<UniqueFd> pidfd = open_own_pidfd();
    const int fd = pidfd->get();
    send_bytes(socket,
               frame(type, std::move(payload)),
               with_pidfd ? std::span(&fd, 1) : std::span<const int>());
  }

  static void send_bytes(const UniqueFd& socket, std::string_view bytes, std::span<const int> fds) {
    if (socket.valid()) {
      static_cast<void>(send_message(socket.get(), bytes, fds));
    }
  }

  std::string key_;
  KeyDigest digest_;
  std::istringstream lines_;
  const std::atomic<bool>& rank_has_ended_;
  bool found_ = false;
  std::array<UniqueFd, 4> sockets_;
};

void join_against(std::string_view script) {
  const std::string key = fmt::format("fuzz {}", ::getpid());
  const bool is_guest = script.starts_with("g\n");
  std::atomic<bool> script_has_ended{false};
  std::atomic<bool> rank_has_ended{false};
  const JoinOptions options{.timeout_s = kLongestSeconds,
                            .settings = {},
                            .segment_bytes = kSegmentBytes,
                            .interruption = {.reason =
                                                 [&] {
                                                   return script_has_ended
                                                              ? fail(Code::kRankFailed,
                                                                     "the script has ended")
                                                              : Status();
                                                 },
                                             .is_found_by_all = true}};
  const Identity identity{.rank = is_guest ? 1 : 0, .size = is_guest ? 2 : 3, .key = key};
  Listener listener;
  if (is_guest) {
    listener = std::move(try_listen(rendezvous_address(key, "").value()).value().listener);
  }
  Result<Membership> joined = Status(Code::kInternalError, "not run");
  std::thread rank([&] {
    joined = join(identity, options);
    rank_has_ended = true;
  });
  {
    Script others(key, script, rank_has_ended);
    is_guest ? others.disturb_guest(listener) : others.disturb_host();
    std::this_thread::sleep_for(kTimeToRead);
    script_has_ended = true;  // before the connections close, which wakes the rank
  }
  listener.reset();
  rank.join();
  if (joined.ok()) {
    SENNIT_CHECK(joined->members.size() == static_cast<std::size_t>(identity.size) &&
                     joined->segment != nullptr && joined->segment->size() == kSegmentBytes,
                 "joined, but not whole");
  } else {
    SENNIT_CHECK(joined.status().message().starts_with("join, rank "), "a failure without context");
    SENNIT_CHECK(joined.status().detail().elapsed_s < kLongestSeconds, "it has waited for nothing");
  }
}

}  // namespace
}  // namespace sennit

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ::alarm(2 * sennit::kLongestSeconds);  // ends a join that hangs
  const std::ptrdiff_t before = sennit::open_descriptors();
  sennit::join_against({reinterpret_cast<const char*>(data), size});
  SENNIT_CHECK(sennit::open_descriptors() == before, "descriptors are left open");
  ::alarm(0);
  return 0;
}
