#pragma once

// The bodies of the conformance suite as code for GPUs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/conformance/suite.h"
#include "device/cuda/driver/source_program.h"
#include "device/cuda/testing/suite_bodies.cuh"

namespace lagoon::cuda {

/// suite_bodies.cuh and all files that it includes (made by cmake/embed.cmake).
std::vector<SourceFile> EmbeddedSuiteSources();

namespace suite {

/// The suite's bodies as images of a program with one entry, which has all of them.
class SuiteImages {
 public:
  explicit SuiteImages(const Program& program) {
    for (std::size_t i = 0; i < images_.size(); ++i) {
      images_[i] = {.program = &program, .body = static_cast<std::uint32_t>(i)};
    }
  }
  /// Null: the body has no CUDA form.
  const CudaImage* Of(lagoon::Body body) const {
    if (body == conformance::CountBody) return Find(Body::kCount);
    if (body == conformance::GateBody) return Find(Body::kGate);
    if (body == conformance::LogBody) return Find(Body::kLog);
    if (body == conformance::MixBody) return Find(Body::kMix);
    return nullptr;
  }

 private:
  const CudaImage* Find(Body body) const { return &images_[static_cast<std::size_t>(body)]; }

  std::array<CudaImage, 4> images_;  // by suite::Body
};

inline constexpr char kEntry[] = "lagoon_suite";

}  // namespace suite
}  // namespace lagoon::cuda
