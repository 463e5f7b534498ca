#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>

#include <memory>

namespace lagoon {
namespace {

bool IsControl(char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }

/// Escapes the message before the pattern is applied.
class OneLineFormatter final : public spdlog::formatter {
 public:
  explicit OneLineFormatter(std::unique_ptr<spdlog::formatter> inner) : inner_(std::move(inner)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::string text = OneLine({message.payload.data(), message.payload.size()});
    spdlog::details::log_msg escaped = message;
    escaped.payload = text;
    inner_->format(escaped, line);
    message.color_range_start = escaped.color_range_start;  // the sink colours the level
    message.color_range_end = escaped.color_range_end;
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<OneLineFormatter>(inner_->clone());
  }

 private:
  const std::unique_ptr<spdlog::formatter> inner_;
};

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    if (IsControl(c)) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  return line;
}

void SetUpLog() {
  auto pattern = std::make_unique<spdlog::pattern_formatter>("%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_formatter(std::make_unique<OneLineFormatter>(std::move(pattern)));
}

}  // namespace lagoon
