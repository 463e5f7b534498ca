#include "server/grpc/grpc_infer_call.h"

#include <utility>

#include "base/guard.h"
#include "server/edge/charged_room.h"
#include "server/tensors/classes.h"
#include "serving/core/scheduler_control.h"

namespace lagoon {

namespace {

Result<GrpcInfer> ParseAsked(const GrpcArrived& message, const GrpcHead& head, std::string& id) {
  LAGOON_ASSIGN_OR_RETURN(auto read, ReadInferMessage(message.bytes, message.owner));
  id = read->message.id();
  LAGOON_ASSIGN_OR_RETURN(GrpcInfer parsed, ParseGrpcInfer(std::move(read)));
  parsed.request.trace = head.trace;
  parsed.request.tenant_of_header = head.tenant;
  parsed.request.received = message.received;
  return parsed;
}

}  // namespace

GrpcReading ReadInfer(const GrpcArrived& message, const GrpcHead& head,
                      const SharedRegions& regions, std::function<void(GrpcAsked)> then) {
  auto asked = std::make_shared<GrpcAsked>(GrpcAsked{{}, GrpcInfer{}, message.received});
  asked->parsed = WithoutExceptions([&] { return ParseAsked(message, head, asked->id); });
  auto bind = [asked, &regions] {
    if (!asked->parsed) return;
    Status bound = WithoutExceptions([&] { return BindRegions(regions, *asked->parsed); });
    if (!bound) asked->parsed = tl::unexpected<Error>(std::move(bound).error());
  };
  GrpcReading reading{[asked, then = std::move(then)] { then(std::move(*asked)); }};
  if (asked->parsed && asked->parsed->shared.input_bytes() > SharedRegions::kSmallCopy) {
    reading.slow = std::move(bind);
  } else {
    bind();
  }
  return reading;
}

bool IsLongToParse(std::span<const std::byte> message) {
  constexpr std::size_t kLong = GrpcMethod::kLong;
  return message.size() > kLong && BytesToParse(message) > kLong;
}

bool GrpcInferCall::IsLong(std::span<const std::byte> message) const {
  return IsLongToParse(message);
}

GrpcReading GrpcInferCall::Read(GrpcArrived message) {
  return ReadInfer(message, call_->head(), parts_.regions,
                   [this](GrpcAsked asked) { Submit(std::move(asked.parsed), asked.received); });
}

void GrpcInferCall::Submit(Result<GrpcInfer> parsed, TimePoint received) {
  arrived_ = true;
  call_->Pause();  // there is one message
  if (!parsed) return call_->Finish(GrpcStatus(parsed.error()));
  stamps_.first_byte = call_->head().first_byte;
  stamps_.received = received;
  stages_ = parsed->stages;
  regions_ = std::move(parsed->regions);
  if (stages_) stamps_.off_core = SchedulerStatisticsOf(parts_.core).off_core;
  charge_ = call_->NewCharge();
  parsed->request.arrival = stamps_.first_byte;
  parsed->request.room = std::make_shared<ChargedRoom>(charge_);
  stamps_.submitted = Now();
  handle_ = parts_.core.Infer(
      std::move(parsed->request),
      [self = shared_from_this(), hold = parts_.pool.Hold()](Result<InferResponse> result) mutable {
        // Render and write on a thread of the edge: this thread may be one of the device's.
        GrpcInferCall& call = *self;
        const bool waits =
            result && (result->job.background ||
                       call.regions_.BytesOf(result->outputs) > SharedRegions::kSmallCopy);
        if (waits) {
          auto reply = call.call_;
          GrpcCall::PostTo(
              call.parts_.pool.one_by_one(), std::move(reply),
              [self = std::move(self), result = std::move(result)]() mutable {
                auto then = self->call_;
                auto answer = WithoutExceptions([&] { return self->Render(std::move(result)); });
                GrpcCall::Post(std::move(then),
                               [self = std::move(self), answer = std::move(answer)]() mutable {
                                 self->Give(std::move(answer));
                               });
              });
        } else {
          auto reply = call.call_;
          GrpcCall::Post(
              std::move(reply), [self = std::move(self), result = std::move(result)]() mutable {
                self->Give(WithoutExceptions([&] { return self->Render(std::move(result)); }));
              });
        }
        hold.reset();  // this thread has left the pool's code
      });
}

void GrpcInferCall::OnEnd() {
  if (arrived_) return;
  call_->Finish({grpc::StatusCode::INVALID_ARGUMENT, "the call has no message"});
}

void GrpcInferCall::OnGone() {
  if (handle_) parts_.core.Cancel(*handle_);
}

void GrpcInferCall::Give(Result<GrpcBytes> answer) {
  if (!answer) return call_->Finish(GrpcStatus(answer.error()));
  call_->Write(*std::move(answer), {});
  call_->Finish(grpc::Status::OK);
}

Result<GrpcBytes> GrpcInferCall::Render(Result<InferResponse> result) {
  if (!result) return tl::unexpected<Error>(std::move(result).error());
  if (stages_) stamps_.off_core = SchedulerStatisticsOf(parts_.core).off_core - stamps_.off_core;
  LAGOON_RETURN_IF_ERROR(RenderClasses(*result));
  LAGOON_RETURN_IF_ERROR(regions_.Write(result->outputs));
  LAGOON_ASSIGN_OR_RETURN(
      GrpcBytes answer,
      RenderGrpcInfer(*std::move(result), stages_ ? &stamps_ : nullptr, regions_));
  answer.charge = std::move(charge_);
  if (!answer.charge->Renew(answer.size(), Now())) {
    return tl::unexpected<Error>(answer.charge->NoRoom(answer.size()));
  }
  return answer;
}

}  // namespace lagoon
