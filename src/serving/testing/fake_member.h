#pragma once

// For tests of fleets: a member without a device. The test answers its requests, decides which
// loads succeed, and loses the device.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "policies/registry.h"
#include "serving/config/model_config.pb.h"
#include "serving/core/inference.h"
#include "serving/core/repository_control.h"
#include "serving/core/scheduler_control.h"
#include "serving/core/share_control.h"

namespace lagoon::testing {

class FakeMember final : public Inference,
                         public SchedulerControl,
                         public ShareControl,
                         public RepositoryControl {
 public:
  explicit FakeMember(std::set<std::string> loaded) : loaded_(std::move(loaded)) {}

  /// If `at_once`, requests are answered at once, else the test answers them.
  void AnswerAtOnce(bool at_once) {
    const MutexLock lock(mutex_);
    at_once_ = at_once;
  }
  void AnswerAll() {
    for (auto& [handle, flight] : TakeFlights()) Answer(flight);
  }
  std::size_t InFlight() const {
    const MutexLock lock(mutex_);
    return flights_.size();
  }
  std::set<std::string> Loaded() const {
    const MutexLock lock(mutex_);
    return loaded_;
  }
  /// Calls of LoadModel and UnloadModel, as "load m".
  std::vector<std::string> Changes() const {
    const MutexLock lock(mutex_);
    return changes_;
  }
  /// Loads of this model fail.
  void RefuseToLoad(const std::string& model) {
    const MutexLock lock(mutex_);
    refused_.insert(model);
  }
  /// Before the member is in a fleet.
  void HaveNoRepository() { has_repository_ = false; }
  /// ResizeShare() fails.
  void RefuseToResize() {
    const MutexLock lock(mutex_);
    resizes_ = false;
  }
  /// What all models say about their time alone.
  void SetStandalone(Nanoseconds standalone) {
    const MutexLock lock(mutex_);
    standalone_ = standalone;
  }
  /// Is called at the begin of every load.
  void OnLoad(std::function<void()> callback) {
    const MutexLock lock(mutex_);
    on_load_ = std::move(callback);
  }
  /// Sets the dims of the input of all models.
  void SetShape(Dims dims) {
    const MutexLock lock(mutex_);
    dims_ = std::move(dims);
  }
  /// The only version of all models from now on; "1" before.
  void SetVersion(const std::string& version) {
    const MutexLock lock(mutex_);
    version_ = version;
  }
  /// The models have sequences from now on, which never end by themselves.
  void HaveSequences() {
    const MutexLock lock(mutex_);
    has_sequences_ = true;
  }
  /// The requests of a sequence that came here.
  std::size_t RequestsOf(std::uint64_t sequence) const {
    const MutexLock lock(mutex_);
    const auto found = of_sequences_.find(sequence);
    return found == of_sequences_.end() ? 0 : found->second;
  }
  /// lagoon.share of all models from now on.
  void SetShareOfModels(const std::string& share) {
    const MutexLock lock(mutex_);
    share_ = share;
  }
  /// Batches of the model have so many rows and take so long.
  void SetBatches(const std::string& model, double rows, double ms) {
    const MutexLock lock(mutex_);
    LoadReading& load = loads_[model];
    load.batch_ms = ms;
    load.rows_per_s = rows * 1000 / ms;
    load.bottleneck = Bottleneck::kDevice;
  }
  /// So many rows arrive for the model each second.
  void SetArrivals(const std::string& model, double per_s) {
    const MutexLock lock(mutex_);
    loads_[model].arrivals_per_s = per_s;
  }
  /// ModelShare::surface of all models.
  void SetSurface(Surface surface) {
    const MutexLock lock(mutex_);
    surface_ = std::make_shared<const Surface>(std::move(surface));
  }
  /// ShareWanted::rows of the model.
  std::int64_t CeilingOf(const std::string& model) const {
    const MutexLock lock(mutex_);
    const auto found = ceilings_.find(model);
    return found == ceilings_.end() ? 0 : found->second;
  }
  /// The fixed share of a model; nothing if it is tuned, or has none.
  std::optional<double> ShareOf(const std::string& model) const {
    const MutexLock lock(mutex_);
    const auto share = shares_.find(model);
    return share == shares_.end() ? std::nullopt : share->second;
  }
  /// Requests are answered kUnavailable until Recover().
  void Lose() {
    {
      const MutexLock lock(mutex_);
      lost_ = true;
    }
    for (auto& [handle, flight] : TakeFlights()) flight.callback(tl::unexpected<Error>(Away()));
  }
  void Recover() {
    const MutexLock lock(mutex_);
    lost_ = false;
  }
  std::vector<RequestHandle> Cancelled() const {
    const MutexLock lock(mutex_);
    return cancelled_;
  }

  bool Ready() const override {
    const MutexLock lock(mutex_);
    return !lost_ && !draining_;
  }
  std::vector<ModelStatus> Models() const override {
    const MutexLock lock(mutex_);
    std::vector<ModelStatus> rows;
    for (const std::string& model : loaded_) {
      ModelStatus row;
      row.name = model;
      row.version = version_;
      row.state = lost_ ? ModelState::kUnavailable : ModelState::kReady;
      row.standalone = standalone_;
      row.load_ms = static_cast<double>(changes_.size());  // other after each load
      rows.push_back(row);
    }
    return rows;
  }
  Status ModelReady(const std::string& model, const std::string& version) const override {
    const MutexLock lock(mutex_);
    if (lost_) return tl::unexpected<Error>(Away());
    if (!version.empty() && version != version_) {
      return Fail(ErrorCode::kNotFound, "model '" + model + "' has no version '" + version + "'");
    }
    if (loaded_.contains(model)) return {};
    return Fail(ErrorCode::kUnavailable, "model '" + model + "' is not loaded");
  }
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override {
    LAGOON_RETURN_IF_ERROR(ModelReady(model, version));
    ModelMetadata metadata;
    metadata.name = model;
    const MutexLock lock(mutex_);
    metadata.versions = {version_};
    metadata.inputs = {{"x", DataType::kFloat32, dims_}};
    metadata.outputs = {{"y", DataType::kFloat32, {1}}};
    return metadata;
  }
  Result<inference::ModelConfig> Config(const std::string& model,
                                        const std::string& version) const override {
    LAGOON_RETURN_IF_ERROR(ModelReady(model, version));
    const MutexLock lock(mutex_);
    inference::ModelConfig config;
    config.set_name(model);
    config.set_max_batch_size(4);
    if (has_sequences_) {
      config.mutable_sequence_batching()->set_max_sequence_idle_microseconds(3'600'000'000);
    }
    (*config.mutable_parameters())["lagoon.slo_ms"].set_string_value("40");
    if (!share_.empty()) {
      (*config.mutable_parameters())["lagoon.share"].set_string_value(share_);
    }
    return config;
  }
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string&) const override {
    const MutexLock lock(mutex_);
    if (lost_) return tl::unexpected<Error>(Away());
    std::vector<ModelStatistics> rows;
    for (const std::string& name : loaded_) {
      if (!model.empty() && model != name) continue;
      ModelStatistics row;
      row.name = name;
      row.version = version_;
      const auto count = answered_.find(name);
      row.success.count = count == answered_.end() ? 0 : count->second;
      rows.push_back(row);
    }
    return rows;
  }
  DispatcherStats SchedulerStatistics() const override {
    DispatcherStats stats;
    stats.launches = 5;
    return stats;
  }
  SchedulerConfig scheduler() const override { return MakeScheduler("reset")->config; }
  void SwitchScheduler(Scheduler, std::function<void(Status)> done) override {
    done(Ready() ? Status() : Status(tl::unexpected<Error>(Away())));
  }
  DeviceInfo device() const override {
    DeviceInfo info;
    info.name = "fake";
    info.units = 2;
    info.memory_bytes = 1000;
    return info;
  }
  SchedulerControl* schedulers() override { return this; }
  ShareControl* shares() override { return this; }
  RepositoryControl* repository() override { return has_repository_ ? this : nullptr; }
  Result<SharesReport> ReadShares() const override {
    const MutexLock lock(mutex_);
    SharesReport report;
    report.kind = ShareKind::kWeight;
    for (const std::string& name : loaded_) {
      ModelShare row;
      row.model = name;
      row.version = version_;
      if (const auto share = shares_.find(name); share != shares_.end()) {
        row.fixed = share->second.has_value();
        row.share = share->second.value_or(0.3);
      } else if (!share_.empty()) {
        row.share = 0.3;
      }
      if (const auto load = loads_.find(name); load != loads_.end()) row.load = load->second;
      if (const auto rows = ceilings_.find(name); rows != ceilings_.end()) {
        row.ceiling = rows->second;
      }
      row.surface = surface_;
      report.models.push_back(row);
    }
    return report;
  }
  Status SetSharesRules(const SharesRules&) override { return {}; }
  Status ResizeShare(const std::string& model, const std::string& version,
                     const ShareWanted& wanted) override {
    LAGOON_RETURN_IF_ERROR(ModelReady(model, version));
    const MutexLock lock(mutex_);
    if (!resizes_) return Fail(ErrorCode::kInvalidArgument, "the shares are more than the device");
    shares_[model] = wanted.part;
    ceilings_[model] = wanted.rows;
    if (wanted.none) shares_.erase(model);
    return {};
  }
  void LoadModel(const std::string& model, LoadOverride /*with*/,
                 std::function<void(Status)> done) override {
    std::function<void()> on_load;
    {
      const MutexLock lock(mutex_);
      on_load = on_load_;
    }
    if (on_load) on_load();
    Status status;
    {
      const MutexLock lock(mutex_);
      changes_.push_back("load " + model);
      if (lost_) {
        status = tl::unexpected<Error>(Away());
      } else if (refused_.contains(model)) {
        status = Fail(ErrorCode::kInvalidArgument, "model '" + model + "' is broken");
      } else {
        loaded_.insert(model);
      }
    }
    done(std::move(status));
  }
  void UnloadModel(const std::string& model, std::function<void(Status)> done) override {
    Status status;
    {
      const MutexLock lock(mutex_);
      changes_.push_back("unload " + model);
      if (lost_) {
        status = tl::unexpected<Error>(Away());
      } else if (loaded_.erase(model) == 0) {
        status = Fail(ErrorCode::kNotFound, "model '" + model + "' is not loaded");
      } else {
        answered_.erase(model);
        shares_.erase(model);
      }
    }
    done(std::move(status));
  }
  RequestHandle Infer(InferRequest request, InferCallback callback) override {
    Flight flight{std::move(request), std::move(callback)};
    bool at_once = false;
    RequestHandle handle{};
    {
      const MutexLock lock(mutex_);
      handle = RequestHandle{next_++};
      ++of_sequences_[flight.request.sequence.number];
      at_once = at_once_ || lost_ || !loaded_.contains(flight.request.model);
      if (!at_once) flights_.emplace(handle, std::move(flight));
    }
    if (at_once) Answer(flight);
    return handle;
  }
  void Cancel(RequestHandle handle) override {
    Flight flight;
    {
      const MutexLock lock(mutex_);
      cancelled_.push_back(handle);
      const auto found = flights_.find(handle);
      if (found == flights_.end()) return;
      flight = std::move(found->second);
      flights_.erase(found);
    }
    flight.callback(Fail(ErrorCode::kCancelled, "cancelled"));
  }
  void Drain(TimePoint) override {
    {
      const MutexLock lock(mutex_);
      draining_ = true;
    }
    AnswerAll();
  }

 private:
  struct Flight {
    InferRequest request;
    InferCallback callback;
  };

  static Error Away() { return {ErrorCode::kUnavailable, "device 'fake' was lost"}; }
  std::map<RequestHandle, Flight> TakeFlights() {
    const MutexLock lock(mutex_);
    return std::exchange(flights_, {});
  }
  void Answer(Flight& flight) {
    const Status ready = ModelReady(flight.request.model, flight.request.version);
    if (!ready) return flight.callback(tl::unexpected<Error>(ready.error()));
    InferResponse response;
    response.model = flight.request.model;
    response.id = flight.request.id;
    response.outputs.push_back({"y", DataType::kFloat32, {1}, UnfilledBytes(sizeof(float))});
    {
      const MutexLock lock(mutex_);
      response.version = version_;
      ++answered_[flight.request.model];
    }
    flight.callback(std::move(response));
  }

  bool has_repository_ = true;
  mutable Mutex mutex_;
  bool has_sequences_ GUARDED_BY(mutex_) = false;
  std::map<std::uint64_t, std::size_t> of_sequences_ GUARDED_BY(mutex_);  // 0: of none
  std::set<std::string> loaded_ GUARDED_BY(mutex_);
  std::set<std::string> refused_ GUARDED_BY(mutex_);
  std::vector<std::string> changes_ GUARDED_BY(mutex_);
  std::function<void()> on_load_ GUARDED_BY(mutex_);
  std::map<RequestHandle, Flight> flights_ GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> answered_ GUARDED_BY(mutex_);
  std::vector<RequestHandle> cancelled_ GUARDED_BY(mutex_);
  std::string share_ GUARDED_BY(mutex_), version_ GUARDED_BY(mutex_) = "1";
  Dims dims_ GUARDED_BY(mutex_) = {1, 4};
  std::map<std::string, std::optional<double>> shares_ GUARDED_BY(mutex_);  // as they were resized
  std::map<std::string, LoadReading> loads_ GUARDED_BY(mutex_);
  std::map<std::string, std::int64_t> ceilings_ GUARDED_BY(mutex_);
  std::shared_ptr<const Surface> surface_ GUARDED_BY(mutex_);
  std::uint64_t next_ GUARDED_BY(mutex_) = 1;
  Nanoseconds standalone_ GUARDED_BY(mutex_) = std::chrono::milliseconds(2);
  bool resizes_ GUARDED_BY(mutex_) = true;
  bool at_once_ GUARDED_BY(mutex_) = true;
  bool lost_ GUARDED_BY(mutex_) = false;
  bool draining_ GUARDED_BY(mutex_) = false;
};

}  // namespace lagoon::testing
