#pragma once

#include "server/http/http_message.h"
#include "server/regions/shared_regions.h"
#include "server/route.h"

namespace lagoon {

/// Registers shared memory of clients over HTTP, lists it and forgets it. There are no regions of
/// GPUs: their list is empty, and none can be registered.
class RegionHandler {
 public:
  /// Borrowed.
  explicit RegionHandler(SharedRegions& regions) : regions_(regions) {}

  /// Whether the route is one of this handler.
  static bool Has(Route::Kind kind);
  HttpResponse Handle(const Route& route, const HttpRequest& request);
  bool on() const { return regions_.on(); }

 private:
  HttpResponse Register(const std::string& name, const HttpRequest& request);

  SharedRegions& regions_;
};

}  // namespace lagoon
