#include "server/scheduler_handler.h"

#include <utility>

#include "policies/registry.h"
#include "server/route.h"
#include "server/scheduler_json.h"
#include "server/unserved.h"
#include "serving/core/scheduler_control.h"

namespace lagoon {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;

void PostAnswer(std::shared_ptr<HttpReply> reply, const SchedulerConfig& config, Status status) {
  HttpReply& to = *reply;
  PostAnswering(std::move(reply), [&to, config, status = std::move(status)] {
    to.Send(status ? HttpResponse::Json(SchedulerJson(config))
                   : HttpResponse::Failure(status.error()));
  });
}

}  // namespace

void SchedulerHandler::Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  if (ParseRoute(request.target).kind == Route::Kind::kSchedulers) {
    return reply->Send(HttpResponse::Json(SchedulersJson(SchedulerNames())));
  }
  if (request.method == http::verb::post) return Switch(request, reply);
  const SchedulerControl* const schedulers = core_.schedulers();
  reply->Send(schedulers != nullptr ? HttpResponse::Json(SchedulerJson(schedulers->scheduler()))
                                    : HttpResponse::Failure(NoScheduler()));
}

void SchedulerHandler::Switch(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  const Result<SchedulerChoice> choice =
      ParseSchedulerJson({reinterpret_cast<const char*>(request.body.data()), request.body.size()});
  if (!choice) return reply->Send(HttpResponse::Failure(choice.error()));
  Result<Scheduler> scheduler = MakeScheduler(*choice);
  if (!scheduler) return reply->Send(HttpResponse::Failure(scheduler.error()));
  SchedulerControl* const schedulers = core_.schedulers();
  if (schedulers == nullptr) return reply->Send(HttpResponse::Failure(NoScheduler()));
  const SchedulerConfig config = scheduler->config;
  // The thread that finishes the last request under the old scheduler runs the callback; it may be
  // one of the device's.
  // `reply = reply`: a captured copy that can be moved from, so that the connection is released
  // before the pool.
  schedulers->SwitchScheduler(*std::move(scheduler),
                              [reply = reply, config, hold = pool_.Hold()](Status status) mutable {
                                PostAnswer(std::move(reply), config, std::move(status));
                                hold.reset();  // this thread has left the pool's code
                              });
}

}  // namespace lagoon
