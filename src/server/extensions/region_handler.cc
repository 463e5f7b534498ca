#include "server/extensions/region_handler.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/json_fields.h"
#include "base/text.h"

namespace lagoon {
namespace {

HttpResponse StatusOf(const Result<std::vector<RegionSpec>>& regions) {
  if (!regions) return HttpResponse::Failure(regions.error());
  auto list = nlohmann::ordered_json::array();
  for (const RegionSpec& region : *regions) {
    list.push_back({{"name", region.name},
                    {"key", region.key},
                    {"offset", region.offset},
                    {"byte_size", region.bytes}});
  }
  return HttpResponse::Json(DumpJson(list));
}

}  // namespace

bool RegionHandler::Has(Route::Kind kind) {
  switch (kind) {
    case Route::Kind::kRegionStatus:
    case Route::Kind::kRegionRegister:
    case Route::Kind::kRegionUnregister:
    case Route::Kind::kCudaRegionStatus:
    case Route::Kind::kCudaRegionRegister:
    case Route::Kind::kCudaRegionUnregister:
      return true;
    default:
      return false;
  }
}

HttpResponse RegionHandler::Handle(const Route& route, const HttpRequest& request) {
  switch (route.kind) {
    case Route::Kind::kRegionStatus:
      return StatusOf(regions_.List(route.model));
    case Route::Kind::kRegionRegister:
      return Register(route.model, request);
    case Route::Kind::kRegionUnregister:
      route.model.empty() ? regions_.UnregisterAll() : regions_.Unregister(route.model);
      return HttpResponse::Json("{}");
    case Route::Kind::kCudaRegionStatus:
      if (route.model.empty()) return HttpResponse::Json("[]");
      return HttpResponse::Failure(NoCudaRegion(route.model));
    case Route::Kind::kCudaRegionRegister:
      return HttpResponse::Failure(NoCudaRegister(route.model));
    default:  // there is nothing to unregister
      return HttpResponse::Json("{}");
  }
}

HttpResponse RegionHandler::Register(const std::string& name, const HttpRequest& request) {
  RegionSpec spec{name, "", 0, 0};
  const std::string_view body(reinterpret_cast<const char*>(request.body.data()),
                              request.body.size());
  // An error about the text could repeat the key.
  const lagoon::Status read =
      ReadJson(body, {JsonField::Text("key", spec.key), JsonField::Whole("byte_size", spec.bytes)},
               {JsonField::Whole("offset", spec.offset)});
  const lagoon::Status registered =
      read ? regions_.Register(std::move(spec))
           : lagoon::Status(Fail(ErrorCode::kInvalidArgument,
                                 fmt::format("shared memory region {}: the body must be "
                                             "{{\"key\": TEXT, \"offset\": BYTES, \"byte_size\": "
                                             "BYTES}}",
                                             Quoted(name))));
  return registered ? HttpResponse::Json("{}") : HttpResponse::Failure(registered.error());
}

}  // namespace lagoon
