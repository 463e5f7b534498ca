#include "serving/model/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>

#include "base/text.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;

/// Whether `file` stays in the folder that it is relative to.
bool StaysInside(const fs::path& file) {
  return file.is_relative() && std::ranges::find(file, fs::path("..")) == file.end();
}

Result<std::shared_ptr<const Labels>> ReadFile(const fs::path& path) {
  const auto refuse = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' {}", path.string(), why));
  };
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return refuse("cannot be opened: " + std::generic_category().message(errno));
  std::string text(kMaxLabelFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return refuse("cannot be read");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kMaxLabelFileBytes) {
    return refuse(fmt::format("has more than {} bytes", kMaxLabelFileBytes));
  }
  return std::make_shared<const Labels>(ParseLabels(text));
}

}  // namespace

Labels ParseLabels(const std::string& text) {
  Labels labels;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    labels.push_back(std::move(line));
  }
  return labels;
}

Status ReadLabels(const std::string& folder, const inference::ModelConfig& config,
                  Signature& signature) {
  signature.labels.resize(signature.outputs.size());
  for (const auto& output : config.output()) {
    if (output.label_filename().empty()) continue;
    const std::string context = fmt::format("output {}: label_filename", Quoted(output.name()));
    if (!StaysInside(output.label_filename())) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is {}; the file must be in the model's folder", context,
                              Quoted(output.label_filename())));
    }
    auto labels = ReadFile(fs::path(folder) / output.label_filename());
    if (!labels) return Annotate(context, std::move(labels).error());
    const auto at = std::ranges::find(signature.outputs, output.name(), &TensorSpec::name);
    signature.labels[static_cast<std::size_t>(at - signature.outputs.begin())] = *std::move(labels);
  }
  return {};
}

}  // namespace lagoon
