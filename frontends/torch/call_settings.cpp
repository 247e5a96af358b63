#include "call_settings.hpp"

#include <string_view>
#include <utility>

namespace sennit::pytorch {
namespace {

thread_local SharedSettings of_this_thread;

std::string_view collective_of(std::string_view title) {
  const std::string_view name = title.substr(title.find(':') + 1);
  if (name == "send" || name == "recv") {
    return "send_recv";
  }
  constexpr std::string_view kAllReduce = "all_reduce";  // also coalesced, and with an RMS norm
  return name.substr(0, kAllReduce.size()) == kAllReduce ? kAllReduce : name;
}

const std::string& either(const std::string& first, const std::string& second) {
  return first.empty() ? second : first;
}

SharedSettings merged(const CallSettings& first, const CallSettings& second) {
  return std::make_shared<CallSettings>(
      CallSettings{either(first.algorithm, second.algorithm),
                   either(first.path, second.path),
                   either(first.protocol, second.protocol),
                   first.tile_bytes != 0 ? first.tile_bytes : second.tile_bytes,
                   first.is_reproducible || second.is_reproducible,
                   either(first.codec, second.codec)});
}

const char* text_of(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace

SharedSettings exchange_settings(SharedSettings settings) {
  return std::exchange(of_this_thread, std::move(settings));
}

SharedSettings settings_of(const char* title, const SettingsByCollective& of_group) {
  if (of_group.empty()) {
    return of_this_thread;
  }
  auto found = of_group.find(collective_of(title));
  if (found == of_group.end()) {
    found = of_group.find("");
  }
  if (found == of_group.end()) {
    return of_this_thread;
  }
  return of_this_thread ? merged(*of_this_thread, *found->second) : found->second;
}

void apply(const CallSettings& settings, sennit_call_options_t& options) {
  options.algorithm = text_of(settings.algorithm);
  options.path = text_of(settings.path);
  options.protocol = text_of(settings.protocol);
  options.tile_bytes = settings.tile_bytes;
  options.reproducible = settings.is_reproducible ? 1 : 0;
  options.codec = text_of(settings.codec);
}

}  // namespace sennit::pytorch
