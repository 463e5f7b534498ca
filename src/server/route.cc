#include "server/route.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lagoon {
namespace {

constexpr std::size_t kMaxSegments = 8;
constexpr std::string_view kModel = "{model}";
constexpr std::string_view kRegion = "{region}";

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

// The decoded segments of the path; empty: no path that could be served.
std::vector<std::string> Segments(std::string_view target) {
  std::vector<std::string> segments;
  std::string_view path = target.substr(0, target.find_first_of("?#"));
  while (!path.empty()) {
    if (path.front() != '/' || segments.size() == kMaxSegments) return {};
    path.remove_prefix(1);
    // "/v2/" is a path of the Open Inference Protocol; no other one ends with a slash.
    if (path.empty() && segments.size() > 1) return {};
    if (path.empty()) break;
    const std::string_view segment = path.substr(0, path.find('/'));
    auto decoded = PercentDecode(segment);
    if (!decoded || decoded->empty()) return {};
    segments.push_back(*std::move(decoded));
    path.remove_prefix(segment.size());
  }
  return segments;
}

// Whether `path` has the segments of `pattern`. Then `model` is the one at {model} or {region}.
bool Matches(std::string_view pattern, std::span<const std::string> path, std::string& model) {
  std::string_view name;
  for (const std::string& segment : path) {
    if (pattern.empty()) return false;
    pattern.remove_prefix(1);  // the slash
    const std::string_view wanted = pattern.substr(0, pattern.find('/'));
    pattern.remove_prefix(wanted.size());
    if (wanted == kModel || wanted == kRegion) {
      name = segment;
    } else if (wanted != segment) {
      return false;
    }
  }
  if (!pattern.empty()) return false;
  model = name;
  return true;
}

// Takes /versions/V behind the name of a model out of the path.
std::string TakeVersion(std::vector<std::string>& path) {
  if (path.size() < 5 || path[0] != "v2" || path[1] != "models" || path[3] != "versions") return {};
  std::string version = std::move(path[4]);
  path.erase(path.begin() + 3, path.begin() + 5);
  return version;
}

Route RouteOf(std::vector<std::string> path) {
  Route route;
  route.version = TakeVersion(path);
  for (const Endpoint& endpoint : kEndpoints) {
    const bool of_models = endpoint.path.find(kModel) != std::string_view::npos;
    if (!route.version.empty() && !of_models) continue;
    if (!Matches(endpoint.path, path, route.model)) continue;
    route.kind = endpoint.kind;
    return route;
  }
  return {};
}

}  // namespace

const Endpoint* FindEndpoint(Route::Kind kind) {
  const auto* found = std::ranges::find(kEndpoints, kind, &Endpoint::kind);
  return found == std::end(kEndpoints) ? nullptr : found;
}

Route ParseRoute(std::string_view target) {
  std::vector<std::string> path = Segments(target);
  if (path.empty()) return {};
  return RouteOf(std::move(path));
}

}  // namespace lagoon
