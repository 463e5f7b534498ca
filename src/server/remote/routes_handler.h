#pragma once

#include <memory>

#include "server/http/http_message.h"
#include "server/remote/ingress_core.h"

namespace lagoon {

/// /v2/fleet/routes of an ingress: GET tells the routes, the members and the number of retries,
/// POST sets the routes (ParseRoutesJson) and answers with what GET tells then.
class RoutesHandler final : public HttpHandler {
 public:
  /// Borrowed.
  explicit RoutesHandler(IngressCore& core) : core_(core) {}

  std::size_t MaxBodyBytes(boost::beast::http::verb method, std::string_view target) const override;
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override;

 private:
  HttpResponse Tell() const;

  IngressCore& core_;
};

}  // namespace lagoon
