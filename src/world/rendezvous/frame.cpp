#include "world/rendezvous/frame.hpp"

#include "base/sha256.hpp"
#include "world/rendezvous/wire.hpp"

#include <algorithm>

namespace sennit {
namespace {

constexpr std::uint32_t kMagic = 0x76526e53;  // "SnRv"
constexpr std::size_t kDigestOffset = 12;
constexpr std::size_t kDigestBytes = 16;
constexpr std::size_t kMaxFailureText = 1200;  // three of them fit into the payload of a guest

std::string frame_digest(const KeyDigest& key, std::string_view head, std::string_view payload) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(key)));
  hash.update(head);
  hash.update(payload);
  const auto digest = hash.finish();
  return {reinterpret_cast<const char*>(digest.data()), kDigestBytes};
}

}  // namespace

KeyDigest digest_key(std::string_view key) {
  Sha256 hash;
  hash.update(key);
  return hash.finish();
}

std::string encode_frame(const KeyDigest& key, const Frame& frame) {
  WireWriter head;
  head.number(kMagic);
  head.number(frame.protocol);
  head.number(static_cast<std::uint16_t>(frame.type));
  head.number(static_cast<std::uint32_t>(frame.payload.size()));
  std::string bytes = head.take();
  bytes += frame_digest(key, bytes, frame.payload);
  return bytes + frame.payload;
}

std::optional<Frame> decode_frame(const KeyDigest& key, std::string_view bytes) {
  if (bytes.size() < kFrameHeaderBytes) {
    return std::nullopt;
  }
  const std::string_view payload = bytes.substr(kFrameHeaderBytes);
  WireReader head(bytes.substr(0, kDigestOffset));
  const auto magic = head.number<std::uint32_t>();
  const auto protocol = head.number<std::uint16_t>();
  const auto type = head.number<std::uint16_t>();
  const auto payload_bytes = head.number<std::uint32_t>();
  if (magic != kMagic || payload_bytes != payload.size() ||
      type < static_cast<std::uint16_t>(FrameType::kHello) ||
      type > static_cast<std::uint16_t>(FrameType::kFailure)) {
    return std::nullopt;
  }
  if (bytes.substr(kDigestOffset, kDigestBytes) !=
      frame_digest(key, bytes.substr(0, kDigestOffset), payload)) {
    return std::nullopt;
  }
  return Frame{static_cast<FrameType>(type), protocol, std::string(payload)};
}

std::string encode_hello(const Hello& hello) {
  WireWriter out;
  out.number<std::int32_t>(hello.rank);
  out.number<std::int32_t>(hello.size);
  out.number<std::int32_t>(hello.library_version);
  out.number(hello.segment_bytes);
  out.token(hello.process);
  out.text(hello.host);
  out.text(hello.settings);
  return out.take();
}

std::optional<Hello> decode_hello(std::string_view payload) {
  WireReader in(payload);
  Hello hello;
  hello.rank = in.number<std::int32_t>();
  hello.size = in.number<std::int32_t>();
  hello.library_version = in.number<std::int32_t>();
  hello.segment_bytes = in.number<std::uint64_t>();
  hello.process = in.token();
  hello.host = in.text(kMaxHostNameBytes);
  hello.settings = in.text(kMaxSettingsBytes);
  if (!in.complete() || hello.size < 1 || hello.size > kMaxRanks || hello.rank < 0 ||
      hello.rank >= hello.size) {
    return std::nullopt;
  }
  return hello;
}

std::string encode_members(const MemberBatch& batch) {
  WireWriter out;
  out.number<std::int32_t>(batch.first_rank);
  out.number(static_cast<std::uint16_t>(batch.members.size()));
  for (const MemberRecord& member : batch.members) {
    out.token(member.process);
    out.text(member.host);
  }
  return out.take();
}

std::optional<MemberBatch> decode_members(std::string_view payload) {
  WireReader in(payload);
  MemberBatch batch;
  batch.first_rank = in.number<std::int32_t>();
  const int count = in.number<std::uint16_t>();
  if (batch.first_rank < 0 || batch.first_rank >= kMaxRanks || count > kMaxFdsPerFrame) {
    return std::nullopt;
  }
  for (int index = 0; index < count && in.good(); ++index) {
    MemberRecord member;
    member.process = in.token();
    member.host = in.text(kMaxHostNameBytes);
    batch.members.push_back(std::move(member));
  }
  return in.complete() ? std::optional(std::move(batch)) : std::nullopt;
}

std::string encode_segment(const SegmentNotice& notice) {
  WireWriter out;
  out.token(notice.id);
  out.number(notice.bytes);
  return out.take();
}

std::optional<SegmentNotice> decode_segment(std::string_view payload) {
  WireReader in(payload);
  SegmentNotice notice;
  notice.id = in.token();
  notice.bytes = in.number<std::uint64_t>();
  return in.complete() ? std::optional(notice) : std::nullopt;
}

std::string encode_failure(const Status& failure) {
  const ErrorDetail& detail = failure.detail();
  WireWriter out;
  out.number(static_cast<std::int32_t>(failure.code()));
  out.text(std::string_view(failure.message()).substr(0, kMaxFailureText));
  out.text(std::string_view(detail.evidence).substr(0, kMaxFailureText));
  out.text(std::string_view(detail.next).substr(0, kMaxFailureText));
  out.number(static_cast<std::uint16_t>(detail.blamed_ranks.size()));
  for (const int rank : detail.blamed_ranks) {
    out.number<std::int32_t>(rank);
  }
  return out.take();
}

std::optional<Status> decode_failure(std::string_view payload) {
  WireReader in(payload);
  const auto code = in.number<std::int32_t>();
  std::string message = in.text(kMaxFailureText);
  ErrorDetail detail;
  detail.evidence = in.text(kMaxFailureText);
  detail.next = in.text(kMaxFailureText);
  const int blamed_count = in.number<std::uint16_t>();
  for (int index = 0; index < blamed_count && in.good(); ++index) {
    detail.blamed_ranks.push_back(in.number<std::int32_t>());
  }
  const bool ranks_exist = std::all_of(detail.blamed_ranks.begin(),
                                       detail.blamed_ranks.end(),
                                       [](int rank) { return rank >= 0 && rank < kMaxRanks; });
  if (!in.complete() || !ranks_exist || code <= static_cast<int>(Code::kOk) ||
      code > static_cast<int>(Code::kInternalError)) {
    return std::nullopt;
  }
  return Status(static_cast<Code>(code), std::move(message), std::move(detail));
}

}  // namespace sennit
