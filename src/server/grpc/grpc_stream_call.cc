#include "server/grpc/grpc_stream_call.h"

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "base/log.h"
#include "server/grpc/grpc_caller.h"
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

GrpcStreamCall::GrpcStreamCall(const Server& server, grpc::CallbackServerContext& context)
    : server_(server),
      context_(context),
      hold_(server.pool.Hold()),
      strand_(server.pool.NextStrand()),
      slow_(server.pool.context()) {}

GrpcStreamCall* GrpcStreamCall::Start(const Server& server, grpc::CallbackServerContext& context) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  const std::shared_ptr<GrpcStreamCall> call(new GrpcStreamCall(server, context));
  call->self_ = call;
  if (!server.calls.Add(*call)) {
    call->finished_ = true;
    call->Finish({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
  } else {
    call->StartRead(&call->incoming_);
  }
  return call.get();
}

/// Runs `work` on the strand. An exception ends the call: the client must not wait for ever.
template <typename Work>
void GrpcStreamCall::Post(Work work) {
  PostSurely(strand_, [self = shared_from_this(), work = std::move(work)]() mutable {
    try {
      work();
    } catch (const std::exception& error) {
      spdlog::error("server: a stream failed: {}", error.what());
      self->context_.TryCancel();
    }
  });
}

// ---- What gRPC calls

void GrpcStreamCall::OnReadDone(bool ok) {
  if (!ok) {
    return Post([this] {
      reading_ = false;
      no_more_ = true;
      MaybeFinish();
    });
  }
  Post([this, arrived = Parse()]() mutable {
    reading_ = false;
    Submit(std::move(arrived));
    Read();
    MaybeFinish();
  });
}

void GrpcStreamCall::OnWriteDone(bool ok) {
  Post([this, ok] { Written(ok); });
}

void GrpcStreamCall::OnCancel() {
  Post([this] { Cancelled(); });
}

void GrpcStreamCall::OnDone() {
  server_.calls.Remove(*this);
  const std::shared_ptr<GrpcStreamCall> self = std::move(self_);  // until the end of the function
}

void GrpcStreamCall::EndSoon() {
  Post([this] {
    ending_ = no_more_ = true;
    MaybeFinish();
  });
}

// ---- Requests

/// On gRPC's thread: one message at a time, before the next one is read.
GrpcStreamCall::Arrived GrpcStreamCall::Parse() {
  Arrived arrived{{}, GrpcInfer{}, Now()};
  arrived.parsed = WithoutExceptions([&]() -> Result<GrpcInfer> {
    std::shared_ptr<inference::ModelInferRequest> message = server_.messages.Acquire();
    LAGOON_RETURN_IF_ERROR(ReadInferMessage(incoming_, *message));
    arrived.id = message->id();
    return ParseGrpcInfer(std::move(message), server_.regions);
  });
  return arrived;
}

void GrpcStreamCall::Read() {
  if (reading_ || no_more_ || cancelled_ || finished_) return;
  if (in_flight_.size() + outgoing_.size() >= kMostInFlight) return;
  reading_ = true;
  StartRead(&incoming_);
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
  if (request.stages) request.stamps.off_core = SchedulerStatisticsOf(server_.core).off_core;
  InferRequest& asked = arrived.parsed->request;
  asked.arrival = arrived.at;
  asked.trace = TraceOf(context_);
  asked.tenant_of_header = TenantOf(context_);
  request.answers = std::make_shared<Answers>(shared_from_this(), number);
  asked.stream = request.answers;
  request.stamps.submitted = Now();
  // The callback only posts, so that the entry is still there when Infer() returns.
  request.handle = server_.core.Infer(
      std::move(asked), [self = shared_from_this(), number](Result<InferResponse> result) mutable {
        GrpcStreamCall& call = *self;
        call.Post([&call, number, result = std::move(result)]() mutable {
          call.End(number, std::move(result));
        });
        self.reset();
      });
}

// ---- Answers

Result<grpc::ByteBuffer> GrpcStreamCall::Render(InFlight& request, InferResponse answer,
                                                bool last) const {
  const bool stages = last && request.stages;
  if (stages) {
    request.stamps.off_core =
        SchedulerStatisticsOf(server_.core).off_core - request.stamps.off_core;
  }
  // On a stream, each answer says whether it is the last one to its request.
  if (last) answer.part = AnswerPart::kEnd;
  OutputRegions regions = request.regions;
  LAGOON_RETURN_IF_ERROR(RenderClasses(answer));
  LAGOON_RETURN_IF_ERROR(regions.Write(answer.outputs));
  LAGOON_ASSIGN_OR_RETURN(
      const grpc::ByteBuffer rendered,
      RenderGrpcInfer(std::move(answer), stages ? &request.stamps : nullptr, regions));
  return WrapForStream(rendered);
}

/// An answer before the last one.
void GrpcStreamCall::Give(std::uint64_t number, InferResponse answer, std::function<void()> taken) {
  const auto found = in_flight_.find(number);
  if (found == in_flight_.end() || cancelled_) return taken();
  Result<grpc::ByteBuffer> rendered = Render(found->second, std::move(answer), false);
  if (!rendered) rendered = RenderStreamError(rendered.error(), found->second.id);
  Send({*std::move(rendered), 0, std::move(taken)});
}

void GrpcStreamCall::End(std::uint64_t number, Result<InferResponse> result) {
  InFlight& request = in_flight_.at(number);
  if (cancelled_) {
    in_flight_.erase(number);
    return MaybeFinish();
  }
  if (result && result->part == AnswerPart::kEnd && !request.empty_final) {
    in_flight_.erase(number);
    SendInOrder();
    Read();
    return MaybeFinish();
  }
  Result<grpc::ByteBuffer> rendered =
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
  outgoing_.push_back(std::move(outgoing));
  WriteNext();
}

void GrpcStreamCall::WriteNext() {
  if (writing_ || outgoing_.empty() || cancelled_ || finished_) return;
  writing_ = true;
  slow_.expires_after(kMostWriteTime);
  slow_.async_wait(boost::asio::bind_executor(
      strand_, [weak = weak_from_this()](boost::system::error_code error) {
        const auto self = weak.lock();
        if (error || self == nullptr || !self->writing_) return;
        if (self->slow_.expiry() <= std::chrono::steady_clock::now()) self->context_.TryCancel();
      }));
  StartWrite(&outgoing_.front().message);
}

void GrpcStreamCall::Written(bool ok) {
  writing_ = false;
  slow_.cancel();
  const Outgoing written = std::move(outgoing_.front());
  outgoing_.pop_front();
  if (written.request != 0) in_flight_.erase(written.request);
  if (written.taken) written.taken();
  if (!ok) return Cancelled();
  WriteNext();
  Read();
  MaybeFinish();
}

// ---- The end

void GrpcStreamCall::Cancelled() {
  if (!std::exchange(cancelled_, true)) {
    const auto drop = [this](Outgoing& outgoing) {
      if (outgoing.request != 0) in_flight_.erase(outgoing.request);
      if (outgoing.taken) outgoing.taken();
    };
    while (outgoing_.size() > (writing_ ? 1 : 0)) {
      drop(outgoing_.back());
      outgoing_.pop_back();
    }
    std::erase_if(in_flight_, [](const auto& entry) { return entry.second.last.has_value(); });
    // The answers still come, and are dropped.
    for (const auto& [number, request] : in_flight_) server_.core.Cancel(request.handle);
  }
  MaybeFinish();
}

void GrpcStreamCall::MaybeFinish() {
  if (finished_ || writing_ || !in_flight_.empty()) return;
  if (!cancelled_ && !no_more_) return;
  if (!cancelled_ && !outgoing_.empty()) return;
  finished_ = true;
  if (cancelled_) return Finish({grpc::StatusCode::CANCELLED, "the client left"});
  if (ending_) return Finish({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
  Finish(grpc::Status::OK);
}

}  // namespace lagoon
