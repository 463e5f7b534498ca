#include "server/grpc/grpc_stream_call.h"

#include <atomic>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "server/edge/charged_room.h"
#include "server/tensors/classes.h"
#include "serving/core/scheduler_control.h"

namespace lagoon {

bool GrpcStreamCalls::Add(GrpcStreamCall& call) {
  const MutexLock lock(mutex_);
  if (ended_) return false;
  calls_.emplace(&call, call.weak_from_this());
  return true;
}

void GrpcStreamCalls::Remove(GrpcStreamCall& call) {
  const MutexLock lock(mutex_);
  calls_.erase(&call);
}

void GrpcStreamCalls::End() {
  std::vector<std::shared_ptr<GrpcStreamCall>> calls;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    for (const auto& [call, alive] : calls_) {
      if (auto shared = alive.lock()) calls.push_back(std::move(shared));
    }
  }
  for (const auto& call : calls) call->EndSoon();
}

/// An answer, and where its outputs are that lie in shared memory.
struct GrpcStreamCall::Answer {
  InferResponse response;
  OutputRegions regions;
};

/// Where the core puts the answers of one request.
class GrpcStreamCall::Answers final : public AnswerStream,
                                      public std::enable_shared_from_this<Answers> {
 public:
  Answers(std::shared_ptr<GrpcStreamCall> call, std::uint64_t request, OutputRegions regions)
      : call_(std::move(call)), request_(request), regions_(std::move(regions)) {}

  bool may_give() const { return may_give_.load(); }
  void MayGive() override { may_give_.store(true); }
  void Give(Result<InferResponse> answer, std::function<void()> taken) override {
    Write(std::move(answer), [request = request_, taken = std::move(taken)](
                                 GrpcStreamCall& call, Result<Answer> written) mutable {
      call.Give(request, std::move(written), std::move(taken));
    });
  }
  void End(Result<InferResponse> result) {
    Write(std::move(result), [request = request_](GrpcStreamCall& call, Result<Answer> written) {
      call.End(request, std::move(written));
    });
  }

 private:
  template <typename Then>
  void Write(Result<InferResponse> answer, Then then);
  Result<Answer> Written(Result<InferResponse> answer) const;

  const std::shared_ptr<GrpcStreamCall> call_;
  const std::uint64_t request_;
  const OutputRegions regions_;
  std::atomic<bool> may_give_{false};
  std::atomic<bool> slow_{false};  // an answer was written beside the connection
};

/// Writes the outputs that go to shared memory, and passes the answer on to the call's strand. One
/// thread at a time. Much is written beside the connection; then the request's further answers take
/// the same way, so that they keep their order.
template <typename Then>
void GrpcStreamCall::Answers::Write(Result<InferResponse> answer, Then then) {
  GrpcStreamCall& call = *call_;
  if (answer && regions_.BytesOf(answer->outputs) > SharedRegions::kSmallCopy) slow_.store(true);
  if (!slow_.load()) {
    return call.Post(
        [self = shared_from_this(), &call, answer = std::move(answer),
         then = std::move(then)]() mutable { then(call, self->Written(std::move(answer))); });
  }
  GrpcCall::PostTo(
      call.parts_.pool.one_by_one(), call.call_,
      [self = shared_from_this(), &call, answer = std::move(answer),
       then = std::move(then)]() mutable {
        auto written = WithoutExceptions([&] { return self->Written(std::move(answer)); });
        call.Post([&call, written = std::move(written), then = std::move(then)]() mutable {
          then(call, std::move(written));
        });
      });
}

Result<GrpcStreamCall::Answer> GrpcStreamCall::Answers::Written(
    Result<InferResponse> answer) const {
  if (!answer) return tl::unexpected<Error>(std::move(answer).error());
  Answer written{*std::move(answer), regions_};
  LAGOON_RETURN_IF_ERROR(RenderClasses(written.response));
  LAGOON_RETURN_IF_ERROR(written.regions.Write(written.response.outputs));
  return written;
}

GrpcStreamCall::GrpcStreamCall(const GrpcInferParts& parts, GrpcStreamCalls& calls,
                               std::shared_ptr<GrpcCall> call)
    : parts_(parts), calls_(calls), hold_(parts.pool.Hold()), call_(std::move(call)) {}

GrpcStreamCall::~GrpcStreamCall() { calls_.Remove(*this); }

