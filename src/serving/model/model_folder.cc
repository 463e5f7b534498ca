#include "serving/model/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/text.h"
#include "serving/config/small_file.h"

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
  Result<std::string> text = ReadSmallFile(fs::path(folder) / inside, most);
  if (!text) return refuse(text.error().message);
  return text;
}

Status CheckNoPipe(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_regular_file(status)) return {};
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is not a regular file", path));
}

}  // namespace lagoon
