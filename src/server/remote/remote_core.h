#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/remote/remote_poll.h"
#include "server/remote/remote_queue.h"
#include "serving/core/fleet_member.h"
#include "serving/core/inference.h"
#include "serving/core/repository_control.h"
#include "serving/core/statistics.h"

namespace lagoon {

struct RemoteOptions {
  std::string address;  // host:port of the member's gRPC
  Nanoseconds poll_period = std::chrono::milliseconds(250);
  /// A member that does not answer a poll for so long is lost: its requests in flight are answered
  /// kUnavailable.
  Nanoseconds poll_timeout = std::chrono::seconds(2);
  // How long to wait before connecting again: the pause doubles with each try.
  Nanoseconds first_reconnect = std::chrono::milliseconds(100);
  Nanoseconds longest_reconnect = std::chrono::seconds(2);
  /// More requests in flight are refused with kUnavailable.
  std::size_t most_in_flight = 1024;
  /// A member of another version has a Problem(). Empty: every version is right.
  std::string version;
  /// The core has a repository: models are loaded and unloaded at the member.
  bool loads = false;
};

/// The core of another `lagoon serve`, its member, over gRPC. What a member says about itself
/// (Ready, Models, ModelReady) is as old as the last poll. Metadata and Config ask the member once
/// for each model, and block at most RemoteOptions::poll_timeout. A member that did not answer is
/// not asked again for so long. Of the facets it may have a repository: the member's device is seen
/// and changed at the member.
///
/// Requests: the deadline and a cancellation are passed on. A lost connection answers kUnavailable;
/// it is connected again in the background. Statistics() counts the requests of this object, by
/// model and without a version; all of the member's time counts as compute_infer, and
/// inference_count counts requests, because their rows are not known here.
class RemoteCore final : public Inference, public FleetLink, private RepositoryControl {
 public:
  /// Returns at once, and is not ready until the first poll is answered. `queue` is borrowed.
  RemoteCore(RemoteQueue& queue, const RemoteOptions& options);
  /// Cancels the requests in flight and waits for their answers. Not on a thread of the queue.
  ~RemoteCore() override;

  bool Ready() const override;
  std::vector<ModelStatus> Models() const override;
  Status ModelReady(const std::string& model, const std::string& version) const override;
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override;
  Result<inference::ModelConfig> Config(const std::string& model,
                                        const std::string& version) const override;
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const override;
  RequestHandle Infer(InferRequest request, InferCallback callback) override {
    return Send(request, [callback = std::move(callback)](Result<InferResponse> result, bool) {
      callback(std::move(result));
    });
  }
  RequestHandle Send(const InferRequest& request, SentCallback callback) override;
  void Cancel(RequestHandle handle) override;
  void Drain(TimePoint until) override;

  const std::string& address() const { return options_.address; }
  /// The requests for `model` that this object has in flight, and those of others that waited at
  /// the member at the last poll.
  std::uint64_t QueueOf(const std::string& model) const override;
  bool Serves(const std::string& model, const std::string& version) const override;
  std::string Problem() const override;
  RepositoryControl* repository() override { return options_.loads ? this : nullptr; }
  /// All requests of this object in flight.
  std::size_t InFlight() const;

 private:
  class Call;
  class Change;
  struct Counts {
    StatisticsRecorder recorder;
    std::uint64_t in_flight = 0;  // under mutex_
  };
  using Key = std::pair<std::string, std::string>;  // model, version

  /// An error when the member cannot take requests.
  Status Admit() const REQUIRES(mutex_);
  bool Has(const std::string& model, const std::string& version) const REQUIRES(mutex_);
  /// Problem() of a member of another version; else empty.
  std::string OtherVersion() const REQUIRES(mutex_);
  bool Busy() const REQUIRES(mutex_) { return calls_.size() + changes_.size() + answering_ > 0; }
  /// An error while the member would only make the caller wait.
  Status MayAsk() const REQUIRES(mutex_);
  tl::unexpected<Error> NotAnswered(const grpc::Status& status) const;
  void Reported(Result<MemberReport> report);
  void Lose(const Error& error) REQUIRES(mutex_);
  void Forget() REQUIRES(mutex_);
  /// A call leaves `calls_`; its answer follows, and then Answered().
  void Remove(std::uint64_t handle, Counts& counts) REQUIRES(mutex_);
  void Answered();

  /// kUnimplemented if `with` is not empty.
  void LoadModel(const std::string& model, LoadOverride with,
                 std::function<void(Status)> done) override;
  void UnloadModel(const std::string& model, std::function<void(Status)> done) override;
  void Begin(std::unique_ptr<Change> change);
  /// The change is made: what the member has, until a poll that began later says so.
  void Note(const std::string& model, bool loaded) REQUIRES(mutex_);
  void ApplyChanges(TimePoint asked) REQUIRES(mutex_);

  const RemoteOptions options_;
  const std::string member_;  // for messages
  RemoteQueue& queue_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  grpc::GenericStub infer_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool draining_ GUARDED_BY(mutex_) = false;
  bool connected_ GUARDED_BY(mutex_) = false;  // the last poll was answered
  MemberReport report_ GUARDED_BY(mutex_);     // of the last poll that was answered
  std::uint64_t last_handle_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint64_t, Call*> calls_ GUARDED_BY(mutex_);
  std::size_t answering_ GUARDED_BY(mutex_) = 0;  // calls whose callbacks run
  std::unordered_set<Change*> changes_ GUARDED_BY(mutex_);
  struct Made {
    bool loaded = false;
    TimePoint at{};
  };
  std::map<std::string, Made> made_ GUARDED_BY(mutex_);  // by model, that no poll has told yet
  // Of each model that has had a request; entries stay.
  std::map<std::string, Counts> counts_ GUARDED_BY(mutex_);
  // Requests of others for each model, at the last poll.
  std::unordered_map<std::string, std::uint64_t> others_ GUARDED_BY(mutex_);
  // What the member has answered. Dropped when the member is lost: another may take its place.
  mutable std::map<Key, ModelMetadata> metadata_ GUARDED_BY(mutex_);
  mutable std::map<Key, inference::ModelConfig> configs_ GUARDED_BY(mutex_);
  // The member is not asked for more before this time, because it did not answer the last time.
  mutable TimePoint ask_again_ GUARDED_BY(mutex_);

  std::unique_ptr<RemotePoll> poll_;  // last: it ends before what its callback uses
};

}  // namespace lagoon
