#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "server/fleet/repository.h"
#include "serving/core/fleet_control.h"
#include "serving/core/models.h"
#include "serving/core/repository_control.h"

namespace lagoon {

// Bodies of requests and answers at /v2/fleet (docs/guide/fleet.md) and /v2/repository (Triton's
// model repository extension).

/// `now`: of the report; the last decision is told by how long ago it was.
std::string FleetJson(const FleetReport& report, TimePoint now);
/// The name in {"placer": NAME}. kInvalidArgument says what is wrong with `body`.
Result<std::string> ParsePlacerJson(std::string_view body);
/// {"name": NAME, "address": "HOST:PORT", "memory_bytes": N}; the last may be absent.
Result<FleetJoin> ParseJoinJson(std::string_view body);
/// The name in {"name": NAME}.
Result<std::string> ParseLeaveJson(std::string_view body);

/// Triton's index: name, version, state, and why a model is not ready, without paths of the server.
/// `ready_only`: without the models that are not ready.
std::string RepositoryIndexJson(Inference& core, bool ready_only);
/// The `ready` of {"ready": BOOL}, false by default; the body may be empty. kInvalidArgument.
Result<bool> ParseIndexJson(std::string_view body);
/// What the body of a load gives in place of what the repository has. The body, of an unload too,
/// is empty or a JSON object. kInvalidArgument: the config is no string, or a file is not base64.
/// kUnimplemented: other parameters.
Result<ChangeWords> ParseRepositoryBody(std::string_view body);

/// The bytes of `text`, with the padding that makes its length a multiple of 4. kInvalidArgument.
Result<std::string> FromBase64(std::string_view text);

}  // namespace lagoon
