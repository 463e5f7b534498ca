#include "serving/config/small_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace lagoon {
namespace {

tl::unexpected<Error> Refused(std::string why) {
  return Fail(ErrorCode::kInvalidArgument, std::move(why));
}

std::string TextOf(int error) { return std::generic_category().message(error); }

Result<std::string> ReadOpened(int file, std::size_t most) {
  struct stat info = {};
  if (::fstat(file, &info) != 0) return Refused("cannot be opened: " + TextOf(errno));
  if (!S_ISREG(info.st_mode)) return Refused("is not a regular file");
  // Read in pieces, as the file may be far smaller than `most`, and may change meanwhile.
  std::string text;
  std::string piece(std::min<std::size_t>(most + 1, std::size_t{1} << 16), '\0');
  while (text.size() <= most) {
    const ssize_t got = ::read(file, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Refused("cannot be read: " + TextOf(errno));
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return Refused(fmt::format("has more than {} bytes", most));
}

}  // namespace

Result<std::string> ReadSmallFile(const std::string& path, std::size_t most) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    const bool missing = errno == ENOENT;
    return Fail(missing ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
                "cannot be opened: " + TextOf(errno));
  }
  Result<std::string> text = ReadOpened(file, most);
  ::close(file);
  return text;
}

}  // namespace lagoon
