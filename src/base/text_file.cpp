#include "base/text_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace sennit {

Result<std::string> read_text_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  stream.peek();  // fails where the file is a folder; iterators would throw
  if (!stream.is_open() || stream.bad()) {
    return fail(Code::kInvalidArgument, "{}", std::strerror(errno));
  }
  return std::string{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace sennit
