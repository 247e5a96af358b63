// The messages of the rendezvous as bytes. Nothing here touches a socket.
//
// A frame is a header of fixed form, then a payload. The header is the same in all protocol
// versions; so is the payload of kFailure, so that two versions can report to each other why they
// do not match:
//
//   0   magic          u32     "SnRv"
//   4   protocol       u16
//   6   type           u16
//   8   payload bytes  u32
//   12  digest         16 B    of SHA-256(SHA-256(key), the 12 bytes above, payload)
//
// The digest separates frames of this job from garbage, damage and other jobs; against a hostile
// process of the same user it protects nothing, and need not. Numbers are in host order: one
// machine. Decoders take bytes that anybody may have written; they return nothing rather than a
// wrong value.
#pragma once

#include "base/status.hpp"
#include "world/rendezvous/process.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sennit {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr int kMaxRanks = 4096;
inline constexpr int kMaxFdsPerFrame = 253;  // SCM_MAX_FD of the kernel
inline constexpr std::size_t kFrameHeaderBytes = 28;
inline constexpr std::size_t kMaxGuestPayload = 4096;      // what rank 0 reads from others
inline constexpr std::size_t kMaxHostPayload = 32 * 1024;  // what others read from rank 0
inline constexpr std::size_t kMaxSettingsBytes = 3072;
inline constexpr std::size_t kMaxHostNameBytes = 64;

enum class FrameType : std::uint16_t {
  kHello = 1,     // to rank 0: who I am and my settings; with my pidfd
  kAccepted = 2,  // from rank 0: you are counted
  kMembers = 3,   // from rank 0: some of the members, with the pidfds of those in other processes
  kSegment = 4,   // from rank 0: the shared segment, with its descriptor
  kReady = 5,     // to rank 0: I have everything
  kGo = 6,        // from rank 0: everybody has everything
  kFailure = 7,   // either way: the join has failed, and why
};

using KeyDigest = std::array<std::uint8_t, 32>;
KeyDigest digest_key(std::string_view key);

struct Frame {
  FrameType type = FrameType::kHello;
  std::uint16_t protocol = kProtocolVersion;
  std::string payload;
};

std::string encode_frame(const KeyDigest& key, const Frame& frame);
// Nothing unless magic, length and digest are right. The protocol is for the caller to judge.
std::optional<Frame> decode_frame(const KeyDigest& key, std::string_view bytes);

struct Hello {
  int rank = 0;
  int size = 0;
  int library_version = 0;
  std::uint64_t segment_bytes = 0;
  Token process{};
  std::string host;
  std::string settings;
};

struct MemberRecord {
  Token process{};
  std::string host;
};

struct MemberBatch {
  int first_rank = 0;
  std::vector<MemberRecord> members;
};

struct SegmentNotice {
  Token id{};
  std::uint64_t bytes = 0;
};

std::string encode_hello(const Hello& hello);
std::optional<Hello> decode_hello(std::string_view payload);

std::string encode_members(const MemberBatch& batch);
std::optional<MemberBatch> decode_members(std::string_view payload);

std::string encode_segment(const SegmentNotice& notice);
std::optional<SegmentNotice> decode_segment(std::string_view payload);

// Code, message, blamed ranks, evidence and what to do next; long texts are cut.
std::string encode_failure(const Status& failure);
std::optional<Status> decode_failure(std::string_view payload);

}  // namespace sennit
