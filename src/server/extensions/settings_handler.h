#pragma once

#include "server/http/http_message.h"
#include "server/route.h"
#include "serving/core/inference.h"

namespace lagoon {

/// Triton's settings of log and trace over HTTP.
class SettingsHandler {
 public:
  /// `core` is borrowed. `tracing`: the server writes a trace.
  SettingsHandler(const Inference& core, bool tracing) : core_(core), tracing_(tracing) {}

  /// The request has a method that the endpoint has (HasMethod()).
  HttpResponse Handle(const Route& route, const HttpRequest& request) const;

 private:
  HttpResponse Logging(const HttpRequest& request) const;
  HttpResponse Tracing(const HttpRequest& request) const;

  const Inference& core_;
  const bool tracing_;
};

}  // namespace lagoon
