#include "engine/engine_host.h"

#include <filesystem>
#include <utility>

#include "engine/onnx_runtime.h"

namespace lagoon {
namespace {

std::string FindLibrary() {
  std::error_code error;
  return FindOnnxRuntimeAround(std::filesystem::read_symlink("/proc/self/exe", error));
}

}  // namespace

std::shared_ptr<EngineHost> EngineHost::Another(const std::shared_ptr<EngineHost>& host) {
  if (host == nullptr) return nullptr;
  return std::make_shared<EngineHost>([host] { return host->Opened(); });
}

void EngineHost::Observe(Nanoseconds duration) {
  std::int64_t longest = longest_ns_.load(std::memory_order_relaxed);
  while (longest < duration.count() &&
         !longest_ns_.compare_exchange_weak(longest, duration.count(), std::memory_order_relaxed)) {
  }
}

void EngineHost::AddUnsized(std::span<const std::string> nodes) {
  const MutexLock lock(mutex_);
  unsized_.insert(nodes.begin(), nodes.end());
}

bool EngineHost::IsUnsized(const std::string& node) {
  const MutexLock lock(mutex_);
  return unsized_.contains(node);
}

Status EngineHost::OpenNow() {
  const auto opened = Opened();
  if (!opened) return tl::unexpected(opened.error());
  return {};
}

std::string EngineHost::name() {
  const MutexLock lock(mutex_);
  return engine_ == nullptr ? "the engine" : engine_->name();
}

Result<std::shared_ptr<Engine>> EngineHost::Opened() {
  const MutexLock lock(mutex_);
  if (engine_ != nullptr) return engine_;
  if (error_ == nullptr || Now() >= retry_at_) {
    Result<std::shared_ptr<Engine>> opened = open_();
    if (opened) return engine_ = *std::move(opened);
    error_ = std::make_shared<const Error>(std::move(opened).error());
    retry_at_ = Now() + pause_;
  }
  return tl::unexpected<Error>(*error_);
}

Result<std::shared_ptr<EngineModel>> EngineHost::Load(const EngineSource& source,
                                                      const std::string& key) {
  LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<Engine> engine, Opened());
  if (!key.empty()) {
    const MutexLock lock(mutex_);
    std::erase_if(models_, [](const auto& known) { return known.second.expired(); });
    const auto known = models_.find(key);
    if (known != models_.end()) {
      if (auto model = known->second.lock()) return model;
    }
  }
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<EngineModel> loaded, engine->Load(source));
  std::shared_ptr<EngineModel> model(loaded.release(),
                                     [engine](EngineModel* done) { delete done; });
  if (!key.empty()) {
    const MutexLock lock(mutex_);
    models_[key] = model;
  }
  return model;
}

Result<std::shared_ptr<EngineHost>> ChooseEngine(const std::string& choice) {
  if (choice == "none") return nullptr;
  if (!choice.empty()) {
    LAGOON_ASSIGN_OR_RETURN(std::shared_ptr<Engine> engine, OpenOnnxRuntime(choice));
    return std::make_shared<EngineHost>(std::move(engine));
  }
  const std::string found = FindLibrary();
  if (found.empty()) return nullptr;
  return std::make_shared<EngineHost>([found] { return OpenOnnxRuntime(found); });
}

}  // namespace lagoon
