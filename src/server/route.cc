#include "server/route.h"

#include <optional>
#include <span>
#include <vector>

#include "server/unserved.h"

namespace lagoon {
namespace {

constexpr std::size_t kMaxSegments = 8;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

// The decoded segments of the path; empty: no path that could be served. A trailing slash is no
// segment.
std::vector<std::string> Segments(std::string_view target) {
  std::vector<std::string> segments;
  std::string_view path = target.substr(0, target.find_first_of("?#"));
  while (!path.empty()) {
    if (path.front() != '/' || segments.size() == kMaxSegments) return {};
    path.remove_prefix(1);
    if (path.empty()) break;
    const std::string_view segment = path.substr(0, path.find('/'));
    auto decoded = PercentDecode(segment);
    if (!decoded || decoded->empty()) return {};
    segments.push_back(*std::move(decoded));
    path.remove_prefix(segment.size());
  }
  return segments;
}

Route::Kind ModelAction(std::string_view action) {
  if (action == "ready") return Route::Kind::kModelReady;
  if (action == "config") return Route::Kind::kModelConfig;
  if (action == "stats") return Route::Kind::kModelStatistics;
  if (action == "resize") return Route::Kind::kModelResize;
  if (action == "infer") return Route::Kind::kModelInfer;
  return Route::Kind::kUnknown;
}

// A path that starts with "v2", "repository".
Route RepositoryRoute(const std::vector<std::string>& path) {
  if (path.size() == 3 && path[2] == "index") return {Route::Kind::kRepositoryIndex};
  if (path.size() != 5 || path[2] != "models") return {};
  if (path[4] == "load") return {Route::Kind::kRepositoryLoad, path[3]};
  if (path[4] == "unload") return {Route::Kind::kRepositoryUnload, path[3]};
  return {};
}

// A path that starts with "v2".
Route RouteOf(const std::vector<std::string>& path) {
  const auto at = [&](std::size_t i) { return i < path.size() ? std::string_view(path[i]) : ""; };
  if (path.size() == 1) return {Route::Kind::kServer};
  if (at(1) == "health" && path.size() == 3) {
    if (at(2) == "live") return {Route::Kind::kLive};
    if (at(2) == "ready") return {Route::Kind::kReady};
    return {};
  }
  if (at(1) == "scheduler" && path.size() == 2) return {Route::Kind::kScheduler};
  if (at(1) == "schedulers" && path.size() == 2) return {Route::Kind::kSchedulers};
  if (at(1) == "shares" && path.size() == 2) return {Route::Kind::kShares};
  if (at(1) == "fleet" && path.size() == 2) return {Route::Kind::kFleet};
  if (at(1) == "fleet" && at(2) == "placer" && path.size() == 3) return {Route::Kind::kFleetPlacer};
  if (at(1) == "repository") return RepositoryRoute(path);
  if (at(1) != "models" || path.size() < 3) return {};
  if (at(2) == "stats" && path.size() == 3) return {Route::Kind::kStatistics};

  Route route{Route::Kind::kModel, path[2]};
  std::size_t next = 3;
  if (at(next) == "versions" && path.size() > next + 1) {
    route.version = path[next + 1];
    next += 2;
  }
  if (path.size() == next) return route;
  if (path.size() > next + 1) return {};
  route.kind = ModelAction(at(next));
  return route;
}

}  // namespace

Route ParseRoute(std::string_view target) {
  const std::vector<std::string> path = Segments(target);
  if (path.empty() || path[0] != "v2") return {};
  Route route = RouteOf(path);
  if (route.kind != Route::Kind::kUnknown) return route;
  const std::string_view extension = UnservedExtension(std::span(path).subspan(1));
  if (!extension.empty()) route = {Route::Kind::kUnserved, "", "", extension};
  return route;
}

}  // namespace lagoon
