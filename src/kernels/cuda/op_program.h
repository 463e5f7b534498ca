#pragma once

#include <vector>

#include "device/cuda/source_program.h"

namespace lagoon::cuda {

/// The source of the op bodies and their entries, by EntryClass, with all that it includes. It is
/// embedded in the binary.
SourceProgram::Source OpSource();

/// The same as a program, one for all models and devices of the process, its images in the default
/// cache. Lives for ever.
const Program& OpProgram();

/// The files of OpSource() as they lie under src (made by cmake/embed.cmake).
std::vector<SourceFile> EmbeddedOpSources();

}  // namespace lagoon::cuda
