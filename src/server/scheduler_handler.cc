#include "server/scheduler_handler.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "server/oip_json.h"

namespace lagoon {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;

// When this has returned, the calling thread holds no reference to the connection.
void PostAnswer(std::shared_ptr<HttpReply> reply, std::string name, Status status) {
  const Strand strand = reply->executor();
  net::post(strand, [reply = std::move(reply), name = std::move(name), status = std::move(status)] {
    reply->Send(status ? HttpResponse::Json(SchedulerJson(name))
                       : HttpResponse::Failure(status.error()));
  });
}

}  // namespace

void SchedulerHandler::Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  if (request.method == http::verb::post) return Switch(request, reply);
  if (request.method == http::verb::get) {
    return reply->Send(HttpResponse::Json(SchedulerJson(core_.scheduler().name)));
  }
  reply->Send(HttpResponse::WrongMethod(request.target, "GET, POST"));
}

void SchedulerHandler::Switch(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  const Result<std::string> name =
      ParseSchedulerJson({reinterpret_cast<const char*>(request.body.data()), request.body.size()});
  if (!name) return reply->Send(HttpResponse::Failure(name.error()));
  // The thread that finishes the last request under the old scheduler runs the callback; it may be
  // one of the device's.
  // `reply = reply`: a captured copy that can be moved from, so that the connection is released
  // before the pool.
  core_.SwitchScheduler(*name,
                        [reply = reply, name = *name, hold = pool_.Hold()](Status status) mutable {
                          PostAnswer(std::move(reply), std::move(name), std::move(status));
                          hold.reset();  // this thread has left the pool's code
                        });
}

}  // namespace lagoon
