#include "base/text_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace sennit {

Result<std::string> read_text_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream.is_open() || stream.bad()) {
    return fail(Code::kInvalidArgument, "{}", std::strerror(errno));
  }
  return text;
}

}  // namespace sennit
