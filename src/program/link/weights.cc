#include "program/link/weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/heap.h"
#include "program/link/memory_plan.h"
#include "program/link/shared_constants.h"

namespace lagoon {
namespace {

constexpr std::size_t kReturnBytes = 4 << 20;

class Packer {
 public:
  Packer(std::span<LoweredProgram> programs, DeviceControl& device)
      : programs_(programs), device_(device), shared_(programs) {}

  Result<PackedWeights> Pack() {
    LAGOON_RETURN_IF_ERROR(Place());
    std::size_t freed = 0;
    for (std::size_t i = 0; i < shared_.constants().size(); ++i) {
      SharedConstant& constant = shared_.constants()[i];
      if (!constant.fill) continue;
      constant.fill(Address(i));
      constant.fill = nullptr;
      // Otherwise the peak would hold every constant twice: in ONNX's form, and packed.
      freed += constant.bytes;
      if (freed < kReturnBytes) continue;
      ReturnFreedMemory();
      freed = 0;
    }
    for (const SharedLoadOp& load_op : shared_.load_ops()) LAGOON_RETURN_IF_ERROR(Run(load_op));
    if (staged_.size() > 0) {
      LAGOON_RETURN_IF_ERROR(
          device_.Upload(weights_.memory.data(), {staged_.data(), weights_.bytes}));
    }
    SetOffsets();
    return std::move(weights_);
  }

 private:
  /// Constants that only load ops read are placed in memory that is released after loading.
  Status Place() {
    std::size_t passing_bytes = 0;
    for (const SharedConstant& constant : shared_.constants()) {
      std::size_t& end = constant.stays ? weights_.bytes : passing_bytes;
      offsets_.push_back(end);
      end += AlignBuffer(constant.bytes);
    }
    if (weights_.bytes > 0) {
      LAGOON_ASSIGN_OR_RETURN(weights_.memory,
                              device_.Allocate(weights_.bytes, MemoryKind::kDevice));
      if (!device_.info().memory_on_host) {
        LAGOON_ASSIGN_OR_RETURN(staged_,
                                device_.Allocate(weights_.bytes, MemoryKind::kHostVisible));
      }
    }
    if (passing_bytes > 0) {
      LAGOON_ASSIGN_OR_RETURN(passing_, device_.Allocate(passing_bytes, MemoryKind::kHostVisible));
    }
    return {};
  }

  /// Address of a constant in host memory.
  std::byte* Address(std::size_t constant) {
    const Buffer& staying = staged_.size() > 0 ? staged_ : weights_.memory;
    const bool stays = shared_.constants()[constant].stays;
    return (stays ? staying : passing_).data() + offsets_[constant];
  }

  void SetPointer(std::vector<std::byte>& args, std::uint32_t at, std::size_t program,
                  const Operand& operand) {
    const std::byte* const target =
        Address(shared_.IndexOf(program, operand.buffer)) + operand.offset;
    std::memcpy(args.data() + at, &target, sizeof(target));
  }

  Status Run(const SharedLoadOp& load_op) {
    const LoweredOp& op = *load_op.op;
    Buffer scratch;
    if (op.kernel.scratch_bytes > 0) {
      LAGOON_ASSIGN_OR_RETURN(scratch,
                              device_.Allocate(op.kernel.scratch_bytes, MemoryKind::kHostVisible));
    }
    std::vector<std::byte> args = op.kernel.args;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      SetPointer(args, op.kernel.inputs[i], load_op.program, op.inputs[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      SetPointer(args, op.kernel.outputs[i], load_op.program, op.outputs[i]);
    }
    BlockContext context({}, {scratch.data(), scratch.size()});
    for (std::uint32_t block = 0; block < op.kernel.blocks; ++block) {
      LAGOON_CHECK(op.kernel.body(args.data(), block, context));
    }
    return {};
  }

  void SetOffsets() {
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      std::vector<std::size_t>& offsets = weights_.offsets.emplace_back();
      for (std::size_t i = 0; i < programs_[p].buffers.size(); ++i) {
        const bool constant = programs_[p].buffers[i].constant;
        offsets.push_back(constant ? offsets_[shared_.IndexOf(p, BufferId(i))] : 0);
      }
    }
  }

  std::span<LoweredProgram> programs_;
  DeviceControl& device_;
  SharedConstants shared_;
  std::vector<std::size_t> offsets_;  // by index of the shared constant
  PackedWeights weights_;
  Buffer staged_;  // memory to be uploaded; empty if the host writes device memory itself
  Buffer passing_;
};

}  // namespace

Result<PackedWeights> PackWeights(std::span<LoweredProgram> programs, DeviceControl& device) {
  return Packer(programs, device).Pack();
}

}  // namespace lagoon
