#pragma once

#include <vector>

#include "device/cuda/source_program.h"

namespace lagoon::cuda {

/// The bodies of bench/gpu/probe_bodies.cuh with the entries of ProbeEntry. Lives for ever.
const Program& ProbeProgram();

/// What its entries are, in this order.
enum class ProbeEntry { kProbe, kWatch, kBusy };
std::vector<EntryName> ProbeEntries();

/// probe_bodies.cuh and all that it includes (made by cmake/embed.cmake).
std::vector<SourceFile> EmbeddedProbeSources();

}  // namespace lagoon::cuda
