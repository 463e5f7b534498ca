#include "program/link/shared_constants.h"

#include <fmt/format.h>

#include <cstring>

namespace lagoon {
namespace {

std::size_t Index(BufferId id) { return static_cast<std::size_t>(id); }

}  // namespace

SharedConstants::SharedConstants(std::span<LoweredProgram> programs) : programs_(programs) {
  for (std::size_t p = 0; p < programs_.size(); ++p) {
    LoweredProgram& program = programs_[p];
    index_.emplace_back(program.buffers.size(), 0);
    for (std::size_t id = 0; id < program.buffers.size(); ++id) {
      if (program.buffers[id].fill) AddFilled(p, program.buffers[id], id);
    }
    for (const LoweredOp& op : program.load_ops) AddComputed(p, op);
    for (const LoweredOp& op : program.ops) {
      for (const Operand& input : op.inputs) {
        if (program.buffer(input.buffer).constant)
          constants_[IndexOf(p, input.buffer)].stays = true;
      }
    }
  }
}

void SharedConstants::AddFilled(std::size_t program, LoweredBuffer& buffer, std::size_t id) {
  std::function<void(std::byte*)> fill = std::move(buffer.fill);
  buffer.fill = nullptr;
  std::string key = fmt::format("key {} {}", buffer.bytes, buffer.key);
  if (buffer.key.empty()) {
    key.assign(buffer.bytes, 0);
    fill(reinterpret_cast<std::byte*>(key.data()));
    key.insert(0, "bytes ");
  }
  const auto [known, is_new] = known_.emplace(std::move(key), constants_.size());
  index_[program][id] = known->second;
  if (!is_new) return;
  if (buffer.key.empty()) {
    // Pointers to the map's keys stay valid.
    fill = [bytes = buffer.bytes, from = &known->first](std::byte* to) {
      std::memcpy(to, from->data() + from->size() - bytes, bytes);
    };
  }
  constants_.push_back({buffer.bytes, std::move(fill), false});
}

std::string SharedConstants::KeyOf(std::size_t program, const LoweredOp& op) const {
  std::string key = fmt::format("op {} ", reinterpret_cast<std::uintptr_t>(op.kernel.body));
  for (const Operand& input : op.inputs) {
    key += fmt::format("{}+{}:{} ", IndexOf(program, input.buffer), input.offset, input.bytes);
  }
  for (const Operand& output : op.outputs) {
    key += fmt::format("{}+{}:{} ", programs_[program].buffer(output.buffer).bytes, output.offset,
                       output.bytes);
  }
  key.append(reinterpret_cast<const char*>(op.kernel.args.data()), op.kernel.args.size());
  return key;
}

void SharedConstants::AddComputed(std::size_t program, const LoweredOp& op) {
  const auto [known, is_new] = known_.emplace(KeyOf(program, op), constants_.size());
  std::size_t next = known->second;
  for (const Operand& output : op.outputs) {
    index_[program][Index(output.buffer)] = next++;
    if (is_new) {
      constants_.push_back({programs_[program].buffer(output.buffer).bytes, nullptr, false});
    }
  }
  if (is_new) load_ops_.push_back({&op, program});
}

}  // namespace lagoon
