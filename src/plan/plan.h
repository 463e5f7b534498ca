#pragma once

// A compiled model as plain data: what `program` produces and `sched` runs. Immutable once built.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "device/device.h"
#include "plan/opaque.h"
#include "plan/tensor.h"

namespace lagoon {

/// Where bytes live. All plans and instances of a model share the weights. Each instance has an
/// arena of its own.
enum class Region : std::uint8_t { kWeights, kArena };

/// A byte range of a region: [offset, offset + bytes).
struct ByteRange {
  Region region = Region::kArena;
  std::size_t offset = 0;
  std::size_t bytes = 0;

  bool Overlaps(const ByteRange& other) const {
    return region == other.region && offset < other.offset + other.bytes &&
           other.offset < offset + bytes;
  }
};

/// A pointer inside an op's argument image, to be filled when the plan is bound to memory.
struct Relocation {
  std::uint32_t args_offset = 0;  // where the pointer lies in PlanOp::args
  Region region = Region::kArena;
  std::size_t offset = 0;  // of the pointer's target in the region
};

/// The expected cost of an op. A profile replaces the estimate.
struct OpCost {
  Nanoseconds kernel{0};  // standalone, from first claim to last commit, with all units
  Nanoseconds block{0};   // mean time of one block
  /// Part of the device's memory bandwidth that one block takes while it runs, in millionths. 0:
  /// not known.
  std::uint32_t bandwidth_ppm = 0;
};

/// One way to cut an op into blocks.
struct OpVersion {
  std::string name;  // unique among the versions of one op
  std::vector<std::byte> args;
  std::uint32_t blocks = 0;
  std::size_t scratch_bytes = 0;
  OpCost cost;  // zero: not measured
  // Either all versions of an op have a kernel of their own, or none has.
  std::optional<KernelHandle> kernel = {};  // nullopt: the op's
  std::uint32_t occupancy = 0;              // PlanOp::occupancy with `kernel`; 0: the op's
  UnitNeed need = {};                       // PlanOp::need with `kernel`
};

/// What happens to a kernel that is revoked after it has begun.
enum class Restart : std::uint8_t {
  kByClaims,  // its blocks leave, and those that are not committed run again
  kByGroup,   // its blocks leave, and all ops from PlanOp::group_first on run again (REEF 4.4)
  kNever,     // it runs to its end
};

/// One kernel of a model. Ops are in topological order; the index is the op's name in `deps`.
struct PlanOp {
  std::string name;         // of the node(s) that it computes, for people
  std::string kernel_name;  // of the body: "conv2d"
  KernelHandle kernel{};
  std::uint32_t blocks = 0;
  std::size_t scratch_bytes = 0;
  std::vector<std::byte> args;  // image of the body's argument struct, pointers null
  std::vector<Relocation> relocations;
  std::vector<std::uint32_t> deps;  // ops that must be complete before this one starts
  std::vector<ByteRange> reads;     // access sets, over all blocks
  std::vector<ByteRange> writes;
  /// All ways to cut the op, including the one in the fields above. Empty: there is only that one.
  std::vector<OpVersion> versions;
  std::uint32_t version = 0;    // index in `versions` of the one in the fields above
  std::uint32_t occupancy = 1;  // blocks that a unit holds at once (DeviceControl::Occupancy)
  UnitNeed need;                // DeviceControl::NeedOf; nothing set: a block takes 1 / occupancy
  bool in_place = false;        // writes exactly the bytes of one of its reads: not idempotent
  Restart restart = Restart::kByClaims;
  std::uint32_t group_first = 0;  // kByGroup: the first op of its idempotent group
  OpCost cost;
  double flops = 0;           // multiply and add count as two
  double accessed_bytes = 0;  // sum over `reads` and `writes`
  /// Set if an engine computes the op. The op then writes an INT64 at `status`: 0 if its outputs
  /// are valid, else OpaqueOp::error() says why not.
  std::shared_ptr<const OpaqueOp> opaque;
  std::size_t status = 0;  // offset in the arena
};

/// PlanOp::occupancy of a version; an op without `versions` has version 0.
inline std::uint32_t OccupancyOf(const PlanOp& op, std::uint32_t version) {
  const std::uint32_t own = op.versions.empty() ? 0 : op.versions[version].occupancy;
  return own > 0 ? own : op.occupancy;
}

/// A graph input or output and its place in the arena.
struct PlanTensor {
  TensorSpec spec;
  ByteRange range;
  /// Inputs: the ops that read it. Outputs: the ops that produce it; none if it has no elements.
  std::vector<std::uint32_t> ops;
  /// Outputs only: set if the shape is not known before an engine has run. Such an output has no
  /// elements in the arena: each run makes a tensor for it (Instance::TakeMade).
  std::optional<OpaqueOutput> made = {};
};

/// A value on the device, for people. Values that are views of one another share one PlanBuffer.
struct PlanBuffer {
  std::string name;
  ByteRange range;
};

struct Plan {
  std::string model;
  std::vector<PlanOp> ops;
  std::vector<std::uint32_t> opaque;  // the ops that an engine computes
  bool makes_outputs = false;         // an output has PlanTensor::made
  std::vector<PlanTensor> inputs;
  std::vector<PlanTensor> outputs;
  std::size_t arena_bytes = 0;
  std::size_t weight_bytes = 0;
  std::vector<PlanBuffer> buffers;   // in the arena, in order of their producers
  std::size_t activation_bytes = 0;  // size of the arena if no buffers shared bytes
  Nanoseconds standalone{0};  // latency of one execution alone on the device; 0: not profiled
  /// The ops where the plan's parts end, ascending, the last is ops.size(): where a scheduler of
  /// whole parts may switch to another job (SPLIT 3.2). Empty: one part.
  std::vector<std::uint32_t> part_ends;
  /// Ops that are there only because of cuts, such as copies between two parts, ascending. A job
  /// that runs whole from its start leaves them out. So what depends on one of them also depends,
  /// directly, on what that one depends on.
  std::vector<std::uint32_t> cut_ops;
};

/// Frees what runs do not need: the argument images, dependencies and relocations of ops, of which
/// each binding has its own (if an op has `versions`, the relocations stay), the access sets, and
/// the buffers. Call it when the plan is bound to all its instances, before another thread uses the
/// plan.
void FreeUnboundData(Plan& plan);

/// A part of a model's constants on a device. The plans that read it share it.
struct WeightChunk {
  std::size_t offset = 0;  // of the part's first byte in Region::kWeights
  Buffer memory;
  bool from_request = false;  // follows from the values of a request; one plan alone has it
};

/// A plan for one set of input shapes, with the weights that it reads on a device. Shared by the
/// instances that are bound to it.
struct LoadedPlan {
  Plan plan;
  std::vector<std::shared_ptr<const WeightChunk>> weights;  // ascending by offset

  /// The place of byte `offset` of Region::kWeights. A bug if no chunk has this byte. The end of a
  /// chunk is allowed too, for a tensor without elements.
  const std::byte* Weight(std::size_t offset) const;
};

}  // namespace lagoon
