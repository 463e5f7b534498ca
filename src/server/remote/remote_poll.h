#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "server/grpc/grpc_service.grpc.pb.h"
#include "serving/core/models.h"

namespace lagoon {

/// What a member said about itself.
struct MemberReport {
  bool ready = false;
  std::vector<ModelStatistics> models;  // the models that it has loaded
  std::string version;                  // of Lagoon there
  std::string server;                   // its id (server_id.h); empty: it has none
  std::vector<std::string> fronts;      // FleetControl::Fronts() of it
  std::string sign;                     // changes when it loads a model anew (kModelsKey)
  std::uint16_t http_port = 0;          // 0: it has not told of one
  TimePoint asked{};                    // when this object asked for `models`
};

/// Asks a member again and again how it is: first ServerMetadata, then ServerReady, then
/// ModelStatistics, then a pause.
class RemotePoll final {
 public:
  struct Options {
    Nanoseconds period{0};   // the pause
    Nanoseconds timeout{0};  // of each of the calls
  };
  /// Called on a thread of gRPC, once for each round. An error: the member did not answer.
  using Callback = std::function<void(Result<MemberReport>)>;

  /// Begins at once. `channel` should not be the one of inference: those requests would delay the
  /// answers.
  RemotePoll(std::shared_ptr<grpc::Channel> channel, const Options& options, Callback callback);
  /// Waits until the callback will not be called any more. Not on a thread of gRPC.
  ~RemotePoll();
  RemotePoll(const RemotePoll&) = delete;
  RemotePoll& operator=(const RemotePoll&) = delete;

 private:
  enum class Step : std::uint8_t { kPause, kMetadata, kReady, kStatistics };

  /// The end of the step that is under way.
  void Done();
  /// What gRPC calls at the end of a call.
  std::function<void(grpc::Status)> Ends();
  void Pause() REQUIRES(mutex_);
  void AskVersion() REQUIRES(mutex_);
  void AskReady() REQUIRES(mutex_);
  void AskStatistics() REQUIRES(mutex_);
  /// A context for the next call.
  grpc::ClientContext& Renew() REQUIRES(mutex_);
  /// Takes what the answer to ServerMetadata has beside its message.
  void TakeIds() REQUIRES(mutex_);
  /// The end of a round, if the step that is done was its last or has failed.
  std::optional<Result<MemberReport>> Outcome() REQUIRES(mutex_);

  const std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  const Options options_;
  const Callback callback_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  Step step_ GUARDED_BY(mutex_) = Step::kMetadata;
  TimePoint asked_ GUARDED_BY(mutex_){};   // for the statistics
  std::string server_ GUARDED_BY(mutex_);  // MemberReport has these four
  std::vector<std::string> fronts_ GUARDED_BY(mutex_);
  std::string sign_ GUARDED_BY(mutex_);
  std::uint16_t http_port_ GUARDED_BY(mutex_) = 0;
  std::optional<grpc::Alarm> alarm_ GUARDED_BY(mutex_);  // of the pause, one for each
  std::optional<grpc::ClientContext> context_ GUARDED_BY(mutex_);
  grpc::Status status_ GUARDED_BY(mutex_);
  const inference::ServerMetadataRequest version_request_;
  const inference::ServerReadyRequest ready_request_;
  const inference::ModelStatisticsRequest statistics_request_;
  inference::ServerMetadataResponse version_ GUARDED_BY(mutex_);
  inference::ServerReadyResponse ready_ GUARDED_BY(mutex_);
  inference::ModelStatisticsResponse statistics_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
