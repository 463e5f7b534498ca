#include "server/infer_handler.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <utility>

#include "base/text.h"
#include "server/edge/charged_room.h"
#include "server/http/http_caller.h"
#include "server/memory_budget.h"
#include "server/tensors/classes.h"
#include "serving/core/scheduler_control.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

// About the length of one element as JSON.
constexpr std::size_t kTextBytesPerElement = 12;

// Parsing takes several times the memory of the text.
constexpr std::size_t kMostJsonBytes = std::size_t{64} << 20;

// nullopt: the field is absent and the whole body is JSON.
Result<std::optional<std::size_t>> JsonLength(const HttpRequest& request) {
  const auto text = request.Field(kJsonLengthField);
  if (!text) return std::optional<std::size_t>();
  std::size_t length = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, length);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, not a number of bytes", kJsonLengthField, Quoted(*text)));
  }
  return std::optional(length);
}

HttpResponse LaneIsFull(std::string_view what) {
  return HttpResponse::Failure(
      503, fmt::format("{} large JSON texts and compressed answers wait already, the limit: this "
                       "{}; send and ask for binary data",
                       JsonLane::kMaxWaiting, what));
}

}  // namespace

// Everything that the answer of an inference needs, from submission to Send.
struct InferHandler::Pending {
  std::shared_ptr<HttpReply> reply;
  HttpAnswerFormat format;
  EdgeStamps stamps;
  std::shared_ptr<MemoryCharge> charge;  // of the outputs; null: they are not counted
  HttpCoding coding = HttpCoding::kNone;

  void Give(Result<InferResponse> result) {
    if (!result) return reply->Send(HttpResponse::Failure(result.error()));
    if (Status rendered = RenderClasses(*result); !rendered) {
      return reply->Send(HttpResponse::Failure(rendered.error()));
    }
    const bool gives_way = result->job.background;
    HttpResponse response = RenderHttpInfer(*std::move(result), format, stamps);
    Compress(response, coding);
    response.gives_way = gives_way;
    response.charge = std::move(charge);
    reply->Send(std::move(response));
  }
};

void InferHandler::Handle(const Route& route, const HttpRequest& request,
                          const std::shared_ptr<HttpReply>& reply) {
  Arrived arrived{route,
                  request.body,
                  {},
                  request.payload,
                  request.first_byte,
                  request.received,
                  reply,
                  CodingFor(request.Field("Accept-Encoding").value_or("")),
                  TraceOf(request),
                  TenantOf(request)};
  const auto length = JsonLength(request);
  if (!length) return Submit(arrived, tl::unexpected<Error>(length.error()));
  arrived.json_bytes = *length;
  const std::size_t json_bytes =
      std::min(length->value_or(request.body.size()), request.body.size());
  if (json_bytes > kMostJsonBytes) {
    return reply->Send(HttpResponse::Failure(
        413, fmt::format("the request has {} bytes of JSON, the limit is {}; send binary data",
                         json_bytes, kMostJsonBytes)));
  }
  if (json_bytes > kMaxEdgeJsonBytes) return ParseOnLane(std::move(arrived), json_bytes);
  Submit(arrived, Parse(arrived, json_bytes));
}

// Small JSON needs no bounds, so that its request does not look the model up twice.
Result<HttpInfer> InferHandler::Parse(const Arrived& arrived, std::size_t json_bytes) const {
  const bool raw = arrived.json_bytes == std::size_t{0};
  if (!raw && json_bytes <= kMaxEdgeJsonBytes) {
    return ParseHttpInfer(arrived.body, arrived.json_bytes, arrived.payload);
  }
  LAGOON_ASSIGN_OR_RETURN(const ModelMetadata model,
                          core_.Metadata(arrived.route.model, arrived.route.version));
  if (raw) return ParseRawInfer(arrived.body, model, arrived.payload);
  return ParseHttpInfer(arrived.body, arrived.json_bytes, arrived.payload, BoundsOf(model));
}

void InferHandler::ParseOnLane(Arrived arrived, std::size_t json_bytes) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  const auto reply = arrived.reply;
  const TimePoint received = arrived.received;
  reply->OnClientGone([gone] { gone->store(true, std::memory_order_relaxed); });
  auto work = [this, arrived = std::move(arrived), json_bytes, gone]() mutable {
    const auto keep = arrived.reply;
    AnswerErrors(keep, [&] {
      if (gone->load(std::memory_order_relaxed)) return;
      auto parsed = Parse(arrived, json_bytes);
      // Do not submit from this thread: it would do the dispatcher's rounds for all at low
      // priority.
      PostAnswering(
          keep, [this, arrived = std::move(arrived), gone, parsed = std::move(parsed)]() mutable {
            if (!gone->load(std::memory_order_relaxed)) Submit(arrived, std::move(parsed));
          });
    });
  };
  if (!lane_.Post(received, json_bytes, std::move(work))) {
    reply->Send(LaneIsFull("request was not read"));
  }
}

/// With the tensors that lie in shared memory.
Result<HttpInfer> InferHandler::Bound(HttpInfer parsed) const {
  LAGOON_ASSIGN_OR_RETURN(parsed.format.regions, regions_.Bind(parsed.shared, parsed.request));
  return parsed;
}

