#include "cluster/learned/built_in_weights.h"

// LAGOON_PLACEMENT_WEIGHTS: the folder models/placement. A program that is built without the macro,
// as those of tools/mutants.py, has no weights.
#ifdef LAGOON_PLACEMENT_WEIGHTS

#define LAGOON_EMBED(symbol, file)                                  \
  __asm__(                                                          \
      ".section .rodata\n"                                          \
      ".balign 16\n" #symbol                                        \
      "_begin:\n"                                                   \
      ".incbin \"" LAGOON_PLACEMENT_WEIGHTS "/" file "\"\n" #symbol \
      "_end:\n"                                                     \
      ".byte 0\n"                                                   \
      ".previous\n");                                               \
  extern "C" const char symbol##_begin[], symbol##_end[]

LAGOON_EMBED(lagoon_weights_inss, "inss.weights");
LAGOON_EMBED(lagoon_weights_inss_ni, "inss-ni.weights");

namespace lagoon {

std::string_view BuiltInWeights(std::string_view name) {
  if (name == "inss") return {lagoon_weights_inss_begin, lagoon_weights_inss_end};
  if (name == "inss-ni") return {lagoon_weights_inss_ni_begin, lagoon_weights_inss_ni_end};
  return {};
}

}  // namespace lagoon

#else

namespace lagoon {

std::string_view BuiltInWeights(std::string_view /*name*/) { return {}; }

}  // namespace lagoon

#endif
