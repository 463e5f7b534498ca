#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lagoon {

/// While it lives, the calling thread computes as blocks expect it: denormal numbers are kept,
/// results are rounded to nearest, and no exception traps. Then the thread has its former control
/// word and flags again.
class FloatControl {
 public:
#if defined(__x86_64__)
  FloatControl() : former_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~FloatControl() { _mm_setcsr(former_); }
#else
  FloatControl() = default;
#endif
  FloatControl(const FloatControl&) = delete;
  FloatControl& operator=(const FloatControl&) = delete;

 private:
  static constexpr std::uint32_t kDefault = 0x1f80;  // MXCSR of a new process
  std::uint32_t former_ = kDefault;
};

}  // namespace lagoon
