#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/remote/http_link.h"
#include "server/remote/remote_poll.h"
#include "server/remote/remote_shares.h"
#include "serving/core/fleet_member.h"
#include "serving/core/inference.h"
#include "serving/core/repository_control.h"
#include "serving/core/statistics.h"

namespace lagoon {

struct RemoteOptions {
  std::string address;  // host:port of the member's gRPC
  std::string name;     // of the member in its fleet; empty: its address
  /// The id of the server that sends to the member. Empty: it has none, and a member may lead back.
  std::string front;
  Nanoseconds poll_period = std::chrono::milliseconds(250);
  /// A member that does not answer a poll for so long is lost: its requests in flight are answered
  /// kUnavailable.
  Nanoseconds poll_timeout = std::chrono::seconds(2);
  /// The port of the member's HTTP, where another one leads there than the member tells. 0: none
  /// does.
  std::uint16_t http_port = 0;
  /// The threads of the connections for requests. Null: the object has threads of its own.
  std::shared_ptr<IoPool> pool;
  // How long to wait before connecting again: the pause doubles with each try.
  Nanoseconds first_reconnect = std::chrono::milliseconds(100);
  Nanoseconds longest_reconnect = std::chrono::seconds(2);
  /// More requests in flight are refused with kUnavailable; a quarter is for real-time requests.
  std::size_t most_in_flight = 1024;
  /// A member of another version has a Problem(). Empty: every version is right.
  std::string version;
  /// The core has a repository: models are loaded and unloaded at the member, and shares are read
  /// and set there.
  bool loads = false;
};

/// The core of another `lagoon serve`, its member: requests for inference go to its HTTP port
/// (HttpLink), all else over gRPC. What a member says about itself
/// (Ready, Models, ModelReady) is as old as the last poll. Metadata and Config are asked for in the
/// background (Lesson) when the member has a model, once for each; a model serves when they are
/// there. They are asked for again when the member says that it has loaded a model, and what it has
/// said is dropped when another server answers in its place. A member that did not answer is asked
/// again after RemoteOptions::poll_timeout. No method but Drain() blocks. Answers come on the
/// threads that receive them, so that a request waits for no other thread. Of the facets it
/// may have a repository: the member's device is seen and changed at the member, but for the shares
/// that a placer decides (FleetLink). A model is loaded when the resizes before have ended.
///
/// A decoupled model does not serve through this object: kUnimplemented.
///
/// A model that no server may have by its name (IsModelName) is ignored, and so are more than
/// kMostModels.
///
/// Requests: the deadline and a cancellation are passed on. A lost connection answers kUnavailable;
/// it is connected again in the background. An answer that is not as the member has told of its
/// model is kInternal; one of a version that the member has not told of is kUnavailable, as the
/// member may have just loaded it. Statistics() counts the requests of this object, by model and
/// version: that which was asked for, or the latest. All of the member's time counts as
/// compute_infer.
class RemoteCore final : public Inference, public FleetLink, private RepositoryControl {
 public:
  static constexpr std::size_t kMostModels = 4096;

  /// Returns at once, and is not ready until the first poll is answered.
  explicit RemoteCore(const RemoteOptions& options);
  /// Cancels the requests in flight and waits for their answers. Not on a thread of gRPC or of the
  /// pool.
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
  bool Asked() const override;
  std::string Latest(const std::string& model) const override;
  std::string Problem() const override;
  std::string Absence() const override;
  std::string Server() const override;
  std::vector<std::string> Fronts() const override;
  std::optional<SharesReport> Shares() const override;
  void ResizeShare(const std::string& model, const std::string& version,
                   const ShareWanted& wanted) override;
  bool Resizing() const override;
  RepositoryControl* repository() override { return options_.loads ? this : nullptr; }
  /// All requests of this object in flight.
  std::size_t InFlight() const;

 private:
  class Call;
  class Change;
  class Lesson;
  struct Counts {
    StatisticsRecorder recorder;
    std::uint64_t in_flight = 0;  // under mutex_
  };
  using Key = std::pair<std::string, std::string>;  // model, version
  /// What the member has answered about a model.
  struct Learned {
    ModelMetadata metadata;
    inference::ModelConfig config;
    bool decoupled = false;  // it has any number of answers, and does not serve here
    JobClass job_class = JobClass::kBestEffort;
    std::uint64_t told = 0;  // ModelStatus::told
  };
  struct Question {
    std::shared_ptr<const Learned> learned;  // null: not yet
    bool open = true;                        // the member is to be asked, at ask_at
    TimePoint ask_at{};
    std::string error;   // of the last answer
    bool again = false;  // it is asked now, and was opened since
    // An answer of the model was not as `learned` has it, and the member is asked again.
    bool doubted = false;
    // The member has told the same again: such answers are wrong.
    bool confirmed = false;
  };
  /// A model that the member has.
  struct Subject {
    std::vector<std::string> versions;          // as the member tells them, ascending
    std::map<std::string, Question> questions;  // by the version that is asked for; "": the latest
  };

