#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_request_rules.h"

namespace lagoon {

/// The names under which clients may ask for a server, in `Host`. Keeps out pages of other sites
/// that a browser beside the server shows.
struct HttpHosts {
  /// Names with a dot that are allowed. Always allowed are addresses, and names without a dot:
  /// no site on the internet can have such a name.
  std::vector<std::string> allowed = {};
  /// Any other name is allowed too, but not for changes by a browser.
  bool any = false;

  bool Allows(std::string_view host) const;
};

/// Whether a client's `Host` can have this name: letters, digits, '-' and '_' between dots, without
/// scheme and port.
bool IsHostName(std::string_view name);

/// The names that a server on the IP address `address` answers to. Only programs beside the server
/// can reach an address of this machine alone, and they need no other name. `allowed`: names that
/// the operator gave; "*" allows all.
HttpHosts HostsFor(std::string_view address, const std::vector<std::string>& allowed);

/// The reason to refuse a request that a page of another site may have made. `changes`: the request
/// would change the server. Reading is refused when the page has given its own name to the server's
/// address (DNS rebinding); a change also when a browser says that another site asks for it.
std::optional<HttpRefusal> RefuseForeign(const HttpRequestHeader& header, const HttpHosts& hosts,
                                         bool changes);

}  // namespace lagoon
