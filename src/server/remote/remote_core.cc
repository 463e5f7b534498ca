#include "server/remote/remote_core.h"

#include <fmt/format.h>
#include <grpcpp/create_channel.h>

#include <algorithm>

#include "base/log.h"
#include "base/net/host_port.h"
#include "base/text.h"
#include "server/http/http_message.h"
#include "server/remote/remote_call.h"
#include "server/remote/remote_change.h"
#include "server/remote/remote_codec.h"
#include "server/remote/remote_lesson.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {
namespace {

// Statistics of thousands of models are longer than gRPC's default allows.
constexpr int kNoLimit = -1;
// Shares are read as often as a placer decides: at every fourth poll.
constexpr int kPollsOfShares = 4;

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
  return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
}

std::shared_ptr<IoPool> MakeLinkPool() { return std::make_shared<IoPool>(1, "lagoon-link"); }

std::string HostOf(const std::string& address) {
  const auto parsed = ParseHostPort(address);
  return parsed ? parsed->host : address;
}

/// "member 10.0.0.7:8001", or with a name of its own "member 'a' at 10.0.0.7:8001".
std::string MemberText(const RemoteOptions& options) {
  if (options.name.empty() || options.name == options.address) return "member " + options.address;
  return fmt::format("member {} at {}", Quoted(options.name), options.address);
}

}  // namespace

RemoteCore::RemoteCore(const RemoteOptions& options)
    : options_(options),
      member_(MemberText(options)),
      pool_(options.pool != nullptr ? options.pool : MakeLinkPool()),
      link_(HttpLink::Make(*pool_, {HostOf(options.address), options.poll_timeout,
                                    options.poll_timeout + kBeatPeriod})),
      talk_(Connect(options)),
      stub_(inference::GRPCInferenceService::NewStub(talk_)) {
  if (options.loads) {
    shares_ = std::make_unique<RemoteShares>(
        link_,
        RemoteShares::Options{member_, kPollsOfShares * options.poll_period, options.poll_timeout});
  }
  poll_ = std::make_unique<RemotePoll>(
      talk_, RemotePoll::Options{options.poll_period, options.poll_timeout},
      [this](Result<MemberReport> report) { Reported(std::move(report)); });
}

RemoteCore::~RemoteCore() {
  poll_.reset();
  Drain(Now());
  shares_.reset();
  link_->Close();
}

void RemoteCore::Reported(Result<MemberReport> report) {
  MutexLock lock(mutex_);
  if (!report) {
    unconnected_.reset();
    return Lose(report.error());
  }
  if (options_.http_port != 0) report->http_port = options_.http_port;
  link_->SetTarget({report->http_port, report->server});
  if (const Status connected = CheckConnection(report->http_port); !connected)
    return Lose(connected.error());
  if (!connected_) spdlog::info("{}: connected", member_);
  connected_ = true;
  silence_.clear();
  const bool is_other = !report_.server.empty() && report_.server != report->server;
  const bool has_loaded = !report_.sign.empty() && report_.sign != report->sign;
  if (is_other) {
    spdlog::info("{}: another server answers there now", member_);
    subjects_.clear();
    made_.clear();
    if (shares_ != nullptr) shares_->Forget();
  }
  report_ = *std::move(report);
  refusal_ = Refusal();
  DropOddRows(report_.models);
  ApplyChanges(report_.asked);
  TakeSubjects();
  if (has_loaded) AskAgain();
  if (shares_ != nullptr && Admit()) shares_->Ask();
  others_.clear();
  for (const ModelStatistics& model : report_.models) others_[model.name] += model.pending;
  for (auto& [model, pending] : others_) pending -= std::min(pending, OwnOf(model));
  LearnNext();
}

Status RemoteCore::CheckConnection(std::uint16_t port) {
  link_->Prepare();
  if (link_->Connected() || port == 0) {  // without a port it is refused
    unconnected_.reset();
    return {};
  }
  const TimePoint now = Now();
  if (!unconnected_) unconnected_ = now;
  if (now - *unconnected_ <= options_.poll_timeout) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("it answers, but no connection for requests to {} has come about for {} "
                          "ms: {}",
                          link_->Text(), Milliseconds(now - *unconnected_), link_->WhyNot()));
}

void RemoteCore::Lose(const Error& error) {
  if (connected_ || silence_.empty()) {
    spdlog::warn("{}: {}: {}", member_, connected_ ? "lost" : "not there", error.message);
  }
  connected_ = false;
  silence_ = error.message;
  report_ = {};
  refusal_.clear();
  others_.clear();
  made_.clear();
  subjects_.clear();
  if (shares_ != nullptr) shares_->Forget();
  for (Lesson* const lesson : lessons_) lesson->Cancel();
  for (const auto& [handle, call] : calls_) call->Lose();
  for (Change* const change : changes_) change->Cancel();
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
  return refusal_;
}

