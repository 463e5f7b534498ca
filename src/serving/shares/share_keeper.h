#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "serving/shares/share_manager.h"

namespace lagoon {

class Batcher;
class Device;
class Dispatcher;
class ServedModel;
class TraceRecorder;
struct ModelStatistics;

struct ShareKeeperOptions {
  ShareKind kind = ShareKind::kUnits;
  TraceRecorder* trace = nullptr;  // gets all decisions; outlives the keeper; null: no trace
};

/// A ShareManager for the models on a device, and the thread that calls it once a second. Lives as
/// long as the core. Any thread may call any method.
class ShareKeeper final : private ShareHost {
 public:
  struct Model {
    ServedModel* model = nullptr;    // not a program; has its queues
    std::vector<Batcher*> batchers;  // those that the model has
  };

  /// Without models. All arguments outlive the keeper.
  static Result<std::unique_ptr<ShareKeeper>> Start(const ShareKeeperOptions& options,
                                                    Device& device, Dispatcher& dispatcher);
  ~ShareKeeper() override;

  /// `come` take the place of the models `gone`, which are not used any more afterwards. A model
  /// without lagoon.share has all of the device until it is resized. The others keep their sizes as
  /// far as there is room. On an error `gone` stay, and `come` are not used any more.
  /// kInvalidArgument: the shares of the models are more than the device, or the kind is kUnits and
  /// the device has no ranges of units. Without `come` there is no error. One call at a time.
  Status Replace(std::span<const ServedModel* const> gone, std::vector<Model> come);

  /// As it was a second ago at most. Waits for nothing.
  SharesReport Read() const;
  Status SetRules(const SharesRules& rules);
  Status Resize(const ServedModel& model, const ShareWanted& wanted);
  /// Adds what is known of the shares of the models that `statistics` name. Waits for nothing.
  void AddTo(std::span<ModelStatistics> statistics) const;

 private:
  ShareKeeper(const ShareKeeperOptions& options, Device& device, Dispatcher& dispatcher)
      : options_(options), device_(device), dispatcher_(dispatcher) {}

  Status Move(std::size_t model, UnitRange units) override;
  Status SetWeight(std::size_t model, double weight) override;
  LoadReading ReadLoad(std::size_t model, TimePoint now) override;
  void ForgetTimes(std::size_t model) override;
  BatchNotice TakeNotice(std::size_t model) override;
  std::int64_t MostRows(std::size_t model) const override;
  void OnChange(std::size_t model, const ShareChange& change, UnitRange units) override;

  Status CheckKind(std::span<const Model> come) const;
  std::shared_ptr<const Model> Find(std::size_t id) const;
  std::optional<std::size_t> IdOf(const ServedModel* model) const;
  void Forget(std::span<const std::size_t> ids);
  void Run(const std::stop_token& stop);

  const ShareKeeperOptions options_;
  Device& device_;
  Dispatcher& dispatcher_;
  std::unique_ptr<ShareManager> manager_;  // immutable after Start
  // A mutex of their own, held for a moment: the manager's is held while it calls this host.
  mutable Mutex models_mutex_;
  std::map<std::size_t, std::shared_ptr<const Model>> models_ GUARDED_BY(models_mutex_);
  std::size_t next_id_ GUARDED_BY(models_mutex_) = 0;
  Mutex mutex_;
  CondVar wake_;
  std::jthread thread_;  // last member: stops before what it uses is destroyed
};

}  // namespace lagoon
