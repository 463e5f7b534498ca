#pragma once

// A model of an engine as the body of a kernel.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "device/block.h"
#include "engine/engine_host.h"
#include "plan/opaque.h"

namespace lagoon {

/// A loaded model with fixed shapes. The kernel has one block. Any number of launches may run at a
/// time, each on memory of its own.
class OpaqueKernel final : public OpaqueOp {
 public:
  struct Words {
    std::vector<std::string> ops;  // sorted, each once
    std::string why;
    std::shared_ptr<EngineHost> engine;
  };

  /// `inputs` and `outputs`: types and dims, one per input and output of the model; `data` is
  /// ignored. The dims of an output that nothing reads are {-1}.
  OpaqueKernel(std::shared_ptr<EngineModel> model, std::vector<EngineTensor> inputs,
               std::vector<EngineTensor> outputs, Words words);

  const std::vector<std::string>& ops() const override { return words_.ops; }
  const std::string& why() const override { return words_.why; }
  Nanoseconds longest() const override {
    return Nanoseconds(longest_ns_.load(std::memory_order_relaxed));
  }
  std::shared_ptr<const Error> error() const override;

  /// The body, and its argument image: with places for one pointer per input and output that has
  /// elements, in their order, and for one to an INT64, the status of the launch: 0 if the outputs
  /// are valid, else error() says why not. The image points to this object.
  static bool Block(const void* args, std::uint32_t block, BlockContext& context);
  std::vector<std::byte> Args() const;
  std::uint32_t OffsetOf(std::size_t pointer) const;  // pointer: inputs, then outputs, then status

  /// Runs once. `inputs` and `outputs`: by input and output, null where a tensor has no elements.
  Status Run(std::span<void* const> inputs, std::span<void* const> outputs);

 private:
  struct Bound {
    std::vector<void*> pointers;
    std::unique_ptr<EngineBinding> binding;
  };
  static constexpr std::size_t kMostBound = 16;

  Result<Bound> Take(std::vector<void*> pointers);
  void PutBack(Bound bound);
  void Observe(Nanoseconds duration);

  const std::shared_ptr<EngineModel> model_;
  const std::vector<EngineTensor> inputs_, outputs_;
  const Words words_;
  std::atomic<std::int64_t> longest_ns_{0};
  mutable Mutex mutex_;
  std::vector<Bound> idle_ GUARDED_BY(mutex_);  // the last used is the last one
  std::shared_ptr<const Error> error_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
