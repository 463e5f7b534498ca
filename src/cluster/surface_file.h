#pragma once

// Surfaces as JSON, a file for each model and device:
//   {"model": "vgg19", "device": "Tesla V100", "source": "GSLICE, Table 5",
//    "formula": {"base_ms": 19.6, "row_ms": 1.36, "fixed": 0.3, "knee": 0.7, "growth": 0.25}}
// or, in place of "formula",
//    "points": {"rows": [1, 8], "shares": [0.5, 1], "latency_ms": [[31.2, 21], [44.8, 30.5]]}

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "cluster/surface.h"

namespace lagoon {

struct NamedSurface {
  std::string model;   // not empty
  std::string device;  // not empty
  std::string source;  // who measured it, and how; not empty
  Surface surface;
};

/// `name`: of the text, for messages. kInvalidArgument names the text, the field and its value; an
/// unknown or a missing field is an error.
Result<NamedSurface> ParseSurface(std::string_view text, const std::string& name);
/// kNotFound: the file cannot be read. Else as ParseSurface.
Result<NamedSurface> ReadSurfaceFile(const std::string& path);

/// {"formula": ...} or {"points": ...}, and what it says. The error has no subject: Annotate() it.
nlohmann::json SurfaceJson(const Surface& surface);
Result<Surface> SurfaceFrom(const nlohmann::json& value);

/// What ParseSurface reads back to the same times.
std::string SurfaceText(const NamedSurface& surface);
/// Replaces the file. kUnavailable: it cannot be written.
Status WriteSurfaceFile(const std::string& path, const NamedSurface& surface);

}  // namespace lagoon
