#pragma once

// A model of an engine as the body of a kernel.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
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
    /// The nodes inside whose output shapes are assumed (OpaqueOp::assumed).
    std::vector<std::string> assumed = {};
    /// The outputs of unknown shapes, for which Take() is called, ascending.
    std::vector<std::uint32_t> made = {};
    /// The outputs of strings of known shapes, ascending.
    std::vector<std::uint32_t> strings = {};
  };

  /// `inputs` and `outputs`: types and dims, one per input and output of the model; `data` is
  /// ignored. The dims of an output are {-1} if its shape is not known, or nothing reads it.
  OpaqueKernel(std::shared_ptr<EngineModel> model, std::vector<EngineTensor> inputs,
               std::vector<EngineTensor> outputs, Words words);

  const std::vector<std::string>& ops() const override { return words_.ops; }
  const std::string& why() const override { return words_.why; }
  Nanoseconds longest() const override {
    return Nanoseconds(longest_ns_.load(std::memory_order_relaxed));
  }
  std::shared_ptr<const Error> TakeError(const void* status) const override;
  bool assumed() const override { return !words_.assumed.empty(); }
  bool outdated() const override { return outdated_.load(std::memory_order_acquire); }
  std::shared_ptr<const MadeTensor> Take(const void* status, std::size_t output) const override;
  void TakeStrings(const void* status,
                   std::vector<std::shared_ptr<const MadeTensor>>& to) const override;

  /// The body, and its argument image: with places for one pointer per input and output that has
  /// elements, in their order, and for one to an INT64, the status of the launch: 0 if the outputs
  /// are valid, else TakeError() says why not. The image points to this object.
  static bool Block(const void* args, std::uint32_t block, BlockContext& context);
  std::vector<std::byte> Args() const;
  std::uint32_t OffsetOf(std::size_t pointer) const;  // pointer: inputs, then outputs, then status

  /// Runs once. `inputs` and `outputs`: by input and output, null where a tensor has no elements or
  /// the engine makes room. `status`: where the status of the launch lies, for Take().
  Status Run(std::span<void* const> inputs, std::span<void* const> outputs, const void* status);

 private:
  struct Bound {
    std::vector<void*> pointers;
    std::unique_ptr<EngineBinding> binding;
  };
  static constexpr std::size_t kMostBound = 16;

  /// The tensors for which the engine made room, by output; null for those not in Words.
  using Made = std::vector<std::shared_ptr<const MadeTensor>>;

  Status RunBound(std::vector<void*> pointers, const void* status);
  Result<Bound> FindOrBind(std::vector<void*> pointers);
  Result<std::unique_ptr<EngineBinding>> Bind(std::span<void* const> pointers) const;
  void PutBack(Bound bound);
  Status Keep(const void* status, const Bound& bound);
  bool ShapesDiffer(std::span<void* const> inputs) const;
  void Observe(Nanoseconds duration);
  void ForgetError(const void* status) const;

  const std::shared_ptr<EngineModel> model_;
  const std::vector<EngineTensor> inputs_, outputs_;
  const Words words_;
  const bool makes_room_;  // the engine, for an output
  std::atomic<std::int64_t> longest_ns_{0};
  std::atomic<bool> outdated_{false};
  mutable Mutex mutex_;
  std::vector<Bound> idle_ GUARDED_BY(mutex_);  // the last used is the last one
  // Both by the place of the status. An arena has one run at a time, so that a run whose outputs or
  // error are not taken leaves them to the next run to replace.
  mutable std::map<const void*, Made> made_ GUARDED_BY(mutex_);
  mutable std::map<const void*, std::shared_ptr<const Error>> errors_ GUARDED_BY(mutex_);
  /// The error of a run that failed without one in errors_. Made here, while there is memory.
  const std::shared_ptr<const Error> no_memory_ =
      std::make_shared<const Error>(Error{ErrorCode::kResourceExhausted, "out of memory"});
};

}  // namespace lagoon
