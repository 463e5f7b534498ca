#pragma once

// For the tests of the bodies: runs the bodies of one of Highway's targets.

#include <cstdint>
#include <vector>

#include "hwy/targets.h"
#include "kernels/cpu_level.h"

namespace lagoon::testing {

/// The targets whose bodies this process can run: the target of the level in LAGOON_CPU, or without
/// LAGOON_CPU all targets of this machine and build.
inline std::vector<std::int64_t> Targets() {
  static_cast<void>(ActiveCpuLevel());
  return hwy::SupportedAndGeneratedTargets();
}

/// While this object lives, LAGOON_DISPATCH chooses `target`, which is one of Targets().
class ScopedTarget {
 public:
  explicit ScopedTarget(std::int64_t target) : before_(Usable()) { Choose(target); }
  ~ScopedTarget() { Choose(before_); }
  ScopedTarget(const ScopedTarget&) = delete;
  ScopedTarget& operator=(const ScopedTarget&) = delete;

 private:
  static std::int64_t Usable() {
    static_cast<void>(ActiveCpuLevel());
    return hwy::SupportedTargets();
  }
  static void Choose(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }

  std::int64_t before_;
};

}  // namespace lagoon::testing
