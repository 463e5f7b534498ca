#include "program/weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/heap.h"
#include "program/memory_plan.h"

namespace lagoon {
namespace {

constexpr std::size_t kReturnBytes = 4 << 20;

class Packer {
 public:
  Packer(LoweredProgram& program, DeviceControl& device)
      : program_(program), device_(device), stays_(program.buffers.size(), false) {}

  Result<PackedWeights> Pack() {
    for (const LoweredOp& op : program_.ops) {
      for (const Operand& input : op.inputs) stays_[Index(input.buffer)] = true;
    }
    LAGOON_RETURN_IF_ERROR(Place());
    std::size_t freed = 0;
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      LoweredBuffer& buffer = program_.buffers[i];
      if (!buffer.fill) continue;
      buffer.fill(Address(i));
      buffer.fill = nullptr;
      // Else the peak would hold every constant twice: as ONNX has it, and packed.
      freed += buffer.bytes;
      if (freed < kReturnBytes) continue;
      ReturnFreedMemory();
      freed = 0;
    }
    for (const LoweredOp& op : program_.load_ops) LAGOON_RETURN_IF_ERROR(Run(op));
    return std::move(weights_);
  }

 private:
  static std::size_t Index(BufferId id) { return static_cast<std::size_t>(id); }

  /// Constants that only load ops read go to memory that is given back after loading.
  Status Place() {
    std::size_t passing_bytes = 0;
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      std::size_t& end = stays_[i] ? weights_.bytes : passing_bytes;
      weights_.offsets.push_back(end);
      if (program_.buffers[i].constant) end += AlignBuffer(program_.buffers[i].bytes);
    }
    if (weights_.bytes > 0) {
      LAGOON_ASSIGN_OR_RETURN(weights_.memory,
                              device_.Allocate(weights_.bytes, MemoryKind::kDevice));
    }
    if (passing_bytes > 0) {
      LAGOON_ASSIGN_OR_RETURN(passing_, device_.Allocate(passing_bytes, MemoryKind::kHostVisible));
    }
    return {};
  }

  std::byte* Address(std::size_t index) const {
    return (stays_[index] ? weights_.memory : passing_).data() + weights_.offsets[index];
  }

  void SetPointer(std::vector<std::byte>& args, std::uint32_t at, const Operand& operand) const {
    const std::byte* const target = Address(Index(operand.buffer)) + operand.offset;
    std::memcpy(args.data() + at, &target, sizeof(target));
  }

  Status Run(const LoweredOp& op) const {
    Buffer scratch;
    if (op.kernel.scratch_bytes > 0) {
      LAGOON_ASSIGN_OR_RETURN(scratch,
                              device_.Allocate(op.kernel.scratch_bytes, MemoryKind::kHostVisible));
    }
    std::vector<std::byte> args = op.kernel.args;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      SetPointer(args, op.kernel.inputs[i], op.inputs[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      SetPointer(args, op.kernel.outputs[i], op.outputs[i]);
    }
    BlockContext context({}, {scratch.data(), scratch.size()});
    for (std::uint32_t block = 0; block < op.kernel.blocks; ++block) {
      LAGOON_CHECK(op.kernel.body(args.data(), block, context));
    }
    return {};
  }

  LoweredProgram& program_;
  DeviceControl& device_;
  std::vector<bool> stays_;  // by buffer: whether ops of the plan read it
  PackedWeights weights_;
  Buffer passing_;
};

}  // namespace

Result<PackedWeights> PackWeights(LoweredProgram& program, DeviceControl& device) {
  return Packer(program, device).Pack();
}

}  // namespace lagoon
