#pragma once

#include <vector>

#include "device/cuda/driver/source_program.h"

namespace lagoon::cuda {

/// The bodies of bench/gpu/probe_bodies.cuh with the entries of ProbeEntry. The reference stays
/// valid until the process ends.
const Program& ProbeProgram();

/// The entries of ProbeProgram(), in this order.
enum class ProbeEntry { kProbe, kWatch, kBusy };
std::vector<EntryName> ProbeEntries();

/// probe_bodies.cuh and all files that it includes (made by cmake/embed.cmake).
std::vector<SourceFile> EmbeddedProbeSources();

}  // namespace lagoon::cuda
