#include "server/remote/remote_call.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/text.h"
#include "server/grpc/grpc_codec.h"
#include "server/io_pool.h"
#include "server/remote/remote_codec.h"
#include "server/telemetry/traceparent.h"

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
      version_(request.version),
      id_(request.id),
      outputs_(request.outputs),
      forms_(request.forms),
      form_(request.form),
      callback_(std::move(callback)),
      request_(RequestBytes(request, left, owner.options_.front)),
      arrival_(request.arrival),
      deadline_(left > Nanoseconds::zero() ? request.arrival + request.timeout : kNoDeadline),
      sent_(Now()) {
  for (std::size_t i = 0; i < std::min(request.classes.size(), request.outputs.size()); ++i) {
    if (request.classes[i] != 0) classified_.push_back(request.outputs[i]);
  }
  // The polls say that the member is there. A call that comes before the connection of its channel
  // waits for the connection, until the polls say that the member is lost.
  context_.set_wait_for_ready(true);
  if (request.trace.any()) {
    context_.AddMetadata(std::string(kTraceparent), FormatTraceparent(request.trace));
  }
  if (left > Nanoseconds::zero()) context_.set_deadline(DeadlineIn(left + kGrace));
}

void RemoteCore::Call::Start(std::uint64_t handle, std::shared_ptr<Counts> counts,
                             std::size_t rows) {
  handle_ = handle;
  rows_ = rows;
  counts_ = std::move(counts);
  owner_.infer_.UnaryCall(&context_, kMethod, {}, &request_, &answer_,
                          [this](grpc::Status status) { Done(std::move(status)); });
}

void RemoteCore::Call::Refuse(Error error) {
  request_.Clear();
  callback_(tl::unexpected<Error>(std::move(error)), /*lost=*/false);
}

void RemoteCore::Call::Done(grpc::Status status) {
  status_ = std::move(status);
  Result<InferResponse> answer = Answer();
  bool cancelled = false;
  bool had_connection = false;
  {
    MutexLock lock(owner_.mutex_);
    cancelled = cancelled_;
    had_connection = had_connection_;
    if (status_.error_code() == grpc::StatusCode::CANCELLED) {
      answer = tl::unexpected<Error>(Cancelled(cancelled_, lost_));
    } else if (answer) {
      Status told = owner_.CheckTold(*answer, version_, outputs_, classified_);
      if (!told) answer = Annotate(owner_.member_, std::move(told).error());
    }
    owner_.Remove(handle_, *counts_);
  }
  request_.Clear();  // the callback's owner may use the payload again
  if (answer) {
    counts_->recorder.RecordFinished(answer->job, {arrival_, deadline_, rows_, std::nullopt});
  } else {
    counts_->recorder.RecordRefused(answer.error().code, Now() - arrival_);
  }
  {
    const LentThread lending;
    callback_(std::move(answer), EndedBefore(cancelled, had_connection));
  }
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

/// Why the call was ended early: here, or by the member.
Error RemoteCore::Call::Cancelled(bool cancelled, bool lost) const {
  const std::string model = fmt::format("model {}", Quoted(model_));
  if (cut_off_) return {ErrorCode::kUnavailable, model + ": the server is shutting down"};
  if (cancelled) {
    return {ErrorCode::kCancelled, fmt::format("{}: request cancelled", model)};
  }
  return {ErrorCode::kUnavailable, fmt::format("{}: {} {} while the request was in flight", model,
                                               owner_.member_, lost ? "was lost" : "stopped")};
}

Result<InferResponse> RemoteCore::Call::Answer() {
  if (!status_.ok()) return tl::unexpected<Error>(ErrorOf(status_, owner_.member_));
  Result<InferResponse> response = ParseAnswer(answer_);
  if (!response) return Annotate(owner_.member_, std::move(response).error());
  if (Status checked = CheckAnswer(*response, {model_, version_, id_, outputs_}); !checked) {
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
