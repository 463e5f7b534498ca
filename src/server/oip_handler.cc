#include "server/oip_handler.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <charconv>
#include <utility>

#include "server/error_map.h"
#include "server/http_infer_codec.h"
#include "server/oip_json.h"
#include "serving/model_config.pb.h"

namespace lagoon {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;

constexpr std::string_view kJsonLengthField = "Inference-Header-Content-Length";

HttpResponse WrongMethod(const HttpRequest& request, std::string_view allowed) {
  HttpResponse response = HttpResponse::Failure(
      405, fmt::format("{} takes {}", request.target.substr(0, request.target.find('?')), allowed));
  response.fields = fmt::format("Allow: {}\r\n", allowed);
  return response;
}

template <typename T, typename Render>
HttpResponse JsonOr(const Result<T>& result, Render render) {
  return result ? HttpResponse::Json(render(*result)) : HttpResponse::Failure(result.error());
}

// nullopt: the field is absent, the whole body is JSON.
Result<std::optional<std::size_t>> JsonLength(const HttpRequest& request) {
  const auto text = request.Field(kJsonLengthField);
  if (!text) return std::optional<std::size_t>();
  std::size_t length = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, length);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is '{}', not a number of bytes", kJsonLengthField, *text));
  }
  return std::optional(length);
}

Result<HttpInfer> Parse(InferenceCore& core, const Route& route, const HttpRequest& request) {
  LAGOON_ASSIGN_OR_RETURN(const std::optional<std::size_t> json_bytes, JsonLength(request));
  if (json_bytes != std::size_t{0}) {
    return ParseHttpInfer(request.body, json_bytes, request.payload);
  }
  LAGOON_ASSIGN_OR_RETURN(const ModelMetadata model, core.Metadata(route.model, route.version));
  return ParseRawInfer(request.body, model, request.payload);
}

// Everything that the answer of an inference needs, from submission to Send.
struct PendingAnswer {
  std::shared_ptr<HttpReply> reply;
  HttpAnswerFormat format;
  EdgeStamps stamps;

  void Give(Result<InferResponse> result) const {
    if (!result) return reply->Send(HttpResponse::Failure(result.error()));
    auto response = RenderHttpInfer(*std::move(result), format, stamps);
    reply->Send(response ? *std::move(response) : HttpResponse::Failure(response.error()));
  }
};

// Rendering and writing are the edge's work: the calling thread may be one of the device's.
void PostAnswer(PendingAnswer pending, Result<InferResponse> result) {
  const Strand executor = pending.reply->executor();
  net::post(executor, [pending = std::move(pending), result = std::move(result)]() mutable {
    pending.Give(std::move(result));
  });
}

}  // namespace

void OipHandler::Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  const Route route = ParseRoute(request.target);
  if (route.kind == Route::Kind::kUnknown) {
    return reply->Send(
        HttpResponse::Failure(404, fmt::format("nothing is served at '{}'", request.target)));
  }
  const bool switches = route.kind == Route::Kind::kScheduler && request.method != http::verb::get;
  if (switches && request.method == http::verb::post) return SwitchScheduler(request, reply);
  if (switches) return reply->Send(WrongMethod(request, "GET, POST"));
  const bool infer = route.kind == Route::Kind::kModelInfer;
  if (request.method != (infer ? http::verb::post : http::verb::get)) {
    return reply->Send(WrongMethod(request, infer ? "POST" : "GET"));
  }
  if (infer) return Infer(route, request, reply);
  reply->Send(Get(route));
}

HttpResponse OipHandler::Get(const Route& route) const {
  switch (route.kind) {
    case Route::Kind::kLive:
      return HttpResponse::Json(R"({"live":true})");
    case Route::Kind::kReady:
      return Ready();
    case Route::Kind::kServer:
      return HttpResponse::Json(ServerMetadataJson());
    case Route::Kind::kStatistics:
    case Route::Kind::kModelStatistics:
      return JsonOr(core_.Statistics(route.model, route.version),
                    [](const auto& models) { return StatisticsJson(models); });
    case Route::Kind::kScheduler:
      return HttpResponse::Json(SchedulerJson(core_.scheduler().name));
    case Route::Kind::kModel:
      return JsonOr(core_.Metadata(route.model, route.version), ModelMetadataJson);
    case Route::Kind::kModelReady:
      return ModelReady(route);
    case Route::Kind::kModelConfig: {
      const auto config = core_.Config(route.model, route.version);
      if (!config) return HttpResponse::Failure(config.error());
      return JsonOr(ModelConfigJson(*config), [](const std::string& json) { return json; });
    }
    case Route::Kind::kModelInfer:
    case Route::Kind::kUnknown:
      break;
  }
  return HttpResponse::Failure(404, "nothing is served here");
}

HttpResponse OipHandler::Ready() const {
  if (core_.Ready()) return HttpResponse::Json(R"({"ready":true})");
  return HttpResponse::Failure(503, "the server is not ready: it is loading models or draining");
}

HttpResponse OipHandler::ModelReady(const Route& route) const {
  const Status ready = core_.ModelReady(route.model, route.version);
  return ready ? HttpResponse::Json(R"({"ready":true})") : HttpResponse::Failure(ready.error());
}

void OipHandler::SwitchScheduler(const HttpRequest& request,
                                 const std::shared_ptr<HttpReply>& reply) {
  const Result<std::string> name =
      ParseSchedulerJson({reinterpret_cast<const char*>(request.body.data()), request.body.size()});
  if (!name) return reply->Send(HttpResponse::Failure(name.error()));
  // Told by whoever finishes the last request of before, which may be a thread of the device.
  core_.SwitchScheduler(*name, [reply, name = *name, hold = pool_.Hold()](Status status) mutable {
    const Strand executor = reply->executor();
    net::post(executor, [reply, name, status = std::move(status)] {
      reply->Send(status ? HttpResponse::Json(SchedulerJson(name))
                         : HttpResponse::Failure(status.error()));
    });
    hold.reset();
  });
}

void OipHandler::Infer(const Route& route, const HttpRequest& request,
                       const std::shared_ptr<HttpReply>& reply) {
  auto parsed = Parse(core_, route, request);
  if (!parsed) {
    Error error = std::move(parsed).error();
    const std::string context = fmt::format("model '{}': ", route.model);
    if (!error.message.starts_with(context)) error.message.insert(0, context);
    return reply->Send(HttpResponse::Failure(error));
  }
  parsed->request.model = route.model;
  parsed->request.version = route.version;
  parsed->request.arrival = request.first_byte;
  PendingAnswer pending{
      reply, std::move(parsed->format), {request.first_byte, request.received, Now()}};
  const RequestHandle handle = core_.Infer(
      std::move(parsed->request),
      [pending = std::move(pending), hold = pool_.Hold()](Result<InferResponse> result) mutable {
        PostAnswer(std::move(pending), std::move(result));
        hold.reset();  // this thread has left the pool
      });
  reply->OnClientGone([&core = core_, handle] { core.Cancel(handle); });
}

}  // namespace lagoon