  /// An error when the member cannot take requests.
  Status Admit() const REQUIRES(mutex_);
  /// Problem() of a member of another version, or that leads back here; else empty.
  std::string OtherVersion() const REQUIRES(mutex_);
  std::string LeadsBack() const REQUIRES(mutex_);
  std::string Refusal() const REQUIRES(mutex_);
  bool Busy() const REQUIRES(mutex_) {
    return calls_.size() + changes_.size() + lessons_.size() + answering_ > 0;
  }
  void Reported(Result<MemberReport> report);
  /// An error: the member answers polls, but requests have had no connection for `poll_timeout`.
  Status CheckConnection(std::uint16_t port) REQUIRES(mutex_);
  void Lose(const Error& error) REQUIRES(mutex_);
  /// An error: the request cannot be sent.
  Status Register(const InferRequest& request, Call& call) REQUIRES(mutex_);
  /// Without rows that cannot be: the log names one.
  void DropOddRows(std::vector<ModelStatistics>& rows) REQUIRES(mutex_);
  /// The models are those of report_, and there is a question for each that is new.
  void TakeSubjects() REQUIRES(mutex_);
  /// Asks the question that has waited longest, if none is asked now.
  void LearnNext() REQUIRES(mutex_);
  void Learn(const Key& key, Result<Learned> learned) REQUIRES(mutex_);
  const Question* QuestionOf(const std::string& model, const std::string& version) const
      REQUIRES(mutex_);
  /// What the member is known to have said of the model. An error: nothing, and why, or the model
  /// is decoupled.
  Result<std::shared_ptr<const Learned>> Known(const std::string& model,
                                               const std::string& version) const REQUIRES(mutex_);
  /// Asks about all models again; what was told before holds until then.
  void AskAgain() REQUIRES(mutex_);
  /// An error: the answer is not of the model as the member has told of it, which is asked again.
  /// kUnavailable: the member may have loaded the model anew. kInternal: it has told the same
  /// again.
  Status CheckTold(const InferResponse& answer, const std::string& version,
                   std::span<const std::string> outputs, std::span<const std::string> classified)
      REQUIRES(mutex_);
  /// The rows of the request, as the member's model has batches or has none.
  std::size_t RowsOf(const InferRequest& request) const REQUIRES(mutex_);
  const std::shared_ptr<Counts>& CountsOf(const InferRequest& request) REQUIRES(mutex_);
  std::uint64_t OwnOf(const std::string& model) const REQUIRES(mutex_);
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
  const std::shared_ptr<IoPool> pool_;
  const std::shared_ptr<HttpLink> link_;  // of inference, on pool_
  // The channel of all else: the answers wait for no tensor.
  const std::shared_ptr<grpc::Channel> talk_;
  const std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;  // on talk_

  mutable Mutex mutex_;
  CondVar changed_;
  bool draining_ GUARDED_BY(mutex_) = false;
  bool connected_ GUARDED_BY(mutex_) = false;  // the last poll was answered
  std::string silence_ GUARDED_BY(mutex_);     // why it was not
  // Since when the member answers polls while link_ has no connection; empty: it has one.
  std::optional<TimePoint> unconnected_ GUARDED_BY(mutex_);
  MemberReport report_ GUARDED_BY(mutex_);  // of the last poll that was answered
  std::string refusal_ GUARDED_BY(mutex_);  // Refusal() at that poll
  std::uint64_t last_handle_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint64_t, Call*> calls_ GUARDED_BY(mutex_);
  std::size_t answering_ GUARDED_BY(mutex_) = 0;  // calls whose callbacks run
  std::unordered_set<Change*> changes_ GUARDED_BY(mutex_);
  struct Made {
    bool loaded = false;
    TimePoint at{};
  };
  std::map<std::string, Made> made_ GUARDED_BY(mutex_);  // by model, that no poll has told yet
  // For each model and version that has had a request. Those that the member has no more
  // go when there are many.
  std::map<Key, std::shared_ptr<Counts>> counts_ GUARDED_BY(mutex_);
  // Requests of others for each model, at the last poll.
  std::unordered_map<std::string, std::uint64_t> others_ GUARDED_BY(mutex_);
  // Dropped when the member is lost: another may take its place.
  std::map<std::string, Subject> subjects_ GUARDED_BY(mutex_);
  std::unordered_set<Lesson*> lessons_ GUARDED_BY(mutex_);
  bool learning_ GUARDED_BY(mutex_) = false;   // LearnNext() has a lesson under way
  std::uint64_t told_ GUARDED_BY(mutex_) = 0;  // lessons that the member has given
  std::string odd_ GUARDED_BY(mutex_);         // the last name of a model that the log has refused

  std::unique_ptr<RemoteShares> shares_;  // null without RemoteOptions::loads
  std::unique_ptr<RemotePoll> poll_;      // last: it ends before what its callback uses
};

}  // namespace lagoon
