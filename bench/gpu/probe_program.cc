#include "bench/gpu/probe_program.h"

#include "bench/gpu/probe_args.cuh"

namespace lagoon::cuda {

std::vector<EntryName> ProbeEntries() {
  return {{"lagoon_probe", probe::kThreads},
          {"lagoon_watch", probe::kThreads},
          {"lagoon_busy", probe::kThreads}};
}

const Program& ProbeProgram() {
  static const SourceProgram program({{"probe.cu", "#include \"bench/gpu/probe_bodies.cuh\"\n"},
                                      EmbeddedProbeSources(),
                                      ProbeEntries()},
                                     ImageCache(ImageCache::DefaultFolder()));
  return program;
}

}  // namespace lagoon::cuda
