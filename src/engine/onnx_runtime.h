#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "engine/engine.h"

namespace lagoon {

/// ONNX Runtime as an engine: its shared library, used through its C API on the calling thread. The
/// library is first tried in a child process, and is never unloaded. kNotFound: no such file;
/// kInvalidArgument: it is no ONNX Runtime, is too old, or crashes, exits or hangs (for longer than
/// `limit`) when it is loaded. Messages name the path.
Result<std::shared_ptr<Engine>> OpenOnnxRuntime(const std::string& path,
                                                Nanoseconds limit = std::chrono::seconds(20));

/// The library that the PyPI package `onnxruntime` has installed in `folder`/.venv. Empty: none.
std::string FindOnnxRuntime(const std::string& folder);

/// The library for the program at this path: in the site-packages that the program itself lies in,
/// or in .venv of a folder around the program. Looks no further up than to a folder that any user
/// may write, because the server would run that user's code. Empty: none.
std::string FindOnnxRuntimeAround(const std::string& program);

}  // namespace lagoon