void InferHandler::Submit(const Arrived& arrived, Result<HttpInfer> parsed) {
  if (!parsed || parsed->shared.empty()) return SubmitBound(arrived, std::move(parsed));
  if (parsed->shared.input_bytes() <= SharedRegions::kSmallCopy) {
    return SubmitBound(arrived, Bound(*std::move(parsed)));
  }
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  arrived.reply->OnClientGone([gone] { gone->store(true, std::memory_order_relaxed); });
  PostSurely(pool_.one_by_one(),
             [this, arrived = Arrived(arrived), gone, parsed = *std::move(parsed)]() mutable {
               const auto keep = arrived.reply;
               AnswerErrors(keep, [&] {
                 if (gone->load(std::memory_order_relaxed)) return;
                 auto bound = Bound(std::move(parsed));
                 PostAnswering(keep, [this, arrived = std::move(arrived), gone,
                                      bound = std::move(bound)]() mutable {
                   if (!gone->load(std::memory_order_relaxed)) {
                     SubmitBound(arrived, std::move(bound));
                   }
                 });
               });
             });
}

void InferHandler::SubmitBound(const Arrived& arrived, Result<HttpInfer> parsed) {
  if (!parsed) {
    Error error = std::move(parsed).error();
    const std::string context = fmt::format("model {}: ", Quoted(arrived.route.model));
    // kNotFound is about something else than this model, or names it.
    const bool prefixed = error.code == ErrorCode::kNotFound || error.message.starts_with(context);
    if (!prefixed) error.message.insert(0, context);
    return arrived.reply->Send(HttpResponse::Failure(error));
  }
  parsed->request.model = arrived.route.model;
  parsed->request.version = arrived.route.version;
  parsed->request.arrival = arrived.first_byte;
  parsed->request.received = arrived.received;
  parsed->request.trace = arrived.trace;
  parsed->request.tenant_of_header = arrived.tenant;
  Pending pending{arrived.reply,
                  std::move(parsed->format),
                  {arrived.first_byte, arrived.received, Now()},
                  arrived.reply->NewCharge(),
                  arrived.coding};
  if (pending.format.stages) pending.stamps.off_core = SchedulerStatisticsOf(core_).off_core;
  if (pending.charge != nullptr) {
    parsed->request.room = std::make_shared<ChargedRoom>(pending.charge);
  }
  const RequestHandle handle = core_.Infer(
      std::move(parsed->request), [this, pending = std::move(pending),
                                   hold = pool_.Hold()](Result<InferResponse> result) mutable {
        PostAnswer(std::move(pending), std::move(result));
        hold.reset();  // this thread has left the pool's code
      });
  arrived.reply->OnClientGone([&core = core_, handle] { core.Cancel(handle); });
}

// Renders and writes on a thread of the edge, as the calling thread may be one of the device's.
// When PostAnswer has returned, the calling thread holds no reference to the connection.
void InferHandler::PostAnswer(Pending pending, Result<InferResponse> result) {
  auto reply = pending.reply;
  PostAnswering(std::move(reply),
                [this, pending = std::move(pending), result = std::move(result)]() mutable {
                  if (pending.format.stages) {
                    const Nanoseconds before = pending.stamps.off_core;
                    pending.stamps.off_core = SchedulerStatisticsOf(core_).off_core - before;
                  }
                  Answer(std::move(pending), std::move(result));
                });
}

void InferHandler::Answer(Pending pending, Result<InferResponse> result) {
  if (!result || pending.format.regions.empty()) {
    return AnswerWritten(std::move(pending), std::move(result));
  }
  const bool small = pending.format.regions.BytesOf(result->outputs) <= SharedRegions::kSmallCopy;
  auto write = [this, pending = std::move(pending), result = std::move(result)]() mutable {
    const auto keep = pending.reply;
    AnswerErrors(keep, [&] {
      if (Status rendered = RenderClasses(*result); !rendered) {
        result = tl::unexpected<Error>(std::move(rendered).error());
      } else if (Status written = pending.format.regions.Write(result->outputs); !written) {
        result = Annotate(fmt::format("model '{}'", result->model), std::move(written).error());
      }
      AnswerWritten(std::move(pending), std::move(result));
    });
  };
  if (small) return write();
  PostSurely(pool_.one_by_one(), std::move(write));
}

void InferHandler::AnswerWritten(Pending pending, Result<InferResponse> result) {
  const std::size_t elements = result ? TextElements(*result, pending.format) : 0;
  std::size_t bytes = elements * kTextBytesPerElement;
  if (result && pending.coding != HttpCoding::kNone) {
    for (const OutputTensor& output : result->outputs) bytes += output.data.size();
  }
  const bool compresses_much = pending.coding != HttpCoding::kNone && bytes > kMaxEdgeJsonBytes;
  if (elements <= kMaxEdgeElements && !compresses_much) return pending.Give(std::move(result));
  const auto reply = pending.reply;
  auto work = [pending = std::move(pending), result = std::move(result)]() mutable {
    AnswerErrors(pending.reply, [&] { pending.Give(std::move(result)); });
  };
  if (!lane_.Post(Now(), bytes, std::move(work))) {
    reply->Send(LaneIsFull("answer was not written"));
  }
}

}  // namespace lagoon
