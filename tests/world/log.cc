#include "world/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <string_view>

namespace lagoon::world {
namespace {

class Listener final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<FailedAttempt> attempts() {
    const std::lock_guard lock(mutex_);
    return attempts_;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    if (message.level != spdlog::level::debug || text.find(": no plan for ") == text.npos) return;
    attempts_.push_back({Now(), std::string(text)});
  }
  void flush_() override {}

  std::vector<FailedAttempt> attempts_;
};

std::shared_ptr<Listener>& TheListener() {
  static std::shared_ptr<Listener> listener = std::make_shared<Listener>();
  return listener;
}

}  // namespace

void ListenToLog() {
  auto logger = std::make_shared<spdlog::logger>("world", TheListener());
  logger->set_level(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

std::vector<FailedAttempt> FailedAttempts() { return TheListener()->attempts(); }

}  // namespace lagoon::world
