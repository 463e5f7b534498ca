#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace lagoon {

/// A loaded plan bound to an arena of its own: launches ready to submit, one Progress record per
/// op, and one per graph input and output for its copy. Runs one job at a time, of any batch size
/// of the plan. Not thread-safe.
class Instance {
 public:
  /// Allocates the arena on `device`, large enough for the largest batch. kResourceExhausted if
  /// there is no memory. Allocates no weight memory: `loaded` is shared.
  static Result<std::unique_ptr<Instance>> Create(std::shared_ptr<const LoadedPlan> loaded,
                                                  DeviceControl& device);

  /// Uses `arena`, which the caller owns and which must outlive the instance. It must have the
  /// Plan::arena_bytes of the largest batch; null where that is 0.
  static std::unique_ptr<Instance> CreateOver(std::byte* arena,
                                              std::shared_ptr<const LoadedPlan> loaded);

  /// The plans of all batch sizes. Any thread.
  const LoadedPlan& loaded() const { return *loaded_; }
  /// Selects plan `size` of loaded() for plan() and all methods below. At first the smallest is
  /// selected. Only between jobs.
  void Select(std::size_t size);
  const Plan& plan() const { return *binding_->plan; }

  /// The launch of op `index`, with its dependencies (input copies included). The caller sets id,
  /// stream, rank and guards.
  const Launch& launch(std::size_t index) const { return binding_->launches[index]; }
  Progress& progress(std::size_t index) { return *binding_->progress[index]; }
  const Progress& progress(std::size_t index) const { return *binding_->progress[index]; }

  /// Cuts op `index` as its `version` says (PlanOp::versions), until the next Reset(). Only while
  /// no block of the op is done, and no launch names the op or one that depends on it. Does not
  /// allocate.
  void UseVersion(std::size_t index, std::uint32_t version);
  /// The version in use. 0 if the op has only one.
  std::uint32_t version(std::size_t index) const { return binding_->versions[index]; }

  /// Copies between host memory and the arena. `host`: the tensor's bytes; must stay valid until
  /// the copy retires.
  Copy InputCopy(std::size_t input, const void* host);
  Copy OutputCopy(std::size_t output, void* host);
  std::byte* arena(const ByteRange& range) const { return arena_.data() + range.offset; }

  /// Writes the whole arena, so that the system provides all its memory before the next job. Does
  /// nothing if the host cannot reach the arena. Only between jobs.
  void Touch();

  /// Resets all records of the selected plan for the next job, and cuts every op as the plan does.
  /// Only when no launch names these records.
  void Reset();

 private:
  /// One plan bound to the arena.
  struct Binding {
    const Plan* plan = nullptr;
    std::vector<std::byte> args;  // images of all versions of all ops
    std::vector<std::unique_ptr<std::atomic<std::uint64_t>[]>> bitmaps;
    std::vector<std::unique_ptr<Progress>> progress;  // ops, then inputs, then outputs
    std::vector<std::vector<Dep>> deps;               // ops, then outputs
    std::vector<std::vector<Dep*>> dependents;        // by op: the deps that refer to it
    std::vector<Launch> launches;
    std::vector<std::uint32_t> versions;  // version in use, by op
    std::vector<std::size_t> recut;       // ops whose version is not the plan's

    void AddProgress(std::uint32_t blocks, std::uint32_t most_blocks);
    void Recut(std::size_t index, std::uint32_t version);
  };

  static std::unique_ptr<Instance> Create(std::shared_ptr<const LoadedPlan> loaded, Buffer arena);

  Instance() = default;
  Binding Bind(const Plan& plan) const;
  void BindOp(Binding& binding, std::size_t index, std::byte* args) const;

  std::shared_ptr<const LoadedPlan> loaded_;
  Buffer arena_;
  bool arena_on_host_ = true;
  std::vector<Binding> bindings_;  // one per batch size
  Binding* binding_ = nullptr;     // the selected one
};

}  // namespace lagoon
