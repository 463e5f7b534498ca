#include "server/fleet/fleet_handler.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "server/fleet/fleet_json.h"
#include "server/fleet/repository.h"
#include "server/unserved.h"
#include "serving/core/fleet_control.h"
#include "serving/core/repository_control.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

std::string_view BodyOf(const HttpRequest& request) {
  return {reinterpret_cast<const char*>(request.body.data()), request.body.size()};
}

}  // namespace

void FleetHandler::Handle(const Route& route, const HttpRequest& request,
                          const std::shared_ptr<HttpReply>& reply) {
  switch (route.kind) {
    case Route::Kind::kFleet:
      return HandleFleet(request, reply);
    case Route::Kind::kFleetPlacer:
    case Route::Kind::kFleetMembers:
    case Route::Kind::kFleetLeave: {
      const Status changed = ChangeFleet(route, BodyOf(request));
      if (!changed) return reply->Send(HttpResponse::Failure(changed.error()));
      return HandleFleet(request, reply);
    }
    default:
      return HandleRepository(route, request, reply);
  }
}

Status FleetHandler::ChangeFleet(const Route& route, std::string_view body) {
  FleetControl* const fleet = core_.fleet();
  const auto there_is_none = [&](const std::string& text) -> Status {
    return tl::unexpected<Error>(NoFleetFor(text));
  };
  if (route.kind == Route::Kind::kFleetMembers) {
    LAGOON_ASSIGN_OR_RETURN(const FleetJoin join, ParseJoinJson(body));
    return fleet == nullptr ? there_is_none(fmt::format("member {}", Quoted(join.name)))
                            : fleet->Join(join);
  }
  if (route.kind == Route::Kind::kFleetLeave) {
    LAGOON_ASSIGN_OR_RETURN(const std::string name, ParseLeaveJson(body));
    return fleet == nullptr ? there_is_none(fmt::format("member {}", Quoted(name)))
                            : fleet->Leave(name);
  }
  LAGOON_ASSIGN_OR_RETURN(const std::string name, ParsePlacerJson(body));
  return fleet == nullptr ? there_is_none(fmt::format("placer {}", Quoted(name)))
                          : fleet->SetPlacer(name);
}

void FleetHandler::HandleFleet(const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
  const FleetControl* const fleet = core_.fleet();
  reply->Send(fleet != nullptr ? HttpResponse::Json(FleetJson(fleet->ReadFleet(), Now()))
                               : HttpResponse::Failure(NoFleet()));
}

void FleetHandler::HandleRepository(const Route& route, const HttpRequest& request,
                                    const std::shared_ptr<HttpReply>& reply) {
  if (!model_control_ && route.kind != Route::Kind::kRepositoryIndex) {
    return reply->Send(HttpResponse::Failure(NoModelControl(core_.fleet() != nullptr)));
  }
  if (route.kind == Route::Kind::kRepositoryIndex) {
    const Result<bool> ready_only = ParseIndexJson(BodyOf(request));
    return reply->Send(ready_only ? HttpResponse::Json(RepositoryIndexJson(core_, *ready_only))
                                  : HttpResponse::Failure(ready_only.error()));
  }
  if (request.body.size() <= kMaxEdgeJsonBytes) {
    return Change(route, reply, ParseRepositoryBody(BodyOf(request)));
  }
  // A model came with the load.
  const TimePoint received = request.received;
  const std::size_t bytes = request.body.size();
  const auto keep = reply;
  auto work = [this, route, reply, body = BodyOf(request), payload = request.payload] {
    AnswerErrors(reply, [&] { Change(route, reply, ParseRepositoryBody(body)); });
  };
  if (!lane_.Post(received, bytes, std::move(work))) {
    keep->Send(HttpResponse::Failure(503, "too many large JSON texts wait already; try again"));
  }
}

/// The answer to a change comes when the change is made, from a thread of the core.
void FleetHandler::Change(const Route& route, const std::shared_ptr<HttpReply>& reply,
                          Result<ChangeWords> with) {
  if (!with) return reply->Send(HttpResponse::Failure(with.error()));
  const bool load = route.kind == Route::Kind::kRepositoryLoad;
  RepositoryControl* const repository = core_.repository();
  if (repository == nullptr) {
    return reply->Send(
        HttpResponse::Failure(NoRepository(route.model, load ? "loaded" : "unloaded")));
  }
  // `reply = reply`: a captured copy that can be moved from, so that the connection is released
  // before the pool.
  auto done = [load, reply = reply, model = route.model, hold = pool_.Hold()](Status made) mutable {
    HttpReply& to = *reply;
    PostAnswering(std::move(reply), [load, &to, model = std::move(model), made = std::move(made)] {
      const Status status = ForClients(load, model, made);
      to.Send(status ? HttpResponse::Json("{}") : HttpResponse::Failure(status.error()));
    });
    hold.reset();  // this thread has left the pool's code
  };
  if (load) return repository->LoadModel(route.model, *std::move(with), done);
  UnloadModel(core_, route.model, with->with_steps, done);
}

}  // namespace lagoon