std::string RemoteCore::Absence() const {
  MutexLock lock(mutex_);
  if (connected_) return report_.ready ? "" : "it is not ready: it loads models or drains";
  return silence_.empty() ? "it has not answered yet" : silence_;
}

std::string RemoteCore::Server() const {
  MutexLock lock(mutex_);
  return report_.server;
}

std::vector<std::string> RemoteCore::Fronts() const {
  MutexLock lock(mutex_);
  return refusal_.empty() ? report_.fronts : std::vector<std::string>();
}

std::optional<SharesReport> RemoteCore::Shares() const {
  return shares_ == nullptr ? std::nullopt : shares_->Report();
}

void RemoteCore::ResizeShare(const std::string& model, const std::string& version,
                             const ShareWanted& wanted) {
  if (shares_ != nullptr) shares_->Resize(model, version, wanted);
}

bool RemoteCore::Resizing() const { return shares_ != nullptr && shares_->Resizing(); }

/// Why the member gets no requests, whatever it serves.
std::string RemoteCore::Refusal() const {
  std::string refusal = LeadsBack();
  if (refusal.empty()) refusal = OtherVersion();
  if (!refusal.empty() || report_.http_port != 0) return refusal;
  return "it does not tell its HTTP port, to which requests go: install this server's version of "
         "Lagoon there";
}

std::string RemoteCore::LeadsBack() const {
  if (options_.front.empty()) return "";
  if (report_.server == options_.front) {
    return fmt::format("{} is this server itself, {}: a fleet cannot be its own member",
                       options_.address, options_.front);
  }
  if (std::ranges::count(report_.fronts, options_.front) == 0) return "";
  return fmt::format(
      "requests would go round in circles: this server, {}, is in the fleet of the member, {}, or "
      "of a member of that fleet: let it leave there",
      options_.front, report_.server);
}

std::string RemoteCore::OtherVersion() const {
  if (options_.version.empty() || report_.version == options_.version) return "";
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
    const auto known = Known(model.name, model.version);
    status.state = known ? ModelState::kReady : ModelState::kUnavailable;
    if (known) {
      status.told = (*known)->told;
      status.job_class = (*known)->job_class;
    } else {
      status.reason = known.error().message;
    }
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
  const auto known = Known(model, version);
  if (!known) return tl::unexpected<Error>(known.error());
  return {};
}

bool RemoteCore::Serves(const std::string& model, const std::string& version) const {
  MutexLock lock(mutex_);
  if (!Admit()) return false;
  const Question* const question = QuestionOf(model, version);
  return question != nullptr && question->learned != nullptr && !question->learned->decoupled;
}

bool RemoteCore::Asked() const {
  MutexLock lock(mutex_);
  if (!connected_) return !silence_.empty();
  return !refusal_.empty() || std::ranges::all_of(subjects_, [](const auto& subject) {
    return std::ranges::all_of(subject.second.questions, [](const auto& question) {
      return question.second.learned != nullptr || !question.second.error.empty();
    });
  });
}

std::string RemoteCore::Latest(const std::string& model) const {
  MutexLock lock(mutex_);
  const auto subject = subjects_.find(model);
  if (subject == subjects_.end() || subject->second.versions.empty()) return {};
  return subject->second.versions.back();
}

Status RemoteCore::Admit() const {
  if (draining_) return Fail(ErrorCode::kUnavailable, member_ + ": no new requests: draining");
  if (!connected_) return Fail(ErrorCode::kUnavailable, member_ + ": not connected");
  if (!report_.ready) {
    return Fail(ErrorCode::kUnavailable, member_ + ": not ready: it loads models or drains");
  }
  if (!refusal_.empty()) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", member_, refusal_));
  }
  return {};
}

Result<std::vector<ModelStatistics>> RemoteCore::Statistics(const std::string& model,
                                                            const std::string& version) const {
  std::vector<ModelStatistics> rows;
  const auto wanted = [&](const std::string& name, const std::string& of) {
    return (model.empty() || name == model) && (version.empty() || of == version);
  };
  MutexLock lock(mutex_);
  const auto add = [&](const std::string& name, const std::string& of)
                       REQUIRES(mutex_) -> ModelStatistics& {
    ModelStatistics& row = rows.emplace_back();
    row.name = name;
    row.version = of;
    if (const auto known = Known(name, of)) row.job_class = (*known)->job_class;
    return row;
  };
  for (const auto& [key, counts] : counts_) {
    if (!wanted(key.first, key.second)) continue;
    ModelStatistics& row = add(key.first, key.second);
    counts->recorder.Read(row);
    row.batches.clear();  // the member knows its batches
    row.pending = counts->in_flight;
  }
  if (!Admit()) return rows;
  for (const ModelStatistics& told : report_.models) {
    if (counts_.contains({told.name, told.version}) || !wanted(told.name, told.version)) continue;
    add(told.name, told.version);  // it has had no request
  }
  return rows;
}

