#include "server/shares/share_handler.h"

#include "server/shares/share_json.h"
#include "server/unserved.h"
#include "serving/core/share_control.h"

namespace lagoon {

namespace http = boost::beast::http;

void ShareHandler::Handle(const Route& route, const HttpRequest& request,
                          const std::shared_ptr<HttpReply>& reply) {
  if (request.method == http::verb::post) {
    const Status changed =
        Change(route, {reinterpret_cast<const char*>(request.body.data()), request.body.size()});
    if (!changed) return reply->Send(HttpResponse::Failure(changed.error()));
  }
  const ShareControl* const shares = core_.shares();
  if (shares == nullptr) return reply->Send(HttpResponse::Failure(NoShares()));
  const Result<SharesReport> report = shares->ReadShares();
  reply->Send(report ? HttpResponse::Json(SharesJson(*report, Now()))
                     : HttpResponse::Failure(report.error()));
}

Status ShareHandler::Change(const Route& route, std::string_view body) {
  ShareControl* const shares = core_.shares();
  if (route.kind == Route::Kind::kModelResize) {
    LAGOON_ASSIGN_OR_RETURN(const ShareWanted wanted, ParseResizeJson(body));
    if (shares == nullptr) return tl::unexpected<Error>(NoShares());
    return shares->ResizeShare(route.model, route.version, wanted);
  }
  LAGOON_ASSIGN_OR_RETURN(const SharesRules rules, ParseSharesJson(body));
  if (shares == nullptr) return tl::unexpected<Error>(NoShares());
  return shares->SetSharesRules(rules);
}

}  // namespace lagoon
