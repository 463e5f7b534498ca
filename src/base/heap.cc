#include "base/heap.h"

#include <malloc.h>

namespace lagoon {

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace lagoon
