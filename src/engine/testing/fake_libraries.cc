// Shared libraries that are no ONNX Runtime of use, for tests. Which one: by the macro.

#include <cstdint>
#include <cstdlib>

#if defined(LAGOON_FAKE_CRASH)

namespace {
struct AtLoad {
  AtLoad() { std::abort(); }
} at_load;
}  // namespace

#elif defined(LAGOON_FAKE_OLD)

namespace {
struct Base {
  const void* (*get_api)(std::uint32_t);
  const char* (*version)();
};
const Base base = {[](std::uint32_t) -> const void* { return nullptr; },
                   []() -> const char* { return "1.2.0"; }};
}  // namespace

extern "C" __attribute__((visibility("default"))) const Base* OrtGetApiBase() { return &base; }

#else

extern "C" __attribute__((visibility("default"))) int NothingOfUse() { return 0; }

#endif
