#pragma once

namespace lagoon {

/// Prints the condition and its place to stderr, then aborts. Async-signal-safe; allocates nothing.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace lagoon

/// For bugs only. What a caller or the environment can cause is a Result. Active in every build.
#define LAGOON_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::lagoon::CheckFailed(#condition, __FILE__, __LINE__))
