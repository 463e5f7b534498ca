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

/// Where the core puts the answers of one request.
class GrpcStreamCall::Answers final : public AnswerStream {
 public:
  Answers(std::shared_ptr<GrpcStreamCall> call, std::uint64_t request)
      : call_(std::move(call)), request_(request) {}

  bool may_give() const { return may_give_.load(); }
  void MayGive() override { may_give_.store(true); }
  void Give(InferResponse answer, std::function<void()> taken) override {
    GrpcStreamCall& call = *call_;
    call.Post([&call, request = request_, answer = std::move(answer),
               taken = std::move(taken)]() mutable {
      call.Give(request, std::move(answer), std::move(taken));
    });
  }

 private:
  const std::shared_ptr<GrpcStreamCall> call_;
  const std::uint64_t request_;
  std::atomic<bool> may_give_{false};
};

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
  return IsLongToRead(message);
}

std::function<void()> GrpcStreamCall::Read(GrpcArrived message) {
  auto arrived = std::make_shared<Arrived>(Arrived{{}, GrpcInfer{}, message.received});
  arrived->parsed = WithoutExceptions([&]() -> Result<GrpcInfer> {
    return ReadInfer(message, call_->head(), parts_.regions, arrived->id);
  });
  return [this, arrived] {
    Submit(std::move(*arrived));
    PauseOrGo();
    MaybeFinish();
  };
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

void GrpcStreamCall::Submit(Arrived arrived) {
  if (cancelled_ || ending_) return;
  const std::uint64_t number = ++last_request_;
  InFlight& request = in_flight_[number];
  request.id = std::move(arrived.id);
  if (!arrived.parsed) return End(number, tl::unexpected<Error>(arrived.parsed.error()));
  request.stages = arrived.parsed->stages;
  request.empty_final = arrived.parsed->empty_final;
  request.regions = std::move(arrived.parsed->regions);
  request.stamps.first_byte = request.stamps.received = arrived.at;
  if (request.stages) request.stamps.off_core = SchedulerStatisticsOf(parts_.core).off_core;
  InferRequest& asked = arrived.parsed->request;
  asked.arrival = arrived.at;
  request.answers = std::make_shared<Answers>(shared_from_this(), number);
  asked.stream = request.answers;
  request.charge = call_->NewCharge();
  asked.room = std::make_shared<ChargedRoom>(request.charge);
  request.stamps.submitted = Now();
  // The callback only posts, so that the entry is still there when Infer() returns.
  request.handle = parts_.core.Infer(
      std::move(asked), [self = shared_from_this(), number](Result<InferResponse> result) mutable {
        GrpcStreamCall& call = *self;
        call.Post([&call, number, result = std::move(result)]() mutable {
          call.End(number, std::move(result));
        });
        self.reset();
      });
}

// ---- Answers

Result<GrpcBytes> GrpcStreamCall::Render(InFlight& request, InferResponse answer, bool last) const {
  const bool stages = last && request.stages;
  if (stages) {
    request.stamps.off_core = SchedulerStatisticsOf(parts_.core).off_core - request.stamps.off_core;
  }
  // On a stream, each answer says whether it is the last one to its request.
  if (last) answer.part = AnswerPart::kEnd;
  OutputRegions regions = request.regions;
  LAGOON_RETURN_IF_ERROR(RenderClasses(answer));
  LAGOON_RETURN_IF_ERROR(regions.Write(answer.outputs));
  LAGOON_ASSIGN_OR_RETURN(
      GrpcBytes rendered,
      RenderGrpcInfer(std::move(answer), stages ? &request.stamps : nullptr, regions));
  rendered = WrapForStream(std::move(rendered));
  rendered.charge = last ? std::move(request.charge) : call_->NewCharge();
  // Pinned until it is sent: it may wait for the answer to an earlier request.
  if (rendered.charge->Hold(rendered.size(), Now())) return rendered;
  return tl::unexpected<Error>(rendered.charge->NoRoom(rendered.size()));
}

/// An answer before the last one.
void GrpcStreamCall::Give(std::uint64_t number, InferResponse answer, std::function<void()> taken) {
  const auto found = in_flight_.find(number);
  if (found == in_flight_.end() || cancelled_) return taken();
  Result<GrpcBytes> rendered = Render(found->second, std::move(answer), false);
  if (!rendered) rendered = RenderStreamError(rendered.error(), found->second.id);
  Send({*std::move(rendered), 0, std::move(taken)});
}

void GrpcStreamCall::End(std::uint64_t number, Result<InferResponse> result) {
  InFlight& request = in_flight_.at(number);
  if (cancelled_) {
    in_flight_.erase(number);
    return;
  }
  if (result && result->part == AnswerPart::kEnd && !request.empty_final) {
    in_flight_.erase(number);
    SendInOrder();
    PauseOrGo();
    return MaybeFinish();
  }
  Result<GrpcBytes> rendered =
      result ? Render(request, *std::move(result), true) : tl::unexpected<Error>(result.error());
  if (!rendered) rendered = RenderStreamError(rendered.error(), request.id);
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