std::shared_ptr<GrpcStreamCall> GrpcStreamCall::Begin(const GrpcInferParts& parts,
                                                      GrpcStreamCalls& calls,
                                                      std::shared_ptr<GrpcCall> call) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::shared_ptr<GrpcStreamCall> made(new GrpcStreamCall(parts, calls, std::move(call)));
  if (calls.Add(*made)) return made;
  made->call_->Finish({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
  return nullptr;
}

/// Runs `work` on the strand. Any thread.
template <typename Work>
void GrpcStreamCall::Post(Work work) {
  GrpcCall::Post(call_, [self = shared_from_this(), work = std::move(work)]() mutable { work(); });
}

void GrpcStreamCall::EndSoon() {
  Post([this] {
    ending_ = no_more_ = true;
    MaybeFinish();
  });
}

// ---- Requests

bool GrpcStreamCall::IsLong(std::span<const std::byte> message) const {
  return IsLongToParse(message);
}

GrpcReading GrpcStreamCall::Read(GrpcArrived message) {
  return ReadInfer(message, call_->head(), parts_.regions, [this](GrpcAsked asked) {
    Submit(std::move(asked));
    PauseOrGo();
    MaybeFinish();
  });
}

void GrpcStreamCall::OnEnd() {
  no_more_ = true;
  MaybeFinish();
}

void GrpcStreamCall::PauseOrGo() {
  const bool full = in_flight_.size() + unwritten_ >= kMostInFlight;
  if (full == paused_) return;
  paused_ = full;
  full ? call_->Pause() : call_->Go();
}

void GrpcStreamCall::Submit(GrpcAsked arrived) {
  if (cancelled_ || ending_) return;
  const std::uint64_t number = ++last_request_;
  InFlight& request = in_flight_[number];
  request.id = std::move(arrived.id);
  if (!arrived.parsed) return End(number, tl::unexpected<Error>(arrived.parsed.error()));
  request.stages = arrived.parsed->stages;
  request.empty_final = arrived.parsed->empty_final;
  request.stamps.first_byte = request.stamps.received = arrived.received;
  if (request.stages) request.stamps.off_core = SchedulerStatisticsOf(parts_.core).off_core;
  InferRequest& asked = arrived.parsed->request;
  asked.arrival = arrived.received;
  request.answers =
      std::make_shared<Answers>(shared_from_this(), number, std::move(arrived.parsed->regions));
  asked.stream = request.answers;
  request.charge = call_->NewCharge();
  asked.room = std::make_shared<ChargedRoom>(request.charge);
  request.stamps.submitted = Now();
  // The callback only posts, so that the entry is still there when Infer() returns.
  request.handle = parts_.core.Infer(
      std::move(asked), [answers = request.answers](Result<InferResponse> result) mutable {
        answers->End(std::move(result));
        answers.reset();
      });
}

// ---- Answers

Result<GrpcBytes> GrpcStreamCall::Render(InFlight& request, Answer written, bool last) const {
  const bool stages = last && request.stages;
  if (stages) {
    request.stamps.off_core = SchedulerStatisticsOf(parts_.core).off_core - request.stamps.off_core;
  }
  InferResponse& answer = written.response;
  // On a stream, each answer says whether it is the last one to its request.
  if (last) answer.part = AnswerPart::kEnd;
  LAGOON_ASSIGN_OR_RETURN(
      GrpcBytes rendered,
      RenderGrpcInfer(std::move(answer), stages ? &request.stamps : nullptr, written.regions));
  rendered = WrapForStream(std::move(rendered));
  rendered.charge = last ? std::move(request.charge) : call_->NewCharge();
  // Pinned until it is sent: it may wait for the answer to an earlier request.
  if (rendered.charge->Hold(rendered.size(), Now())) return rendered;
  return tl::unexpected<Error>(rendered.charge->NoRoom(rendered.size()));
}

/// An answer before the last one.
void GrpcStreamCall::Give(std::uint64_t number, Result<Answer> answer,
                          std::function<void()> taken) {
  const auto found = in_flight_.find(number);
  if (found == in_flight_.end() || cancelled_) return taken();
  Result<GrpcBytes> rendered = answer ? Render(found->second, *std::move(answer), false)
                                      : tl::unexpected<Error>(answer.error());
  if (!rendered) rendered = RenderStreamError(rendered.error(), found->second.id, false);
  Send({*std::move(rendered), 0, std::move(taken)});
}

void GrpcStreamCall::End(std::uint64_t number, Result<Answer> result) {
  InFlight& request = in_flight_.at(number);
  if (cancelled_) {
    in_flight_.erase(number);
    return;
  }
  const bool only_ends = result && result->response.part == AnswerPart::kEnd &&
                         result->response.outputs.empty() && result->response.parameters.empty();
  if (only_ends && !request.empty_final) {
    in_flight_.erase(number);
    SendInOrder();
    PauseOrGo();
    return MaybeFinish();
  }
  Result<GrpcBytes> rendered =
      result ? Render(request, *std::move(result), true) : tl::unexpected<Error>(result.error());
  if (!rendered) rendered = RenderStreamError(rendered.error(), request.id, true);
  request.last = Outgoing{*std::move(rendered), number, {}};
  SendInOrder();
}

/// Sends the last answers that no earlier request holds back.
void GrpcStreamCall::SendInOrder() {
  bool held = false;
  for (auto& [number, request] : in_flight_) {
    const bool decoupled = request.answers != nullptr && request.answers->may_give();
    if (request.last && (!held || decoupled)) {
      request.sent = true;
      Send(*std::exchange(request.last, std::nullopt));
    }
    held = held || (!request.sent && !decoupled);
  }
}

void GrpcStreamCall::Send(Outgoing outgoing) {
  ++unwritten_;
  const auto& charge = outgoing.message.charge;
  // Not in vain: it takes no more than Hold() has taken.
  if (charge != nullptr) charge->Renew(outgoing.message.size(), Now());
  call_->Write(std::move(outgoing.message),
               [self = shared_from_this(), request = outgoing.request,
                taken = std::move(outgoing.taken)] { self->Written(request, taken); });
}

void GrpcStreamCall::Written(std::uint64_t request, const std::function<void()>& taken) {
  --unwritten_;
  if (request != 0) in_flight_.erase(request);
  if (taken) taken();
  if (cancelled_) return;
  PauseOrGo();
  MaybeFinish();
}

// ---- The end

void GrpcStreamCall::OnGone() {
  cancelled_ = finished_ = true;
  for (const auto& [number, request] : in_flight_) {
    // The answers still come, and are dropped.
    if (!request.last && !request.sent) parts_.core.Cancel(request.handle);
  }
  std::erase_if(in_flight_, [](const auto& entry) { return entry.second.last.has_value(); });
}

void GrpcStreamCall::MaybeFinish() {
  if (finished_ || !no_more_ || !in_flight_.empty() || unwritten_ > 0) return;
  finished_ = true;
  if (ending_) {
    return call_->Finish({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
  }
  call_->Finish(grpc::Status::OK);
}

}  // namespace lagoon
