#include "server/remote/remote_core.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "server/remote/remote_call.h"
#include "server/remote/remote_change.h"
#include "server/remote/remote_codec.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {
namespace {

// Answers of a model are bounded by the member, not here.
constexpr int kNoLimit = -1;

int Milliseconds(Nanoseconds duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

// A channel with connections of its own: gRPC shares connections between channels of equal
// arguments otherwise.
std::shared_ptr<grpc::Channel> Connect(const RemoteOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Milliseconds(options.first_reconnect));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(options.poll_timeout));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(options.longest_reconnect));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kNoLimit);
  arguments.SetMaxSendMessageSize(kNoLimit);
  return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

RemoteCore::RemoteCore(RemoteQueue& queue, const RemoteOptions& options)
    : options_(options),
      member_("member " + options.address),
      queue_(queue),
      channel_(Connect(options)),
      stub_(inference::GRPCInferenceService::NewStub(channel_)),
      infer_(channel_) {
  poll_ = std::make_unique<RemotePoll>(
      Connect(options), queue, RemotePoll::Options{options.poll_period, options.poll_timeout},
      [this](Result<MemberReport> report) { Reported(std::move(report)); });
}

RemoteCore::~RemoteCore() {
  poll_.reset();
  Drain(Now());
}

void RemoteCore::Reported(Result<MemberReport> report) {
  MutexLock lock(mutex_);
  if (!report) return Lose(report.error());
  if (!connected_) {
    spdlog::info("{}: connected", member_);
    // The channel of the requests connects at once too, and not after a pause of its own.
    grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
    channel_->GetState(/*try_to_connect=*/true);
  }
  connected_ = true;
  const auto same = [](const ModelStatistics& a, const ModelStatistics& b) {
    return a.name == b.name && a.version == b.version;
  };
  if (!std::ranges::equal(report_.models, report->models, same)) Forget();
  report_ = *std::move(report);
  ApplyChanges(report_.asked);
  others_.clear();
  for (const ModelStatistics& model : report_.models) {
    const auto own = counts_.find(model.name);
    const std::uint64_t of_this = own == counts_.end() ? 0 : own->second.in_flight;
    if (model.pending > of_this) others_[model.name] += model.pending - of_this;
  }
}

void RemoteCore::Lose(const Error& error) {
  if (connected_) spdlog::warn("{}: lost: {}", member_, error.message);
  connected_ = false;
  report_ = {};
  others_.clear();
  made_.clear();
  Forget();
  for (const auto& [handle, call] : calls_) call->Lose();
  for (Change* const change : changes_) change->Cancel();
}

void RemoteCore::Forget() {
  metadata_.clear();
  configs_.clear();
  ask_again_ = {};
}

void RemoteCore::Remove(std::uint64_t handle, Counts& counts) {
  calls_.erase(handle);
  ++answering_;
  --counts.in_flight;
}

void RemoteCore::Answered() {
  MutexLock lock(mutex_);
  --answering_;
  changed_.NotifyAll();  // under the lock: afterwards this object may be gone
}

bool RemoteCore::Ready() const {
  MutexLock lock(mutex_);
  return static_cast<bool>(Admit());
}

std::string RemoteCore::Problem() const {
  MutexLock lock(mutex_);
  return OtherVersion();
}

std::string RemoteCore::OtherVersion() const {
  if (!connected_ || options_.version.empty() || report_.version == options_.version) return "";
  return fmt::format("it has version {} of Lagoon, and this server {}: install the same there",
                     Quoted(report_.version), Quoted(options_.version));
}

std::vector<ModelStatus> RemoteCore::Models() const {
  MutexLock lock(mutex_);
  std::vector<ModelStatus> models;
  for (const ModelStatistics& model : report_.models) {
    ModelStatus& status = models.emplace_back();
    status.name = model.name;
    status.version = model.version;
    status.state = ModelState::kReady;
    // The mean of what ran there, as the time of a row alone is not told.
    const StageStatistics& infer = model.compute_infer;
    if (infer.count > 0) {
      status.standalone = Nanoseconds(static_cast<std::int64_t>(infer.ns / infer.count));
    }
  }
  return models;
}

Status RemoteCore::ModelReady(const std::string& model, const std::string& version) const {
  MutexLock lock(mutex_);
  LAGOON_RETURN_IF_ERROR(Admit());
  if (Has(model, version)) return {};
  return Fail(ErrorCode::kNotFound, fmt::format("model {}, version {}: not at {}", Quoted(model),
                                                Quoted(version), member_));
}

bool RemoteCore::Has(const std::string& model, const std::string& version) const {
  for (const ModelStatistics& row : report_.models) {
    if (row.name == model && (version.empty() || row.version == version)) return true;
  }
  return false;
}

bool RemoteCore::Serves(const std::string& model, const std::string& version) const {
  MutexLock lock(mutex_);
  return Admit() && Has(model, version);
}

Status RemoteCore::Admit() const {
  if (draining_) return Fail(ErrorCode::kUnavailable, member_ + ": no new requests: draining");
  if (!connected_) return Fail(ErrorCode::kUnavailable, member_ + ": not connected");
  if (!report_.ready) {
    return Fail(ErrorCode::kUnavailable, member_ + ": not ready: it loads models or drains");
  }
  if (std::string other = OtherVersion(); !other.empty()) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", member_, other));
  }
  return {};
}

