#include "server/http/http_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>

#include "base/text.h"

namespace lagoon {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

constexpr unsigned kForbidden = 403;
constexpr unsigned kWrongType = 415;

beast::string_view Of(std::string_view text) { return {text.data(), text.size()}; }
std::string_view Of(beast::string_view text) { return {text.data(), text.size()}; }
bool Same(std::string_view a, std::string_view b) { return beast::iequals(Of(a), Of(b)); }

/// "name:port" without the port, and "[::1]:port" without port and brackets.
std::string_view WithoutPort(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  host = host.substr(0, host.find(':'));
  return host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
}

/// "https://name:port" without the scheme; empty for "null" and the like.
std::string_view HostOf(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

bool IsLoopback(std::string_view address) {
  boost::system::error_code error;
  const auto ip = boost::asio::ip::make_address(std::string(address), error);
  return !error && ip.is_loopback();
}

bool IsAddress(std::string_view host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(std::string(host), error);
  return !error;
}

/// Types that a page of another site can send without asking the server first, but for the one that
/// `curl -d` sends. Browsers name the page in `Origin` for all of them.
bool IsOfForms(std::string_view type) {
  type = type.substr(0, type.find(';'));
  return Same(type.substr(0, type.find_last_not_of(' ') + 1), "text/plain") ||
         Same(type.substr(0, type.find_last_not_of(' ') + 1), "multipart/form-data");
}

std::optional<HttpRefusal> RefuseChange(const HttpRequestHeader& header, const HttpHosts& hosts) {
  const std::string_view host = Of(header[http::field::host]);
  if (const auto origin = header.find(http::field::origin); origin != header.end()) {
    const std::string_view page = HostOf(Of(origin->value()));
    HttpHosts strict = hosts;
    strict.any = false;
    const bool own = Same(page, host) && strict.Allows(host);
    const bool named = std::ranges::any_of(
        hosts.allowed, [&](const std::string& name) { return Same(name, WithoutPort(page)); });
    if (!own && !named) {
      return HttpRefusal{kForbidden,
                         fmt::format("a page of {} may not change this server; `--allow-host NAME` "
                                     "allows the pages of a host",
                                     Quoted(Of(origin->value())))};
    }
  } else if (const auto site = header.find("Sec-Fetch-Site");
             site != header.end() && !Same(Of(site->value()), "same-origin") &&
             !Same(Of(site->value()), "none")) {
    return HttpRefusal{kForbidden, "a page of another site may not change this server"};
  }
  const std::string_view type = Of(header[http::field::content_type]);
  if (!IsOfForms(type)) return std::nullopt;
  return HttpRefusal{kWrongType, fmt::format("content type {} is not supported here, "
                                             "application/json is",
                                             Quoted(type))};
}

}  // namespace

bool HttpHosts::Allows(std::string_view host) const {
  const std::string_view name = WithoutPort(host);
  if (any || name.find('.') == std::string_view::npos || IsAddress(name)) return true;
  if (name.size() > 10 && Same(name.substr(name.size() - 10), ".localhost")) return true;
  return std::ranges::any_of(allowed, [&](const std::string& known) { return Same(known, name); });
}

bool IsHostName(std::string_view name) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !name.empty() && name.size() <= 253 && name.find_first_not_of(kLetters) == name.npos &&
         name.front() != '.' && name.back() != '.' && name.find("..") == name.npos;
}

HttpHosts HostsFor(std::string_view address, const std::vector<std::string>& allowed) {
  const bool all = std::ranges::find(allowed, "*") != allowed.end();
  return {allowed, all || (allowed.empty() && !IsLoopback(address))};
}

std::optional<HttpRefusal> RefuseForeign(const HttpRequestHeader& header, const HttpHosts& hosts,
                                         bool changes) {
  const std::string_view host = Of(header[http::field::host]);
  if (!hosts.Allows(host)) {
    return HttpRefusal{kForbidden,
                       fmt::format("this server is not known as {}: ask for its address or "
                                   "localhost, or start it with `--allow-host {}`",
                                   Quoted(host), "NAME")};
  }
  return changes ? RefuseChange(header, hosts) : std::nullopt;
}

}  // namespace lagoon
