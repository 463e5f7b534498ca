#include "server/generate/generate_handler.h"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "server/edge/charged_room.h"
#include "server/generate/generate_json.h"
#include "server/http/http_caller.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

/// The answers of one request. On the connection's strand, unless said otherwise.
class Generation final : public AnswerStream, public std::enable_shared_from_this<Generation> {
 public:
  Generation(Inference& core, IoPool& pool, std::shared_ptr<HttpReply> reply, bool streams)
      : core_(core), hold_(pool.Hold()), reply_(std::move(reply)), streams_(streams) {}

  void Start(InferRequest request) {
    request.stream = shared_from_this();
    charge_ = reply_->NewCharge();
    if (charge_ != nullptr) request.room = std::make_shared<ChargedRoom>(charge_);
    handle_ = core_.Infer(std::move(request),
                          [self = shared_from_this()](Result<InferResponse> result) mutable {
                            Generation& generation = *self;
                            generation.Post([&generation, result = std::move(result)] {
                              AnswerErrors(generation.reply_, [&] { generation.End(result); });
                            });
                            self.reset();
                          });
    reply_->OnClientGone([&core = core_, handle = handle_] { core.Cancel(handle); });
  }

  /// On any thread.
  void Give(Result<InferResponse> answer, std::function<void()> taken) override {
    Post([this, answer = std::move(answer), taken = std::move(taken)]() mutable {
      streams_ ? Event(Rendered(answer), std::move(taken)) : Keep(Rendered(answer), taken);
    });
  }

 private:
  template <typename Work>
  void Post(Work work) {
    PostSurely(reply_->executor(), [self = shared_from_this(), work = std::move(work)]() mutable {
      try {
        work();
      } catch (const std::exception& error) {  // memory ran out
        spdlog::error("server: an answer of a stream failed: {}", error.what());
        self->core_.Cancel(self->handle_);
      }
    });
  }

  void Event(const Result<std::string>& json, std::function<void()> written) {
    began_ = true;
    reply_->SendPart({fmt::format("data: {}\n\n", json ? *json : ErrorJson(json.error())),
                      /*last=*/false, std::move(written)});
  }

  /// generate has one answer.
  void Keep(Result<std::string> answer, const std::function<void()>& taken) {
    if (kept_) {
      too_many_ = true;
      core_.Cancel(handle_);
    } else {
      kept_ = std::move(answer);
    }
    taken();
  }

  void End(const Result<InferResponse>& result) {
    const bool answers = result && (result->part == AnswerPart::kOnly || !result->outputs.empty() ||
                                    !result->parameters.empty());
    if (streams_) {
      if (!result && !began_) return Send(tl::unexpected<Error>(result.error()));
      if (!result) Event(tl::unexpected<Error>(result.error()), {});
      if (answers) Event(RenderGenerate(*result), {});
      return reply_->SendPart({"", /*last=*/true, {}});
    }
    if (too_many_ || (kept_ && answers)) {
      return Send(Fail(ErrorCode::kInvalidArgument,
                       "generate takes models with one answer, and this one gave several: use "
                       "generate_stream"));
    }
    if (!result) return Send(tl::unexpected<Error>(result.error()));
    if (answers) return Send(RenderGenerate(*result));
    Send(kept_ ? *kept_ : Fail(ErrorCode::kInvalidArgument, "the model gave no answer"));
  }

  void Send(const Result<std::string>& json) {
    HttpResponse response = json ? HttpResponse::Json(*json) : HttpResponse::Failure(json.error());
    response.charge = json ? std::move(charge_) : nullptr;
    reply_->Send(std::move(response));
  }

  static Result<std::string> Rendered(const Result<InferResponse>& answer) {
    if (!answer) return tl::unexpected<Error>(answer.error());
    return RenderGenerate(*answer);
  }

  static std::string ErrorJson(const Error& error) {
    return fmt::format("{{\"error\":{}}}", JsonString(error.message));
  }

  Inference& core_;
  const std::shared_ptr<void> hold_;  // the pool outlives this
  const std::shared_ptr<HttpReply> reply_;
  const bool streams_;
  RequestHandle handle_{};
  std::shared_ptr<MemoryCharge> charge_;
  std::optional<Result<std::string>> kept_;
  bool began_ = false, too_many_ = false;
};

}  // namespace

void GenerateHandler::Handle(const Route& route, const HttpRequest& request,
                             const std::shared_ptr<HttpReply>& reply) {
  const auto parse = [&]() -> Result<HttpInfer> {
    LAGOON_ASSIGN_OR_RETURN(const ModelMetadata model, core_.Metadata(route.model, route.version));
    const std::string_view body(reinterpret_cast<const char*>(request.body.data()),
                                request.body.size());
    Result<HttpInfer> parsed = ParseGenerate(body, model);
    if (parsed) return parsed;
    return Annotate(fmt::format("model {}", Quoted(route.model)), std::move(parsed).error());
  };
  Result<HttpInfer> parsed = parse();
  if (!parsed) return reply->Send(HttpResponse::Failure(parsed.error()));
  parsed->request.model = route.model;
  parsed->request.version = route.version;
  parsed->request.arrival = request.first_byte;
  parsed->request.received = request.received;
  parsed->request.trace = TraceOf(request);
  parsed->request.tenant_of_header = TenantOf(request);
  const bool streams = route.kind == Route::Kind::kModelGenerateStream;
  std::make_shared<Generation>(core_, pool_, reply, streams)->Start(std::move(parsed->request));
}

}  // namespace lagoon