std::size_t RemoteCore::RowsOf(const InferRequest& request) const {
  const Question* const question = QuestionOf(request.model, request.version);
  const bool batched = question != nullptr && question->learned != nullptr &&
                       question->learned->metadata.max_batch > 0;
  if (!batched || request.inputs.empty() || request.inputs.front().dims.empty()) return 1;
  return static_cast<std::size_t>(std::max<std::int64_t>(request.inputs.front().dims[0], 1));
}

/// The counts of the version that is asked for, or of the latest one.
const std::shared_ptr<RemoteCore::Counts>& RemoteCore::CountsOf(const InferRequest& request) {
  std::string version;
  if (const auto subject = subjects_.find(request.model); subject != subjects_.end()) {
    const std::vector<std::string>& versions = subject->second.versions;
    if (!versions.empty()) version = versions.back();
    if (std::ranges::count(versions, request.version) > 0) version = request.version;
  }
  std::shared_ptr<Counts>& counts = counts_[{request.model, std::move(version)}];
  if (counts == nullptr) counts = std::make_shared<Counts>();
  return counts;
}

/// The requests for the model that this object has in flight.
std::uint64_t RemoteCore::OwnOf(const std::string& model) const {
  std::uint64_t own = 0;
  for (auto at = counts_.lower_bound({model, ""}); at != counts_.end(); ++at) {
    if (at->first.first != model) break;
    own += at->second->in_flight;
  }
  return own;
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
  Status registered;
  RequestHandle handle{};
  {
    MutexLock lock(mutex_);
    registered = Register(request, *call);
    handle = RequestHandle{last_handle_};
  }
  if (!registered) {
    call->Refuse(std::move(registered).error());
    return {};
  }
  // It deletes itself when it is done. Without the lock: the system may copy many bytes.
  link_->Send(*call.release());
  return handle;
}

Status RemoteCore::Register(const InferRequest& request, Call& call) {
  LAGOON_RETURN_IF_ERROR(Admit());
  if (!IsModelName(request.model) || !(request.version.empty() || IsVersion(request.version))) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("model {}, version {}: no model can have this name",
                            Quoted(request.model), Quoted(request.version)));
  }
  const auto known = Known(request.model, request.version);
  if (!known && known.error().code == ErrorCode::kUnimplemented) {
    return tl::unexpected<Error>(known.error());
  }
  const JobClass of_model = known ? (*known)->job_class : JobClass::kBestEffort;
  const bool urgent = ClassOf(of_model, request.priority) == JobClass::kRealTime;
  const std::size_t most = options_.most_in_flight - (urgent ? 0 : options_.most_in_flight / 4);
  if (calls_.size() >= most) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: {} requests are in flight, the limit of {} ones", member_, most,
                            Name(urgent ? JobClass::kRealTime : JobClass::kBestEffort)));
  }
  calls_.emplace(++last_handle_, &call);
  std::shared_ptr<Counts> counts = CountsOf(request);
  ++counts->in_flight;
  call.Register(last_handle_, std::move(counts), RowsOf(request), urgent);
  return {};
}

void RemoteCore::Cancel(RequestHandle handle) {
  MutexLock lock(mutex_);
  const auto call = calls_.find(static_cast<std::uint64_t>(handle));
  if (call != calls_.end()) call->second->Cancel();
}

void RemoteCore::Drain(TimePoint until) {
  if (shares_ != nullptr) shares_->Await(until);
  MutexLock lock(mutex_);
  draining_ = true;
  for (Lesson* const lesson : lessons_) lesson->Cancel();
  while (Busy() && Now() < until) changed_.WaitUntil(mutex_, until);
  for (const auto& [handle, call] : calls_) call->CutOff();
  for (Change* const change : changes_) change->Cancel();
  while (Busy()) changed_.Wait(mutex_);
}

std::uint64_t RemoteCore::QueueOf(const std::string& model) const {
  MutexLock lock(mutex_);
  const auto others = others_.find(model);
  return OwnOf(model) + (others == others_.end() ? 0 : others->second);
}

std::size_t RemoteCore::InFlight() const {
  MutexLock lock(mutex_);
  return calls_.size();
}

}  // namespace lagoon
