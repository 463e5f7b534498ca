#include "server/extensions/settings_handler.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/json_fields.h"
#include "base/text.h"
#include "server/extensions/server_settings.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

/// The object that POST sends.
Result<Json> ParseSettings(const HttpRequest& request) {
  const std::string_view body(reinterpret_cast<const char*>(request.body.data()),
                              request.body.size());
  auto json = ParseJson(body);
  if (!json) return Annotate("the settings", std::move(json).error());
  if (!json->is_object()) return Fail(ErrorCode::kInvalidArgument, "the settings are no object");
  return json;
}

tl::unexpected<Error> Wrong(const std::string& name, const Json& value) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("setting {} cannot be {}", Quoted(name), ShownJson(value)));
}

Result<LogSettings> ParseLogSettings(const HttpRequest& request) {
  LAGOON_ASSIGN_OR_RETURN(const Json json, ParseSettings(request));
  LogSettings settings;
  for (const auto& [name, value] : json.items()) {
    if (value.is_boolean()) {
      settings[name] = value.get<bool>();
    } else if (value.is_number_unsigned()) {
      settings[name] = value.get<std::uint64_t>();
    } else if (value.is_string()) {
      settings[name] = value.get<std::string>();
    } else {
      return Wrong(name, value);
    }
  }
  return settings;
}

/// A value is a text, a list of texts, or null.
Result<TraceSettings> ParseTraceSettings(const HttpRequest& request) {
  LAGOON_ASSIGN_OR_RETURN(const Json json, ParseSettings(request));
  TraceSettings settings;
  for (const auto& [name, value] : json.items()) {
    std::vector<std::string>& values = settings[name];
    if (value.is_null()) continue;
    for (const Json& text : value.is_array() ? value : Json::array({value})) {
      if (!text.is_string()) return Wrong(name, value);
      values.push_back(text.get<std::string>());
    }
  }
  return settings;
}

}  // namespace

HttpResponse SettingsHandler::Handle(const Route& route, const HttpRequest& request) const {
  if (route.kind == Route::Kind::kLogging) return Logging(request);
  if (route.kind == Route::Kind::kModelTraceSettings) {
    const auto model = core_.Metadata(route.model, route.version);
    if (!model) return HttpResponse::Failure(model.error());
  }
  return Tracing(request);
}

HttpResponse SettingsHandler::Logging(const HttpRequest& request) const {
  if (request.method == boost::beast::http::verb::post) {
    const auto changes = ParseLogSettings(request);
    if (!changes) return HttpResponse::Failure(changes.error());
    const Status changed = ChangeLogSettings(*changes);
    if (!changed) return HttpResponse::Failure(changed.error());
  }
  Json json;
  for (const auto& [name, value] : ReadLogSettings()) {
    std::visit([&json, name = name](const auto& held) { json[name] = held; }, value);
  }
  return HttpResponse::Json(DumpJson(json));
}

HttpResponse SettingsHandler::Tracing(const HttpRequest& request) const {
  if (request.method == boost::beast::http::verb::post) {
    const auto changes = ParseTraceSettings(request);
    if (!changes) return HttpResponse::Failure(changes.error());
    const Status checked = CheckTraceSettings(tracing_, *changes);
    if (!checked) return HttpResponse::Failure(checked.error());
  }
  Json json;
  for (const auto& [name, values] : ReadTraceSettings(tracing_)) {
    json[name] = name == "trace_level" ? Json(values) : Json(values.front());
  }
  return HttpResponse::Json(DumpJson(json));
}

}  // namespace lagoon
