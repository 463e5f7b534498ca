#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace lagoon {

/// A loaded plan bound to an arena of its own: segments ready to submit, one Progress record an op,
/// one a graph input or output for its copy. Runs one job at a time; not thread-safe.
class Instance {
 public:
  /// Allocates the arena on `device`. kResourceExhausted when it does not fit.
  /// Adds no weight memory: `loaded` is shared.
  static Result<std::unique_ptr<Instance>> Create(std::shared_ptr<const LoadedPlan> loaded,
                                                  DeviceControl& device);

  const Plan& plan() const { return loaded_->plan; }

  /// The segment of op `index`, with its dependencies (input copies included) and without guards.
  const Segment& segment(std::size_t index) const { return segments_[index]; }
  Progress& progress(std::size_t index) { return *progress_[index]; }

  /// Copies between host memory and the arena; `host` must hold the tensor's bytes until it
  /// retires.
  Copy InputCopy(std::size_t input, const void* host);
  Copy OutputCopy(std::size_t output, void* host);
  std::byte* arena(const ByteRange& range) const { return arena_.data() + range.offset; }

  /// Makes every record fresh for the next job. Only when no launch names them.
  void Reset();

 private:
  Instance() = default;
  Progress* AddProgress(std::uint32_t blocks);

  std::shared_ptr<const LoadedPlan> loaded_;
  Buffer arena_;
  std::vector<std::byte> args_;
  std::vector<std::unique_ptr<std::atomic<std::uint64_t>[]>> bitmaps_;
  std::vector<std::unique_ptr<Progress>> progress_;  // ops, then inputs, then outputs
  std::vector<std::vector<Dep>> deps_;               // ops, then outputs
  std::vector<Segment> segments_;
};

}  // namespace lagoon
