#pragma once

#include <vector>

#include "device/cuda/driver/source_program.h"

namespace lagoon::cuda {

/// The source of the op bodies and their entries (one per EntryClass), with all included files. It
/// is embedded in the binary.
SourceProgram::Source OpSource();

/// The same as a program, one for all models and devices of the process, with its images in the
/// default cache. Static lifetime.
const Program& OpProgram();

/// The files of OpSource(), with paths relative to src (made by cmake/embed.cmake).
std::vector<SourceFile> EmbeddedOpSources();

}  // namespace lagoon::cuda
