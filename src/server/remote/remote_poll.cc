#include "server/remote/remote_poll.h"

#include <fmt/format.h>
#include <grpcpp/channel.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>

#include "server/error_map.h"
#include "server/grpc/grpc_codec.h"
#include "server/remote/remote_codec.h"
#include "serving/core/server_id.h"

namespace lagoon {
namespace {

std::chrono::system_clock::time_point In(Nanoseconds duration) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(duration);
}

}  // namespace

RemotePoll::RemotePoll(std::shared_ptr<grpc::Channel> channel, const Options& options,
                       Callback callback)
    : stub_(inference::GRPCInferenceService::NewStub(std::move(channel))),
      options_(options),
      callback_(std::move(callback)) {
  MutexLock lock(mutex_);
  AskVersion();
}

RemotePoll::~RemotePoll() {
  MutexLock lock(mutex_);
  stopping_ = true;
  if (step_ == Step::kPause) {
    alarm_->Cancel();
  } else {
    context_->TryCancel();
  }
  while (!ended_) changed_.Wait(mutex_);
}

void RemotePoll::Done() {
  std::optional<Result<MemberReport>> outcome;
  {
    MutexLock lock(mutex_);
    if (!stopping_) outcome = Outcome();
  }
  // Without the lock: the callback may take a while. Nothing else is in progress meanwhile.
  const bool asked = outcome.has_value();
  if (asked) callback_(*std::move(outcome));
  MutexLock lock(mutex_);
  if (stopping_) {
    ended_ = true;
    changed_.NotifyAll();  // under the lock: afterwards this object may be gone
    return;
  }
  if (asked) return Pause();
  if (step_ == Step::kPause) return AskVersion();
  if (step_ == Step::kMetadata) return AskReady();
  AskStatistics();
}

std::optional<Result<MemberReport>> RemotePoll::Outcome() {
  if (step_ == Step::kPause) return std::nullopt;
  if (!status_.ok()) {
    return Fail(ErrorOf(status_, "").code,
                fmt::format("it does not answer: {}", CutMessage(status_.error_message())));
  }
  if (step_ == Step::kMetadata) TakeIds();
  if (step_ != Step::kStatistics) return std::nullopt;
  return MemberReport{ready_.ready(),
                      ParseStatistics(statistics_),
                      version_.version(),
                      server_,
                      fronts_,
                      sign_,
                      http_port_,
                      asked_};
}

void RemotePoll::TakeIds() {
  server_.clear();
  sign_.clear();
  http_port_ = 0;
  fronts_.clear();
  const auto& metadata = context_->GetServerTrailingMetadata();
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string_view()
                                   : std::string_view(found->second.data(), found->second.length());
  };
  if (IsServerId(text(kServerKey))) server_ = text(kServerKey);
  if (IsServerId(text(kModelsKey))) sign_ = text(kModelsKey);  // it has the same form
  const std::string_view port = text(kHttpPortKey);
  const char* const end = port.data() + port.size();
  if (std::from_chars(port.data(), end, http_port_).ptr != end) http_port_ = 0;
  for (std::string_view ids = text(kFrontsKey); fronts_.size() < kMostFronts;) {
    const std::string_view id = ids.substr(0, ids.find(','));
    if (!IsServerId(id)) break;
    fronts_.emplace_back(id);
    ids.remove_prefix(std::min(ids.size(), kServerIdBytes + 1));
  }
}

void RemotePoll::Pause() {
  step_ = Step::kPause;
  alarm_.emplace();
  alarm_->Set(In(options_.period), [this](bool) { Done(); });
}

std::function<void(grpc::Status)> RemotePoll::Ends() {
  return [this](grpc::Status status) {
    {
      MutexLock lock(mutex_);
      status_ = std::move(status);
    }
    Done();
  };
}

grpc::ClientContext& RemotePoll::Renew() {
  context_.emplace();
  context_->set_deadline(In(options_.timeout));
  return *context_;
}

void RemotePoll::AskVersion() {
  step_ = Step::kMetadata;
  version_.Clear();
  stub_->async()->ServerMetadata(&Renew(), &version_request_, &version_, Ends());
}

void RemotePoll::AskReady() {
  step_ = Step::kReady;
  ready_.Clear();
  stub_->async()->ServerReady(&Renew(), &ready_request_, &ready_, Ends());
}

void RemotePoll::AskStatistics() {
  step_ = Step::kStatistics;
  asked_ = Now();
  statistics_.Clear();
  stub_->async()->ModelStatistics(&Renew(), &statistics_request_, &statistics_, Ends());
}

}  // namespace lagoon
