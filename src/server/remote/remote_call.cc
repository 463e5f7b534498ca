#include "server/remote/remote_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/guard.h"
#include "base/text.h"
#include "server/error_map.h"
#include "server/io_pool.h"
#include "server/remote/remote_codec.h"

namespace lagoon {
namespace {

// The member enforces the deadline, and its answer has the reason. The call ends so much later
// where no such answer comes.
constexpr std::chrono::milliseconds kGrace{100};
// Below this size a copy costs less than another piece of a system call.
constexpr std::size_t kLeastBorrowed = 4096;

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
      payload_(request.payload),
      arrival_(request.arrival),
      deadline_(left > Nanoseconds::zero() ? request.arrival + request.timeout : kNoDeadline),
      sent_(Now()) {
  for (std::size_t i = 0; i < std::min(request.classes.size(), request.outputs.size()); ++i) {
    if (request.classes[i] != 0) classified_.push_back(request.outputs[i]);
  }
  head_ = RequestHead(request, left, owner.options_.front);
  TakeTensors(request);
  if (left > Nanoseconds::zero()) ends_at_ = sent_ + left + kGrace;
}

void RemoteCore::Call::TakeTensors(const InferRequest& request) {
  for (const InputTensor& input : request.inputs) {
    const bool small = input.data.size() < kLeastBorrowed && tensors_.empty();
    if (small || payload_ == nullptr) {  // the bytes may go before the request ends
      head_.append(reinterpret_cast<const char*>(input.data.data()), input.data.size());
    } else {
      tensors_.push_back(input.data);
    }
  }
}

void RemoteCore::Call::Register(std::uint64_t handle, std::shared_ptr<Counts> counts,
                                std::size_t rows, bool urgent) {
  handle_ = handle;
  rows_ = rows;
  urgent_ = urgent;
  counts_ = std::move(counts);
}

void RemoteCore::Call::Refuse(Error error) {
  payload_.reset();
  callback_(tl::unexpected<Error>(std::move(error)), /*lost=*/false);
}

void RemoteCore::Call::OnEnd(LinkEnd end) {
  Result<InferResponse> answer = WithoutExceptions([&] { return Answer(end); });
  bool lost = false;
  {
    MutexLock lock(owner_.mutex_);
    const bool answered = end.kind == LinkEnd::Kind::kAnswered;
    // A member that ends cancels what it has.
    const bool stopped =
        answered && !answer && answer.error().code == ErrorCode::kCancelled && !cancelled_;
    if (stopped) end.kind = LinkEnd::Kind::kLost;
    if (!answered || stopped) {
      answer = tl::unexpected<Error>(WithoutAnswer(end));
    } else if (answer) {
      Status told = owner_.CheckTold(*answer, version_, outputs_, classified_);
      if (!told) answer = Annotate(owner_.member_, std::move(told).error());
    }
    const bool was_lost = end.kind == LinkEnd::Kind::kCut && lost_ && !cancelled_;
    lost = end.begun && (end.kind == LinkEnd::Kind::kLost || was_lost);
    owner_.Remove(handle_, *counts_);
  }
  payload_.reset();  // the callback's owner may use the payload again
  if (answer) {
    counts_->recorder.RecordFinished(answer->job,
                                     {arrival_, deadline_, rows_, std::nullopt,
                                      urgent_ ? JobClass::kRealTime : JobClass::kBestEffort});
  } else {
    counts_->recorder.RecordRefused(answer.error().code, Now() - arrival_);
  }
  callback_(std::move(answer), lost);
  callback_ = nullptr;
  RemoteCore& owner = owner_;
  delete this;
  owner.Answered();
}

/// Why the request ended without an answer. With the owner's lock.
Error RemoteCore::Call::WithoutAnswer(const LinkEnd& end) const {
  const std::string model = fmt::format("model {}", Quoted(model_));
  const std::string& member = owner_.member_;
  if (cut_off_) return {ErrorCode::kUnavailable, model + ": the server is shutting down"};
  if (cancelled_) return {ErrorCode::kCancelled, model + ": request cancelled"};
  switch (end.kind) {
    case LinkEnd::Kind::kNotSent:
      return {ErrorCode::kUnavailable,
              fmt::format("{}: {}: the request could not be sent to {}: {}", model, member,
                          owner_.link_->Text(), end.why)};
    case LinkEnd::Kind::kDeadline:
      return {ErrorCode::kDeadlineExceeded,
              fmt::format("{}: {} has not answered before the deadline", model, member)};
    case LinkEnd::Kind::kCut:
      return {ErrorCode::kUnavailable,
              fmt::format("{}: {} was lost while the request was in flight", model, member)};
    default:
      return {ErrorCode::kUnavailable,
              fmt::format("{}: {} stopped while the request was in flight{}{}", model, member,
                          end.why.empty() ? "" : ": ", end.why)};
  }
}

Result<InferResponse> RemoteCore::Call::Answer(const LinkEnd& end) const {
  const std::span<const std::byte> body(end.body.data(), end.body.size());
  if (end.kind != LinkEnd::Kind::kAnswered || end.status != 200) {
    return tl::unexpected<Error>(ErrorOf(end.status, body, owner_.member_));
  }
  Result<InferResponse> response = ParseAnswer(body, end.json_bytes);
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
