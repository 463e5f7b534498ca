#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lagoon {

// Triton's extensions that Lagoon does not serve. Their names are Triton's; a client that asks for
// one gets 501 or UNIMPLEMENTED with UnservedMessage().

struct UnservedRow {
  std::string_view name;
  std::string_view path;     // the segment below /v2 or after the model
  std::string_view method;   // how the names of its gRPC methods begin; empty: it has none
  std::string_view instead;  // what to do instead
};

std::span<const UnservedRow> UnservedExtensions();

/// The extension that a method belongs to ("/inference.GRPCInferenceService/RepositoryIndex");
/// empty: none of them.
std::string_view UnservedExtensionOfRpc(std::string_view method);

/// Names `extension` and what to use instead.
std::string UnservedMessage(std::string_view extension);

// The answers where the core has no such facet (Inference): kUnimplemented.

Error NoScheduler();
Error NoShares();
/// Where clients may not load and unload models. `fleet`: the server has one.
Error NoModelControl(bool fleet);
/// `change`: "loaded" or "unloaded".
Error NoRepository(std::string_view model, std::string_view change);
Error NoFleet();
/// `what` a client has sent, as in "placer 'lagoon'".
Error NoFleetFor(std::string_view what);

}  // namespace lagoon
