#include "serving/config/config_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include "base/text.h"
#include "serving/config/config_rules.h"
#include "serving/config/small_file.h"

namespace lagoon {
namespace {

using google::protobuf::TextFormat;

constexpr std::size_t kMaxErrors = 5;

/// Keeps the first errors of a parse, with their line and column.
class ErrorList final : public google::protobuf::io::ErrorCollector {
 public:
  explicit ErrorList(const std::string& path) : path_(path) {}

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (count_++ >= kMaxErrors) return;
    if (!text_.empty()) text_ += "; ";
    // The parser counts from 0, and gives -1 when there is no line.
    text_ += line < 0 ? fmt::format("{}: {}", path_, message)
                      : fmt::format("{}:{}:{}: {}", path_, line + 1, column + 1, message);
  }

  const std::string& text() const { return text_; }

 private:
  const std::string& path_;
  std::string text_;
  std::size_t count_ = 0;
};

/// Text may hold escapes of any byte, but a proto3 string that is not UTF-8 cannot be sent to a
/// client.
bool IsUtf8(const inference::ModelConfig& config) {
  google::protobuf::LogSilencer quiet;
  inference::ModelConfig copy;
  return copy.ParseFromString(config.SerializeAsString());
}

/// What both forms of a config have in common: `file.config` is as it was written.
Result<ConfigFile> CheckConfig(ConfigFile file, const TextFormat::ParseInfoTree& locations,
                               const std::string& model, const std::string& path) {
  if (!IsUtf8(file.config)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: a string is not UTF-8", path));
  }
  if (!file.config.name().empty() && file.config.name() != model) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: name is '{}', but the model's folder is '{}'", path,
                            file.config.name(), model));
  }
  file.config.set_name(model);

  LAGOON_ASSIGN_OR_RETURN(file.warnings, ApplyFieldRules(file.config, locations, path));
  std::vector<std::string> notes;
  Result<ModelSettings> settings = ReadSettings(file.config, notes);
  if (!settings) return Annotate(path, std::move(settings).error());
  file.settings = *std::move(settings);
  for (const std::string& note : notes) file.warnings.push_back(fmt::format("{}: {}", path, note));
  return file;
}

}  // namespace

Result<ConfigFile> ParseConfig(const std::string& text, const std::string& model,
                               const std::string& path) {
  ConfigFile file;
  ErrorList errors(path);
  TextFormat::ParseInfoTree locations;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&locations);
  if (!parser.ParseFromString(text, &file.config)) {
    return Fail(ErrorCode::kInvalidArgument, errors.text());
  }
  return CheckConfig(std::move(file), locations, model, path);
}

Result<ConfigFile> ParseJsonConfig(const std::string& json, const std::string& model) {
  const std::string what = "the config";
  if (json.size() > kMaxConfigBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: larger than {} bytes", what, kMaxConfigBytes));
  }
  google::protobuf::LogSilencer quiet;
  ConfigFile file;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &file.config);
  if (!parsed.ok()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {}", what, Shown(std::string(parsed.message()))));
  }
  return CheckConfig(std::move(file), TextFormat::ParseInfoTree(), model, what);
}

Result<ConfigFile> ReadConfig(const std::string& model, const std::string& path) {
  const Result<std::string> text = ReadSmallFile(path, kMaxConfigBytes);
  if (text) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors write it
    const std::size_t mark = text->starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    return ParseConfig(text->substr(mark), model, path);
  }
  if (text.error().code == ErrorCode::kNotFound) return ParseConfig("", model, path);
  return Fail(text.error().code, fmt::format("{}: {}", path, text.error().message));
}

}  // namespace lagoon
