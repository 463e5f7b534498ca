#pragma once

#include <memory>

#include "server/http_message.h"
#include "server/route.h"
#include "serving/core.h"

namespace lagoon {

/// The Open Inference Protocol over HTTP.
class OipHandler final : public HttpHandler {
 public:
  /// Both are borrowed; `pool` is where the connections live.
  OipHandler(InferenceCore& core, IoPool& pool) : core_(core), pool_(pool) {}

  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override;

 private:
  HttpResponse Get(const Route& route) const;
  HttpResponse Ready() const;
  HttpResponse ModelReady(const Route& route) const;
  void SwitchScheduler(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void Infer(const Route& route, const HttpRequest& request,
             const std::shared_ptr<HttpReply>& reply);

  InferenceCore& core_;
  IoPool& pool_;
};

}  // namespace lagoon
