#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace lagoon {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace lagoon
