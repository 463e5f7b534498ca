#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "server/fleet/repository.h"
#include "server/http/http_message.h"
#include "server/http/json_lane.h"
#include "server/route.h"
#include "serving/core/inference.h"
#include "serving/core/repository_control.h"

namespace lagoon {

/// What tells of several devices and changes which models serve:
/// - /v2/fleet: GET tells the devices, replicas and the last decision.
/// - /v2/fleet/placer: POST sets the placer, and answers with what GET /v2/fleet tells then.
/// - /v2/fleet/members and /v2/fleet/leave: POST, a server joins or leaves; the same answer.
/// - /v2/repository: Triton's model repository API, if the server was started so: index, load and
///   unload.
class FleetHandler {
 public:
  /// All are borrowed. `pool`: the one that runs the connections. `lane`: reads large JSON.
  /// `model_control`: clients may load and unload models.
  FleetHandler(Inference& core, IoPool& pool, JsonLane& lane, bool model_control)
      : core_(core), pool_(pool), lane_(lane), model_control_(model_control) {}

  bool model_control() const { return model_control_; }
  /// The most bytes of the body of a load: its JSON may hold files.
  std::size_t MaxLoadBytes() const { return model_control_ ? kMaxLoadBytes : 0; }

  /// `route` is of kind kFleet... or kRepository..., and has the method of the request.
  void Handle(const Route& route, const HttpRequest& request,
              const std::shared_ptr<HttpReply>& reply);

 private:
  static constexpr std::size_t kMaxLoadBytes = std::size_t{64} << 20;

  /// What a POST of an operator changes in the fleet.
  Status ChangeFleet(const Route& route, std::string_view body);
  void HandleFleet(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void HandleRepository(const Route& route, const HttpRequest& request,
                        const std::shared_ptr<HttpReply>& reply);
  void Change(const Route& route, const std::shared_ptr<HttpReply>& reply,
              Result<ChangeWords> with);

  Inference& core_;
  IoPool& pool_;
  JsonLane& lane_;
  const bool model_control_;
};

}  // namespace lagoon