Status RemoteCore::MayAsk() const {
  if (connected_ && Now() >= ask_again_) return {};
  return Fail(ErrorCode::kUnavailable, member_ + ": does not answer");
}

tl::unexpected<Error> RemoteCore::NotAnswered(const grpc::Status& status) const {
  Error error = ErrorOf(status, member_);
  if (error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kDeadlineExceeded) {
    MutexLock lock(mutex_);
    ask_again_ = Now() + options_.poll_timeout;
  }
  return tl::unexpected<Error>(std::move(error));
}

Result<ModelMetadata> RemoteCore::Metadata(const std::string& model,
                                           const std::string& version) const {
  {
    MutexLock lock(mutex_);
    const auto known = metadata_.find({model, version});
    if (known != metadata_.end()) return known->second;
    LAGOON_RETURN_IF_ERROR(MayAsk());
  }
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(options_.poll_timeout));
  inference::ModelMetadataRequest request;
  request.set_name(model);
  request.set_version(version);
  inference::ModelMetadataResponse response;
  const grpc::Status status = stub_->ModelMetadata(&context, request, &response);
  if (!status.ok()) return NotAnswered(status);
  LAGOON_ASSIGN_OR_RETURN(ModelMetadata metadata, ParseMetadata(response));
  LAGOON_ASSIGN_OR_RETURN(const inference::ModelConfig config, Config(model, version));
  metadata.max_batch = config.max_batch_size();
  MutexLock lock(mutex_);
  if (connected_) metadata_[{model, version}] = metadata;
  return metadata;
}

Result<inference::ModelConfig> RemoteCore::Config(const std::string& model,
                                                  const std::string& version) const {
  {
    MutexLock lock(mutex_);
    const auto known = configs_.find({model, version});
    if (known != configs_.end()) return known->second;
    LAGOON_RETURN_IF_ERROR(MayAsk());
  }
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(options_.poll_timeout));
  inference::ModelConfigRequest request;
  request.set_name(model);
  request.set_version(version);
  inference::ModelConfigResponse response;
  const grpc::Status status = stub_->ModelConfig(&context, request, &response);
  if (!status.ok()) return NotAnswered(status);
  MutexLock lock(mutex_);
  if (connected_) configs_[{model, version}] = response.config();
  return response.config();
}

Result<std::vector<ModelStatistics>> RemoteCore::Statistics(const std::string& model,
                                                            const std::string& version) const {
  std::vector<ModelStatistics> rows;
  if (!version.empty()) return rows;  // counts are of all versions
  MutexLock lock(mutex_);
  for (const auto& [name, counts] : counts_) {
    if (!model.empty() && name != model) continue;
    ModelStatistics& row = rows.emplace_back();
    counts.recorder.Read(row);
    row.name = name;
    row.batches.clear();  // the member knows its batches
    row.pending = counts.in_flight;
  }
  return rows;
}

RequestHandle RemoteCore::Send(const InferRequest& request, SentCallback callback) {
  Nanoseconds left{0};
  if (request.timeout > Nanoseconds::zero()) {
    left = request.arrival + request.timeout - Now();
    if (left <= Nanoseconds::zero()) {
      callback(Fail(ErrorCode::kDeadlineExceeded,
                    fmt::format("model {}: the deadline passed before the request was sent to {}",
                                Quoted(request.model), member_)),
               /*lost=*/false);
      return RequestHandle{};
    }
  }
  auto call = std::make_unique<Call>(*this, request, std::move(callback), left);
  Status admitted;
  RequestHandle handle{};
  {
    MutexLock lock(mutex_);
    admitted = Admit();
    if (admitted && calls_.size() >= options_.most_in_flight) {
      admitted =
          Fail(ErrorCode::kUnavailable, fmt::format("{}: {} requests are in flight, the limit",
                                                    member_, options_.most_in_flight));
    }
    if (admitted) {
      handle = RequestHandle{++last_handle_};
      calls_.emplace(last_handle_, call.get());
      Counts& counts = counts_[request.model];
      ++counts.in_flight;
      call.release()->Start(last_handle_, counts);  // deletes itself when it is done
    }
  }
  if (!admitted) call->Refuse(std::move(admitted).error());
  return handle;
}

void RemoteCore::Cancel(RequestHandle handle) {
  MutexLock lock(mutex_);
  const auto call = calls_.find(static_cast<std::uint64_t>(handle));
  if (call != calls_.end()) call->second->Cancel();
}

void RemoteCore::Drain(TimePoint until) {
  MutexLock lock(mutex_);
  draining_ = true;
  while (Busy() && Now() < until) changed_.WaitUntil(mutex_, until);
  for (const auto& [handle, call] : calls_) call->CutOff();
  for (Change* const change : changes_) change->Cancel();
  while (Busy()) changed_.Wait(mutex_);
}

std::uint64_t RemoteCore::QueueOf(const std::string& model) const {
  MutexLock lock(mutex_);
  const auto own = counts_.find(model);
  const auto others = others_.find(model);
  return (own == counts_.end() ? 0 : own->second.in_flight) +
         (others == others_.end() ? 0 : others->second);
}

std::size_t RemoteCore::InFlight() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

}  // namespace lagoon
