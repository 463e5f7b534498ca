#pragma once

// For tests: an Inference without a device, so that the edges can be tested alone.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/guard.h"
#include "base/log.h"
#include "base/mutex.h"
#include "serving/config/model_config.pb.h"
#include "serving/core/fleet_control.h"
#include "serving/core/inference.h"
#include "serving/core/repository_control.h"
#include "serving/core/scheduler_control.h"
#include "serving/core/share_control.h"

namespace lagoon {

/// Serves version 1 of each of these models:
///
/// - "twice": x FP32 [1,4] -> y = 2x FP32 [1,4]
/// - "image": pixels FP32 [1,3,224,224] -> scores FP32 [1,1000]; the first score is the sum of the
///   pixels
/// - "broken": listed, but did not load
/// - "wide": x FP32 [1,4] -> y FP32 [1,5000], all elements 2x[0]
/// - "vector": x FP32 [-1], of any size -> y = 2x FP32 [1,n]
/// - "pictures": x FP32 [-1,3,-1,-1], batches of 1 to 8 of any height and width -> y = 2x FP32
/// [1,n]
/// - "count": x FP32 [1,4] -> x[0] answers, the i-th is y = i FP32 [1,1]; decoupled
///
/// Requests are answered on a thread of the core's own; after Hold() only when Release() is called.
class FakeCore final : public Inference,
                       private SchedulerControl,
                       private ShareControl,
                       private RepositoryControl,
                       private FleetControl {
 public:
  FakeCore() : worker_([this](const std::stop_token& stop) { Work(stop); }) {
    config_.set_name("twice");
    config_.set_max_batch_size(0);
    auto* input = config_.add_input();
    input->set_name("x");
    input->add_dims(1);
    input->add_dims(4);
  }
  ~FakeCore() override {
    worker_.request_stop();
    changed_.NotifyAll();
  }

  // For tests to set up and inspect.
  /// From now on a request takes so much room for its outputs (InferRequest::room).
  void TakeRoom(std::size_t bytes) {
    MutexLock lock(mutex_);
    room_ = bytes;
  }
  void Hold() {
    MutexLock lock(mutex_);
    held_ = true;
    changed_.NotifyAll();
  }
  void Release() {
    MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  void SetReady(bool ready) {
    MutexLock lock(mutex_);
    ready_ = ready;
    changed_.NotifyAll();
  }
  /// Statistics() tells of these models too, beside "twice".
  void List(std::vector<std::string> models) {
    MutexLock lock(mutex_);
    listed_ = std::move(models);
  }
  void FailWith(Error error) {
    MutexLock lock(mutex_);
    failure_ = std::move(error);
    changed_.NotifyAll();
  }
  std::size_t Pending() const {
    MutexLock lock(mutex_);
    return jobs_.size();
  }
  std::uint64_t Cancelled() const {
    MutexLock lock(mutex_);
    return statistics_.cancelled;
  }
  /// The answers of "count" that were given so far, to all requests.
  std::uint32_t Counted() const {
    MutexLock lock(mutex_);
    return counted_;
  }
  /// The nice value of the thread that called Infer last.
  int SubmitNice() const {
    MutexLock lock(mutex_);
    return submit_nice_;
  }
  /// The request that was served last, without the data of its tensors.
  InferRequest LastRequest() const {
    MutexLock lock(mutex_);
    return last_;
  }

  bool Ready() const override {
    MutexLock lock(mutex_);
    return ready_;
  }
  std::vector<ModelStatus> Models() const override {
    std::vector<ModelStatus> rows(3);
    rows[0].name = "twice";
    rows[0].version = "1";
    rows[0].state = ModelState::kReady;
    rows[1].name = "broken";
    rows[1].reason = "/usr/secret/config.pbtxt:3: node '/model/Add': nonsense";
    rows[2].name = "spare";
    rows[2].reason = kNotLoaded;
    return rows;
  }
  /// The core has a fleet of two devices from now on.
  void BecomeFleet() {
    MutexLock lock(mutex_);
    FleetReport& report = fleet_.emplace();
    report.placer = "static";
    report.devices = {{"0/cpu:1", "a CPU", true, 1, 100}, {"1/cpu:1", "a CPU", false, 1, 100}};
    report.models = {{"twice", 12.5, Nanoseconds(0), std::chrono::milliseconds(3), 40}};
    report.replicas = {{"twice", 1, FleetReplicaReport::State::kRetiring, 0.25, 7, 2}};
    report.loads = 3;
  }
  /// The core has no facet from now on.
  void BecomeBare() {
    MutexLock lock(mutex_);
    bare_ = true;
  }
  SchedulerControl* schedulers() override { return bare() ? nullptr : this; }
  ShareControl* shares() override { return bare() ? nullptr : this; }
  RepositoryControl* repository() override { return bare() ? nullptr : this; }
  FleetControl* fleet() override {
    MutexLock lock(mutex_);
    return fleet_ && !bare_ ? this : nullptr;
  }
  std::vector<std::string> Fronts() const override { return {"00000000000000f0"}; }
  FleetReport ReadFleet() const override {
    MutexLock lock(mutex_);
    return *fleet_;
  }
  Status SetPlacer(const std::string& name) override {
    MutexLock lock(mutex_);
    if (name != "other") return Fail(ErrorCode::kNotFound, "there is no placer '" + name + "'");
    fleet_->placer = name;
    return {};
  }
  Status Join(const FleetJoin& join) override {
    MutexLock lock(mutex_);
    FleetDeviceReport& device = fleet_->devices.emplace_back();
    device.name = join.name;
    device.address = join.address;
    device.memory_bytes = join.memory_bytes;
    return {};
  }
  Status Leave(const std::string& name) override {
    MutexLock lock(mutex_);
    const auto left =
        std::erase_if(fleet_->devices, [&](const auto& device) { return device.name == name; });
    if (left == 0) return Fail(ErrorCode::kNotFound, "the fleet has no member '" + name + "'");
    const std::size_t count = fleet_->devices.size();
    std::erase_if(fleet_->replicas,
                  [count](const auto& replica) { return replica.device >= count; });
    return {};
  }
  void LoadModel(const std::string& model, LoadOverride with,
                 std::function<void(Status)> done) override {
    std::string what = "load";
    if (!with.config.empty()) what += " " + with.config;
    for (const auto& [path, contents] : with.files) what += " " + path + "=" + contents;
    Change(what, model, done);
  }
  void UnloadModel(const std::string& model, std::function<void(Status)> done) override {
    Change("unload", model, done);
  }
  /// Loads and unloads that succeeded, as "load m", or with what came with a load between.
  std::vector<std::string> Changes() const {
    MutexLock lock(mutex_);
    return changes_;
  }
  Status ModelReady(const std::string& model, const std::string& version) const override {
    if (model == "broken") {
      return Fail(ErrorCode::kUnavailable, "model 'broken': node 'n': op 'Foo' is not supported");
    }
    LAGOON_RETURN_IF_ERROR(Metadata(model, version));
    return {};
  }
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override {
    static const std::map<std::string, std::pair<Dims, Dims>, std::less<>> kShapes = {
        {"twice", {{1, 4}, {1, 4}}},   {"image", {{1, 3, 224, 224}, {1, 1000}}},
        {"wide", {{1, 4}, {1, 5000}}}, {"count", {{1, 4}, {1, 1}}},
        {"vector", {{-1}, {1, -1}}},   {"pictures", {{-1, 3, -1, -1}, {1, -1}}}};
    const auto shapes = kShapes.find(model);
    if (shapes == kShapes.end() || (!version.empty() && version != "1")) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("model '{}', version '{}': not in the repository", model, version));
    }
    const bool image = model == "image";
    return ModelMetadata{model,
                         {"1"},
                         "lagoon_plan",
                         {{image ? "pixels" : "x", DataType::kFloat32, shapes->second.first}},
                         {{image ? "scores" : "y", DataType::kFloat32, shapes->second.second}},
                         model == "pictures" ? 8 : 0};
  }
  Result<inference::ModelConfig> Config(const std::string& model,
                                        const std::string& version) const override {
    LAGOON_ASSIGN_OR_RETURN(const ModelMetadata metadata, Metadata(model, version));
    inference::ModelConfig config = config_;
    config.set_max_batch_size(static_cast<int>(metadata.max_batch));
    if (model == "count") config.mutable_model_transaction_policy()->set_decoupled(true);
    return config;
  }
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const override {
    if (!model.empty()) LAGOON_RETURN_IF_ERROR(Metadata(model, version));
    MutexLock lock(mutex_);
    ModelStatistics row = statistics_;
    row.name = model.empty() ? "twice" : model;
    row.version = "1";
    row.pending = jobs_.size();
    std::vector<ModelStatistics> rows{row};
    for (const std::string& also : listed_) {
      if (!model.empty()) break;
      rows.emplace_back().name = also;
      rows.back().version = "1";
    }
    return rows;
  }
  std::vector<TenantStatistics> Tenants() const override { return {{"a \"b\"", 5}}; }
  DispatcherStats SchedulerStatistics() const override {
    DispatcherStats stats;
    stats.launches = 42;
    stats.slices = 7;
    stats.holds = 9;
    stats.holds_in_vain = 3;
    stats.off_core = std::chrono::microseconds(9);
    return stats;
  }
  Result<SharesReport> ReadShares() const override {
    MutexLock lock(mutex_);
    return shares_;
  }
  Status SetSharesRules(const SharesRules& rules) override {
    MutexLock lock(mutex_);
    if (rules.tuning) shares_.tuning = *rules.tuning;
    return {};
  }
  Status ResizeShare(const std::string& model, const std::string& /*version*/,
                     const ShareWanted& wanted) override {
    MutexLock lock(mutex_);
    if (model != "twice") return Fail(ErrorCode::kNotFound, "no model '" + model + "'");
    shares_.models.front().share = wanted.part;
    return {};
  }
  SchedulerConfig scheduler() const override {
    MutexLock lock(mutex_);
    return scheduler_;
  }
  void SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) override {
    Status status;
    {
      MutexLock lock(mutex_);
      if (failure_) status = tl::unexpected<Error>(*failure_);
      if (status) scheduler_ = scheduler.config;
    }
    done(std::move(status));
  }
  DeviceInfo device() const override { return device_; }

  RequestHandle Infer(InferRequest request, InferCallback callback) override {
    const Status valid = Validate(request);
    MutexLock lock(mutex_);
    submit_nice_ = ::getpriority(PRIO_PROCESS, 0);
    const RequestHandle handle{++last_handle_};
    Job job{std::move(request), std::move(callback), std::nullopt, Now()};
    if (!valid) job.error = valid.error();
    if (failure_) job.error = failure_;
    if (room_ > 0 && job.request.room != nullptr) {
      if (const Status taken = job.request.room->Take(room_); !taken) job.error = taken.error();
    }
    jobs_.emplace(handle, std::move(job));
    changed_.NotifyAll();
    return handle;
  }
  void Cancel(RequestHandle handle) override {
    MutexLock lock(mutex_);
    if (const auto counting = counting_.find(handle); counting != counting_.end()) {
      counting->second->cancelled = true;
      changed_.NotifyAll();
    }
    const auto job = jobs_.find(handle);
    if (job == jobs_.end()) return;
    job->second.error = Error{ErrorCode::kCancelled, "the request was cancelled"};
    changed_.NotifyAll();
  }
  void Drain(TimePoint) override { SetReady(false); }

 private:
  bool bare() const {
    MutexLock lock(mutex_);
    return bare_;
  }
  void Change(const std::string& what, const std::string& model,
              const std::function<void(Status)>& done) {
    if (model == "absent") return done(Fail(ErrorCode::kNotFound, "no model 'absent'"));
    if (model == "broken") {
      return done(Fail(ErrorCode::kInvalidArgument, "/usr/secret/config.pbtxt:3: nonsense"));
    }
    {
      MutexLock lock(mutex_);
      changes_.push_back(what + " " + model);
    }
    done({});
  }

  struct Job {
    InferRequest request;
    InferCallback callback;
    std::optional<Error> error;
    TimePoint posted;
  };

  Status Validate(const InferRequest& request) const {
    LAGOON_RETURN_IF_ERROR(ModelReady(request.model, request.version));
    const TensorSpec spec = Metadata(request.model, request.version)->inputs.front();
    if (request.inputs.size() == 1 && request.inputs.front().name == spec.name &&
        std::ranges::equal(request.inputs.front().dims, spec.dims,
                           [](auto dim, auto takes) { return takes < 0 || dim == takes; }) &&
        request.inputs.front().type == spec.type) {
      return {};
    }
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model '{}': takes '{}' {} and nothing else", request.model, spec.name,
                            ToString(spec.dims)));
  }

  // A request of "count".
  struct Counting {
    explicit Counting(InferRequest asked, InferCallback call)
        : request(std::move(asked)), callback(std::move(call)) {}
    const InferRequest request;
    const InferCallback callback;
    std::uint32_t wanted = 0, given = 0;
    std::atomic<std::uint32_t> untaken{0};
    std::atomic<bool> cancelled{false};
  };

  // Gives what may be given. True: the request is answered.
  bool Count(const std::shared_ptr<Counting>& one) REQUIRES(mutex_) {
    while (!one->cancelled && one->given < one->wanted &&
           one->untaken < AnswerStream::kMostUntaken) {
      ++one->untaken;
      ++one->given;
      ++counted_;
      InferResponse answer{one->request.model, "1", one->request.id, {}, {}};
      answer.outputs.push_back(Tensor("y", {static_cast<float>(one->given)}));
      answer.part = AnswerPart::kMore;
      one->request.stream->Give(std::move(answer), [one, this] {
        --one->untaken;
        MutexLock lock(mutex_);
        changed_.NotifyAll();
      });
    }
    if (!one->cancelled && one->given < one->wanted) return false;
    InferResponse end{one->request.model, "1", one->request.id, {}, {}};
    end.part = AnswerPart::kEnd;
    if (one->cancelled) {
      ++statistics_.cancelled;
      one->callback(Fail(ErrorCode::kCancelled, "the request was cancelled"));
    } else {
      one->callback(std::move(end));
    }
    return true;
  }

  // True: the job is one of "count".
  bool BeginCounting(RequestHandle handle, Job& job) REQUIRES(mutex_) {
    if (job.request.model != "count" || job.error) return false;
    if (job.request.stream == nullptr) {
      job.error = Error{ErrorCode::kUnimplemented, "model 'count' is decoupled"};
      return false;
    }
    job.request.stream->MayGive();
    float wanted = 0;
    std::memcpy(&wanted, job.request.inputs.front().data.data(), sizeof(wanted));
    auto one = std::make_shared<Counting>(std::move(job.request), std::move(job.callback));
    one->wanted = static_cast<std::uint32_t>(wanted);
    counting_.emplace(handle, std::move(one));
    return true;
  }

  // The next job that may end; end(): there is none.
  std::map<RequestHandle, Job>::iterator Next() REQUIRES(mutex_) {
    for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
      if (!held_ || job->second.error) return job;
    }
    return jobs_.end();
  }

  void Work(const std::stop_token& stop) {
    MutexLock lock(mutex_);
    while (!stop.stop_requested()) {
      std::erase_if(counting_,
                    [this](const auto& entry) REQUIRES(mutex_) { return Count(entry.second); });
      const auto next = Next();
      if (next == jobs_.end()) {
        changed_.WaitUntil(mutex_, Now() + std::chrono::milliseconds(50));
        continue;
      }
      const RequestHandle handle = next->first;
      Job job = std::move(next->second);
      jobs_.erase(next);
      if (BeginCounting(handle, job)) continue;
      Count(job);
      mutex_.unlock();
      End(job);
      mutex_.lock();
    }
  }

  void Count(const Job& job) REQUIRES(mutex_) {
    if (job.error) {
      ++statistics_.fail.count;
      if (job.error->code == ErrorCode::kCancelled) ++statistics_.cancelled;
      return;
    }
    ++statistics_.success.count;
    ++statistics_.queue.count;
    ++statistics_.inference_count;
    ++statistics_.execution_count;
    statistics_.success.ns += 5'000'000;
    StageHistograms& stages =
        statistics_.histograms[static_cast<std::size_t>(statistics_.job_class)];
    stages.request.ns += 5'000'000;
    ++stages.request.counts[6];  // up to 5 ms
    ++stages.queue.counts[0];
    last_ = UntilMemorySuffices([&] { return job.request; });
    for (InputTensor& input : last_.inputs) input.data = {};
    last_.payload.reset();
    last_.stream.reset();
  }

  /// Answers although memory runs out, and drops what the callback throws, as the real core does.
  static void End(Job& job) {
    Result<InferResponse> result = UntilMemorySuffices([&] { return Answer(job); });
    job.request.payload.reset();
    try {
      job.callback(std::move(result));
    } catch (const std::exception& error) {
      spdlog::error("the answer to a request is lost: {}", error.what());
    }
  }

  static Result<InferResponse> Answer(const Job& job) {
    if (job.error) return tl::unexpected<Error>(*job.error);
    InferResponse response{job.request.model, "1", job.request.id, {Compute(job.request)}, {}};
    response.job.outcome = Outcome::kDone;
    response.job.background = job.request.priority > 1;
    response.job.posted = response.job.started = response.job.inputs_copied = job.posted;
    response.job.computed = response.job.finished = Now();
    return response;
  }

  static OutputTensor Compute(const InferRequest& request) {
    std::vector<float> in(request.inputs.front().data.size() / sizeof(float));
    std::memcpy(in.data(), request.inputs.front().data.data(), in.size() * sizeof(float));
    const bool image = request.model == "image";
    std::vector<float> out(image ? 1000 : in.size());
    if (request.model == "wide") return Tensor("y", std::vector<float>(5000, 2 * in[0]));
    for (std::size_t i = 0; i < in.size(); ++i) image ? out[0] += in[i] : out[i] = 2 * in[i];
    return Tensor(image ? "scores" : "y", out);
  }

  static OutputTensor Tensor(const char* name, const std::vector<float>& values) {
    OutputTensor tensor{
        name, DataType::kFloat32, {1, static_cast<std::int64_t>(values.size())}, {}};
    const auto bytes = std::as_bytes(std::span(values));
    tensor.data.assign(bytes.begin(), bytes.end());
    return tensor;
  }

  inference::ModelConfig config_;
  DeviceInfo device_;
  mutable Mutex mutex_;
  CondVar changed_;
  SchedulerConfig scheduler_ GUARDED_BY(mutex_);
  SharesReport shares_ GUARDED_BY(mutex_) = [] {
    SharesReport report;
    report.models.emplace_back().model = "twice";
    return report;
  }();
  std::map<RequestHandle, Job> jobs_ GUARDED_BY(mutex_);
  std::map<RequestHandle, std::shared_ptr<Counting>> counting_ GUARDED_BY(mutex_);
  std::uint32_t counted_ GUARDED_BY(mutex_) = 0;
  std::uint64_t last_handle_ GUARDED_BY(mutex_) = 0;
  int submit_nice_ GUARDED_BY(mutex_) = 0;
  ModelStatistics statistics_ GUARDED_BY(mutex_);
  InferRequest last_ GUARDED_BY(mutex_);
  std::optional<Error> failure_ GUARDED_BY(mutex_);
  std::size_t room_ GUARDED_BY(mutex_) = 0;
  bool held_ GUARDED_BY(mutex_) = false;
  bool ready_ GUARDED_BY(mutex_) = true;
  std::optional<FleetReport> fleet_ GUARDED_BY(mutex_);
  std::vector<std::string> listed_ GUARDED_BY(mutex_);
  bool bare_ GUARDED_BY(mutex_) = false;
  std::vector<std::string> changes_ GUARDED_BY(mutex_);
  std::jthread worker_;
};

}  // namespace lagoon
