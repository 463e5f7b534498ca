#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
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

}  // namespace lagoon
