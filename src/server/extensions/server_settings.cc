#include "server/extensions/server_settings.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace lagoon {
namespace {

constexpr const char* kVerbose = "log_verbose_level";
constexpr std::uint64_t kMostVerbose = UINT32_MAX;  // Triton's type

constexpr std::pair<const char*, spdlog::level::level_enum> kSwitches[] = {
    {"log_info", spdlog::level::info},
    {"log_warning", spdlog::level::warn},
    {"log_error", spdlog::level::err}};

std::string ShownValue(const LogValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return Quoted(*text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::to_string(std::get<std::uint64_t>(value));
}

spdlog::level::level_enum LevelOf(const LogSettings& settings) {
  if (std::get<std::uint64_t>(settings.at(kVerbose)) > 0) return spdlog::level::debug;
  if (std::get<bool>(settings.at("log_info"))) return spdlog::level::info;
  if (std::get<bool>(settings.at("log_warning"))) return spdlog::level::warn;
  return std::get<bool>(settings.at("log_error")) ? spdlog::level::err : spdlog::level::off;
}

std::string Listed(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + Quoted(value);
  return Shown(text);
}

}  // namespace

LogSettings ReadLogSettings() {
  const spdlog::level::level_enum level = spdlog::get_level();
  return {{"log_file", ""},
          {"log_info", level <= spdlog::level::info},
          {"log_warning", level <= spdlog::level::warn},
          {"log_error", level <= spdlog::level::err},
          {kVerbose, std::uint64_t{level <= spdlog::level::debug ? 1U : 0U}},
          {"log_format", "default"}};
}

Status ChangeLogSettings(const LogSettings& changes) {
  LogSettings settings = ReadLogSettings();
  for (const auto& [name, value] : changes) {
    const auto setting = settings.find(name);
    if (setting == settings.end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there is no log setting {}", Quoted(name)));
    }
    const bool fixed = std::holds_alternative<std::string>(setting->second);
    if (value.index() != setting->second.index() || (fixed && value != setting->second)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("log setting '{}' is {} and cannot be {}", name,
                              ShownValue(setting->second), ShownValue(value)));
    }
    if (name == kVerbose && std::get<std::uint64_t>(value) > kMostVerbose) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("log setting '{}' takes 0 to {}, not {}", kVerbose, kMostVerbose,
                              std::get<std::uint64_t>(value)));
    }
    setting->second = value;
  }
  const spdlog::level::level_enum level = LevelOf(settings);
  for (const auto& [name, of_name] : kSwitches) {
    const auto asked = changes.find(name);
    if (asked == changes.end() || std::get<bool>(asked->second) || of_name < level) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("log setting '{}' cannot be off while a less severe one is on", name));
  }
  spdlog::set_level(level);
  return {};
}

TraceSettings ReadTraceSettings(bool tracing) {
  return {{"trace_level", {tracing ? "TIMESTAMPS" : "OFF"}},
          {"trace_rate", {"1"}},
          {"trace_count", {"-1"}},
          {"log_frequency", {"0"}},
          {"trace_file", {""}},
          {"trace_mode", {"triton"}}};
}

Status CheckTraceSettings(bool tracing, const TraceSettings& changes) {
  const TraceSettings settings = ReadTraceSettings(tracing);
  for (const auto& [name, values] : changes) {
    const auto setting = settings.find(name);
    if (setting == settings.end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there is no trace setting {}", Quoted(name)));
    }
    if (values.empty() || values == setting->second) continue;
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("trace setting '{}' stays {} and cannot be {}: the server traces if it "
                            "was started with --trace FILE",
                            name, Listed(setting->second), Listed(values)));
  }
  return {};
}

}  // namespace lagoon
