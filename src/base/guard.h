#pragma once

#include <chrono>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"

namespace lagoon {

/// Runs `f`, which returns a Result, and turns what libraries throw into an Error.
template <typename F>
auto WithoutExceptions(F&& f) -> decltype(f()) {
  try {
    return std::forward<F>(f)();
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kResourceExhausted, "out of memory");
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal, std::string("unexpected: ") + error.what());
  }
}

/// Runs `f`, again and again where memory runs out: for what must be done, such as answering and
/// stopping. `f` can be run again after std::bad_alloc, which this throws only after `most_tries`.
template <typename F>
auto UntilMemorySuffices(F&& f, int most_tries = std::numeric_limits<int>::max()) -> decltype(f()) {
  for (int tries = 1;; ++tries) {
    try {
      return f();
    } catch (const std::bad_alloc&) {
      if (tries == most_tries) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

}  // namespace lagoon
