#include "local/host_log.h"

#include <spdlog/sinks/base_sink.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"

namespace lagoon {
namespace {

struct Listener {
  HostLogFunction function;
  void* argument;
  friend bool operator==(const Listener&, const Listener&) = default;
};

/// Has the lock of its base while it calls, so that a listener that was removed is not called.
class HostSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void Add(const Listener& listener) {
    const std::lock_guard lock(mutex_);
    listeners_.push_back(listener);
  }
  void Remove(const Listener& listener) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(listeners_, listener);
    if (found != listeners_.end()) listeners_.erase(found);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (listeners_.empty()) return;
    const std::string text = OneLine({message.payload.data(), message.payload.size()});
    const int level = message.level <= spdlog::level::debug  ? 0
                      : message.level == spdlog::level::info ? 1
                      : message.level == spdlog::level::warn ? 2
                                                             : 3;
    for (const Listener& listener : listeners_) {
      listener.function(listener.argument, level, text.c_str());
    }
  }
  void flush_() override {}

  std::vector<Listener> listeners_;
};

/// Never freed: threads may log while the process exits.
HostSink& Sink() {
  static const std::shared_ptr<HostSink>& sink = *new auto([] {
    auto made = std::make_shared<HostSink>();
    auto logger = std::make_shared<spdlog::logger>("lagoon", made);
    logger->set_level(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
    return made;
  }());
  return *sink;
}

}  // namespace

void LogToHostOnly() { Sink(); }

HostLog::HostLog(HostLogFunction function, void* argument)
    : function_(function), argument_(argument) {
  Sink().Add({function_, argument_});
}

HostLog::~HostLog() { Sink().Remove({function_, argument_}); }

}  // namespace lagoon
