// The functions of tools.h for codecs.
#include "capi/guard.hpp"
#include "capi/handles.hpp"
#include "capi/respond.hpp"
#include "codec/codec.hpp"
#include "codec/codec_rules.hpp"
#include "sennit/tools.h"

#include <cstdint>
#include <span>
#include <utility>

namespace sennit {
namespace {

Json describe_types(Codec codec) {
  Json types = Json::array();
  for (const Dtype dtype : kDtypes) {
    if (takes(codec, dtype)) {
      const CodedBlocks block = blocks_of(codec, dtype);
      types.push_back({{"dtype", name(dtype)},
                       {"parts", kind_of(dtype) == Kind::kComplex ? 2 : 1},
                       {"streams", block.streams},
                       {"block_values", block.values},
                       {"block_bytes", block.bytes},
                       {"bound", block.error}});
    }
  }
  return types;
}

Result<Json> list_codecs(const JsonObject&) {
  Json rows = Json::array();
  for (const Codec codec : kCodecs) {
    rows.push_back({{"name", name(codec)},
                    {"summary", summary(codec)},
                    {"lossless", is_lossless(codec)},
                    {"dtypes", describe_types(codec)}});
  }
  return Json{{"codecs", std::move(rows)}};
}

Status check_not_null(const void* pointer, const char* what, std::size_t bytes) {
  if (pointer == nullptr && bytes > 0) {
    return fail(Code::kInvalidArgument, "{} is NULL, expected {} bytes", what, bytes);
  }
  return {};
}

Result<Codec> codec_named(const char* codec) {
  if (codec == nullptr) {
    return fail(Code::kInvalidArgument, "codec is NULL, expected a name such as \"zfp:8\"");
  }
  return parse_codec(codec);
}

Status encode_to(const char* codec_name,
                 sennit_dtype_t dtype_value,
                 const void* values,
                 std::size_t count,
                 std::span<unsigned char> coded,
                 std::size_t* coded_bytes) {
  if (coded_bytes == nullptr) {
    return fail(Code::kInvalidArgument, "coded_bytes is NULL, expected where to put a number");
  }
  SENNIT_ASSIGN_OR_RETURN(const Codec codec, codec_named(codec_name));
  SENNIT_ASSIGN_OR_RETURN(const Dtype dtype, dtype_from_value(dtype_value));
  SENNIT_ASSIGN_OR_RETURN(const std::size_t most, most_coded_bytes(codec, dtype, count));
  if (coded.data() == nullptr) {
    *coded_bytes = most;
    return {};
  }
  SENNIT_RETURN_IF_ERROR(check_not_null(values, "values", count * size_bytes(dtype)));
  if (coded.size() < most) {
    return fail(Code::kInvalidArgument,
                "coded has room for {} bytes, but {} {} may take {} in {}",
                coded.size(),
                count,
                name(dtype),
                most,
                name(codec));
  }
  *coded_bytes = encode(codec, dtype, values, count, coded.data());
  return {};
}

Status decode_from(const char* codec_name,
                   sennit_dtype_t dtype_value,
                   std::span<const unsigned char> coded,
                   void* values,
                   std::size_t count) {
  SENNIT_ASSIGN_OR_RETURN(const Codec codec, codec_named(codec_name));
  SENNIT_ASSIGN_OR_RETURN(const Dtype dtype, dtype_from_value(dtype_value));
  SENNIT_RETURN_IF_ERROR(most_coded_bytes(codec, dtype, count).status());
  SENNIT_RETURN_IF_ERROR(check_not_null(coded.data(), "coded", coded.size()));
  SENNIT_RETURN_IF_ERROR(check_not_null(values, "values", count * size_bytes(dtype)));
  return decode(codec, dtype, coded, values, count);
}

Status find_by_rule(sennit_comm_t comm,
                    const char* collective,
                    std::size_t bytes,
                    sennit_dtype_t dtype_value,
                    const char** codec) {
  SENNIT_RETURN_IF_ERROR(check_comm(comm));
  if (collective == nullptr || codec == nullptr) {
    return fail(Code::kInvalidArgument, "collective or codec is NULL, expected a name and a place");
  }
  SENNIT_ASSIGN_OR_RETURN(const Collective named, parse_collective(collective));
  SENNIT_ASSIGN_OR_RETURN(const Dtype dtype, dtype_from_value(dtype_value));
  const CommConfig& config = comm->comm->config();
  SENNIT_ASSIGN_OR_RETURN(const CodecRules rules, CodecRules::parse(config.codec));
  const auto found = rules.find(config.name, named, static_cast<std::int64_t>(bytes));
  // A literal, which ends in a zero.
  *codec = found && takes(*found, dtype) ? name(*found).data() : nullptr;
  return {};
}

}  // namespace
}  // namespace sennit

sennit_status_t sennit_tool_codecs(const char* request, char** answer) {
  return sennit::respond_to(request, answer, {}, sennit::list_codecs);
}

sennit_status_t sennit_tool_encode(const char* codec,
                                   sennit_dtype_t dtype,
                                   const void* values,
                                   size_t count,
                                   void* coded,
                                   size_t room,
                                   size_t* coded_bytes) {
  return sennit::guard([&] {
    const std::span there(static_cast<unsigned char*>(coded), room);
    return sennit::encode_to(codec, dtype, values, count, there, coded_bytes);
  });
}

sennit_status_t sennit_tool_decode(const char* codec,
                                   sennit_dtype_t dtype,
                                   const void* coded,
                                   size_t coded_bytes,
                                   void* values,
                                   size_t count) {
  return sennit::guard([&] {
    const std::span given(static_cast<const unsigned char*>(coded), coded_bytes);
    return sennit::decode_from(codec, dtype, given, values, count);
  });
}

sennit_status_t sennit_tool_codec_by_rule(sennit_comm_t comm,
                                          const char* collective,
                                          size_t bytes,
                                          sennit_dtype_t dtype,
                                          const char** codec) {
  return sennit::guard([&] { return sennit::find_by_rule(comm, collective, bytes, dtype, codec); });
}
