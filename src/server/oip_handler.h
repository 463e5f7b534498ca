#pragma once

#include <memory>

#include "server/http/http_message.h"
#include "server/infer_handler.h"
#include "server/route.h"
#include "server/scheduler_handler.h"
#include "server/shares/share_handler.h"
#include "serving/core.h"

namespace lagoon {

/// The Open Inference Protocol over HTTP.
class OipHandler final : public HttpHandler {
 public:
  /// All are borrowed. `admin`: clients of this port may switch the scheduler and move shares.
  OipHandler(InferenceCore& core, InferHandler& infer, SchedulerHandler& scheduler,
             ShareHandler& shares, bool admin)
      : core_(core), infer_(infer), scheduler_(scheduler), shares_(shares), admin_(admin) {}

  /// The port that accepts such changes, to be named when this port refuses one. Must be called
  /// before the first request.
  void SetAdminPort(int port) { admin_port_ = port; }

  /// Only inference requests may have large bodies.
  std::size_t MaxBodyBytes(boost::beast::http::verb method, std::string_view target) const override;
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override;

 private:
  HttpResponse OnAdminPort(std::string_view what) const;
  HttpResponse Get(const Route& route) const;
  HttpResponse Ready() const;
  HttpResponse ModelReady(const Route& route) const;

  InferenceCore& core_;
  InferHandler& infer_;
  SchedulerHandler& scheduler_;
  ShareHandler& shares_;
  const bool admin_;
  int admin_port_ = 0;
};

}  // namespace lagoon
