#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "base/mutex.h"
#include "base/time.h"
#include "engine/engine.h"

namespace lagoon {

/// An engine, and the models that it has loaded, which plans share. Any thread.
class EngineHost {
 public:
  using Open = std::function<Result<std::shared_ptr<Engine>>()>;

  explicit EngineHost(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}
  /// The engine is opened when the first model needs it. If that fails, every Load() fails so for
  /// `pause`, and then the engine is opened again: the reason may have passed.
  explicit EngineHost(Open open, Nanoseconds pause = std::chrono::minutes(1))
      : open_(std::move(open)), pause_(pause) {}

  /// A host of the same engine with statistics of its own: for another model. `host` outlives it.
  static std::shared_ptr<EngineHost> Another(const std::shared_ptr<EngineHost>& host);

  /// Counts a run of an opaque kernel.
  void Observe(Nanoseconds duration);
  /// The longest run so far; 0 before the first one.
  Nanoseconds longest() const { return Nanoseconds(longest_ns_.load(std::memory_order_relaxed)); }

  /// Nodes whose output shapes depend on data, by name: so a run has shown. Plans that are made
  /// from now on do not assume shapes for them.
  void AddUnsized(std::span<const std::string> nodes);
  bool IsUnsized(const std::string& node);

  /// Opens the engine, if that has not been done, and says whether that works.
  Status OpenNow();

  /// Engine::name(); "the engine" until it is open.
  std::string name();

  /// Engine::Load. The model keeps the engine alive. `key`: equal keys mean equal models; a model
  /// with a key is loaded once while it is in use. Empty: a model of its own.
  Result<std::shared_ptr<EngineModel>> Load(const EngineSource& source,
                                            const std::string& key = {});

 private:
  Result<std::shared_ptr<Engine>> Opened();

  const Open open_;
  const Nanoseconds pause_{0};
  std::atomic<std::int64_t> longest_ns_{0};
  Mutex mutex_;
  std::shared_ptr<Engine> engine_ GUARDED_BY(mutex_);  // null: not open
  std::shared_ptr<const Error> error_ GUARDED_BY(mutex_);
  TimePoint retry_at_ GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<EngineModel>> models_ GUARDED_BY(mutex_);
  std::set<std::string> unsized_ GUARDED_BY(mutex_);
};

/// The engine that a user chose. "none": null, there is no engine. A path: ONNX Runtime's library,
/// opened now; its errors. Empty: FindOnnxRuntimeAround() the running program, opened when it is
/// needed; null if there is none.
Result<std::shared_ptr<EngineHost>> ChooseEngine(const std::string& choice);

/// What to do about the lack of an engine, to end a message.
inline constexpr const char* kHowToGetEngine =
    "an engine could run it: `pip install onnxruntime` in .venv, or the path of its "
    "libonnxruntime.so as --engine, and in a program as the model's option `engine`";

}  // namespace lagoon
