#include "serving/model/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/text.h"

namespace lagoon {

namespace fs = std::filesystem;

Result<std::string> ReadModelFile(const std::string& folder, const std::string& file,
                                  std::size_t most) {
  const auto refuse = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} {}", Quoted(file), why));
  };
  const fs::path inside = file;
  if (!inside.is_relative() || std::ranges::find(inside, fs::path("..")) != inside.end()) {
    return refuse("is not a file in the model's folder");
  }
  errno = 0;
  std::ifstream stream(fs::path(folder) / inside, std::ios::binary);
  if (!stream) return refuse("cannot be opened: " + std::generic_category().message(errno));
  // Read in pieces, as the file may be far smaller than `most`.
  std::string text;
  std::string piece(std::min<std::size_t>(most + 1, std::size_t{1} << 16), '\0');
  while (stream && text.size() <= most) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) return refuse("cannot be read");
  if (text.size() > most) return refuse(fmt::format("has more than {} bytes", most));
  return text;
}

}  // namespace lagoon
