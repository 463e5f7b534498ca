#include "server/shares/share_handler.h"

#include "server/shares/share_json.h"

namespace lagoon {

namespace http = boost::beast::http;

void ShareHandler::Handle(const Route& route, const HttpRequest& request,
                          const std::shared_ptr<HttpReply>& reply) {
  const bool post = request.method == http::verb::post;
  const bool resize = route.kind == Route::Kind::kModelResize;
  if (!post && (resize || request.method != http::verb::get)) {
    return reply->Send(HttpResponse::WrongMethod(request.target, resize ? "POST" : "GET, POST"));
  }
  if (post) {
    const Status changed =
        Change(route, {reinterpret_cast<const char*>(request.body.data()), request.body.size()});
    if (!changed) return reply->Send(HttpResponse::Failure(changed.error()));
  }
  const Result<SharesReport> report = core_.Shares();
  reply->Send(report ? HttpResponse::Json(SharesJson(*report, Now()))
                     : HttpResponse::Failure(report.error()));
}

Status ShareHandler::Change(const Route& route, std::string_view body) {
  if (route.kind == Route::Kind::kModelResize) {
    LAGOON_ASSIGN_OR_RETURN(const ShareWanted wanted, ParseResizeJson(body));
    return core_.ResizeShare(route.model, route.version, wanted);
  }
  LAGOON_ASSIGN_OR_RETURN(const SharesRules rules, ParseSharesJson(body));
  return core_.SetSharesRules(rules);
}

}  // namespace lagoon
