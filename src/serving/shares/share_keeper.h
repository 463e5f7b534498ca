#pragma once

#include <memory>
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

/// A ShareManager for the models on a device, and the thread that calls it once a second. Any
/// thread may call any method.
class ShareKeeper final : private ShareHost {
 public:
  struct Model {
    ServedModel* model = nullptr;    // not a program; has its queues
    std::vector<Batcher*> batchers;  // those that the model has
  };

  /// All arguments outlive the keeper. A model without lagoon.share has all of the device until it
  /// is resized. kInvalidArgument: the shares of the models are more than the device, or the kind
  /// is kUnits and the device has no ranges of units.
  static Result<std::unique_ptr<ShareKeeper>> Start(std::vector<Model> models,
                                                    const ShareKeeperOptions& options,
                                                    Device& device, Dispatcher& dispatcher);
  ~ShareKeeper() override;

  SharesReport Read();
  Status SetRules(const SharesRules& rules);
  Status Resize(const ServedModel& model, const ShareWanted& wanted);
  /// Adds what is known of the shares of the models that `statistics` name.
  void AddTo(std::span<ModelStatistics> statistics);

 private:
  ShareKeeper(std::vector<Model> models, TraceRecorder* trace, Device& device,
              Dispatcher& dispatcher)
      : models_(std::move(models)), trace_(trace), device_(device), dispatcher_(dispatcher) {}

  Status Move(std::size_t model, UnitRange units) override;
  Status SetWeight(std::size_t model, double weight) override;
  LoadReading ReadLoad(std::size_t model, TimePoint now) override;
  void ForgetTimes(std::size_t model) override;
  BatchNotice TakeNotice(std::size_t model) override;
  std::int64_t MostRows(std::size_t model) const override;
  void OnChange(std::size_t model, const ShareChange& change, UnitRange units) override;

  void Run(const std::stop_token& stop);

  const std::vector<Model> models_;
  TraceRecorder* const trace_;
  Device& device_;
  Dispatcher& dispatcher_;
  std::unique_ptr<ShareManager> manager_;  // immutable after Start
  Mutex mutex_;
  CondVar wake_;
  std::jthread thread_;  // last member: stops before what it uses is destroyed
};

}  // namespace lagoon
