#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "server/http/http_message.h"
#include "server/route.h"
#include "serving/core/inference.h"

namespace lagoon {

/// /v2/shares: GET tells the loads and shares of all models, POST sets the rules of tuning.
/// /v2/models/MODEL/resize: POST moves a share while the model serves. Both POSTs answer with what
/// GET tells then.
class ShareHandler {
 public:
  /// Bytes of the largest body that is accepted.
  static constexpr std::size_t kMaxBodyBytes = 4096;

  /// Borrowed.
  explicit ShareHandler(Inference& core) : core_(core) {}

  /// `route` is of kind kShares or kModelResize, and has the method of the request.
  void Handle(const Route& route, const HttpRequest& request,
              const std::shared_ptr<HttpReply>& reply);

 private:
  Status Change(const Route& route, std::string_view body);

  Inference& core_;
};

}  // namespace lagoon
