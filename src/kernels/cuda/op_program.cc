#include "kernels/cuda/op_program.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/bodies/args.cuh"

namespace lagoon::cuda {
namespace {

constexpr char kMain[] = "kernels/cuda/bodies/entries.cu";
// The only names that the plain-data headers use from the standard library, which NVRTC lacks.
constexpr char kStandardTypes[] =
    "#pragma once\n"
    "namespace std { using uint8_t = unsigned char; using uint32_t = unsigned int; }\n";

}  // namespace

SourceProgram::Source OpSource() {
  SourceProgram::Source source;
  source.headers = EmbeddedOpSources();
  const auto main = std::find_if(source.headers.begin(), source.headers.end(),
                                 [](const SourceFile& file) { return file.name == kMain; });
  LAGOON_CHECK(main != source.headers.end());
  source.main = std::move(*main);
  *main = {"cstdint", kStandardTypes};
#define LAGOON_ENTRY_NAME(name) source.entries.push_back({"lagoon_" #name, kBodyThreads});
  LAGOON_BODIES(LAGOON_ENTRY_NAME)
#undef LAGOON_ENTRY_NAME
  return source;
}

const Program& OpProgram() {
  static const SourceProgram program(OpSource(), ImageCache(ImageCache::DefaultFolder()));
  return program;
}

}  // namespace lagoon::cuda
