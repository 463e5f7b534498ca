#include "server/remote/remote_call.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "server/grpc/grpc_codec.h"
#include "server/remote/remote_codec.h"

namespace lagoon {
namespace {

constexpr const char* kMethod = "/inference.GRPCInferenceService/ModelInfer";
// The member enforces the deadline, and its answer has the reason. gRPC ends the call so much later
// where no such answer comes.
constexpr std::chrono::milliseconds kGrace{100};

}  // namespace

std::chrono::system_clock::time_point DeadlineIn(Nanoseconds duration) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(duration);
}

RemoteCore::Call::Call(RemoteCore& owner, const InferRequest& request, SentCallback callback,
                       Nanoseconds left)
    : owner_(owner),
      model_(request.model),
      id_(request.id),
      outputs_(request.outputs),
      forms_(request.forms),
      form_(request.form),
      callback_(std::move(callback)),
      request_(RequestBytes(request, left)),
      arrival_(request.arrival),
      deadline_(left > Nanoseconds::zero() ? request.arrival + request.timeout : kNoDeadline),
      sent_(Now()) {
  // The polls say that the member is there. A call that comes before the connection of its channel
  // waits for the connection, until the polls say that the member is lost.
  context_.set_wait_for_ready(true);
  if (left > Nanoseconds::zero()) context_.set_deadline(DeadlineIn(left + kGrace));
}

void RemoteCore::Call::Start(std::uint64_t handle, Counts& counts) {
  handle_ = handle;
  counts_ = &counts;
  reader_ = owner_.infer_.PrepareUnaryCall(&context_, kMethod, request_, &owner_.queue_.queue());
  reader_->StartCall();
  reader_->Finish(&answer_, &status_, owner_.queue_.Tag(*this));
}

void RemoteCore::Call::Refuse(Error error) {
  request_.Clear();
  callback_(tl::unexpected<Error>(std::move(error)), /*lost=*/false);
}

void RemoteCore::Call::Done(bool /*ok*/) {
  bool cancelled = false;
  bool lost = false;
  bool had_connection = false;
  {
    MutexLock lock(owner_.mutex_);
    cancelled = cancelled_;
    lost = lost_;
    had_connection = had_connection_;
    owner_.Remove(handle_, *counts_);
  }
  request_.Clear();  // the callback's owner may use the payload again
  Result<InferResponse> answer = Answer(cancelled, lost);
  if (answer) {
    counts_->recorder.RecordFinished(answer->job, {arrival_, deadline_, /*rows=*/1, std::nullopt});
  } else {
    counts_->recorder.RecordRefused(answer.error().code, Now() - arrival_);
  }
  callback_(std::move(answer), EndedBefore(cancelled, had_connection));
  callback_ = nullptr;
  RemoteCore& owner = owner_;
  delete this;
  owner.Answered();
}

bool RemoteCore::Call::EndedBefore(bool cancelled, bool had_connection) const {
  const grpc::StatusCode code = status_.error_code();
  const bool stopped = code == grpc::StatusCode::CANCELLED && !cancelled;
  const bool gone = code == grpc::StatusCode::UNAVAILABLE &&
                    !context_.GetServerTrailingMetadata().contains(kAnsweredKey);
  return (stopped || gone) && (had_connection || HasConnection());
}

bool RemoteCore::Call::HasConnection() const {
  // The peer is an address if the call has got a connection; else it is the name of the channel.
  const std::string peer = context_.peer();
  return peer.starts_with("ipv4:") || peer.starts_with("ipv6:");
}

Result<InferResponse> RemoteCore::Call::Answer(bool cancelled, bool lost) {
  if (status_.error_code() == grpc::StatusCode::CANCELLED) {
    if (cut_off_) return Fail(ErrorCode::kUnavailable, "the server is shutting down");
    if (cancelled) return Fail(ErrorCode::kCancelled, "the request was cancelled");
    // The call was ended here because the member is lost, or there because it stops.
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {} while the request was in flight",
                                                     owner_.member_, lost ? "lost" : "stopped"));
  }
  if (!status_.ok()) return tl::unexpected<Error>(ErrorOf(status_, owner_.member_));
  Result<InferResponse> response = ParseAnswer(answer_);
  if (!response) return Annotate(owner_.member_, std::move(response).error());
  if (Status checked = CheckAnswer(*response, model_, id_, outputs_); !checked) {
    return Annotate(owner_.member_, std::move(checked).error());
  }
  LAGOON_RETURN_IF_ERROR(CheckForms(*response, outputs_, forms_, form_));
  JobResult& job = response->job;
  job.outcome = Outcome::kDone;
  job.posted = job.started = job.first_block = job.inputs_copied = sent_;
  job.computed = job.finished = Now();
  return response;
}

}  // namespace lagoon
