#include "program/link/weight_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/heap.h"
#include "program/link/memory_plan.h"

namespace lagoon {
namespace {

/// After every kCountBytes of packed constants, the freed memory is counted. Only kReturnBytes of
/// it or more go back to the system. The next constants use less than that again: new pages from
/// the system would take as long as the packing.
constexpr std::size_t kCountBytes = 4 << 20, kReturnBytes = 32 << 20;
/// Less that a request has made lies among the weights.
constexpr std::size_t kOwnChunkBytes = 64 << 10;

std::size_t Index(BufferId id) { return static_cast<std::size_t>(id); }

}  // namespace

/// One call of Pack.
class WeightStore::Packing {
 public:
  Packing(WeightStore& store, LoweredProgram& program)
      : store_(store), program_(program), constants_(program.buffers.size()) {}

  Result<PackedWeights> Run() {
    for (const LoweredOp& op : program_.ops) {
      for (const Operand& input : op.inputs) {
        if (program_.buffer(input.buffer).constant) constants_[Index(input.buffer)].stays = true;
      }
    }
    NameContents();
    FindKnown();
    ChooseLoadOps();
    LAGOON_RETURN_IF_ERROR(Place());
    Fill();
    for (std::size_t i = 0; i < program_.load_ops.size(); ++i) {
      if (runs_[i]) LAGOON_RETURN_IF_ERROR(RunLoadOp(program_.load_ops[i]));
    }
    for (const NewChunk& chunk : new_) {
      if (chunk.staged.size() == 0) continue;
      LAGOON_RETURN_IF_ERROR(
          store_.device_.Upload(chunk.chunk->memory.data(), {chunk.staged.data(), chunk.bytes}));
    }
    return Finish();
  }

 private:
  struct Contents {
    Identity identity;
    bool stays = false;                        // an op of the program reads it
    std::shared_ptr<const WeightChunk> known;  // the chunk that has it already
    bool made = false;                         // packed or computed now
    bool shares = false;     // has the contents of an earlier buffer of this program
    bool own = false;        // lies in the chunk that no other program shares
    std::size_t offset = 0;  // in Region::kWeights, or in passing_
  };

  struct NewChunk {
    std::size_t begin = 0, bytes = 0;  // in Region::kWeights
    std::shared_ptr<const WeightChunk> chunk;
    Buffer staged;  // memory to be uploaded; empty if the host writes device memory itself
  };

  /// Gives every constant a name for its contents.
  void NameContents() {
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      LoweredBuffer& buffer = program_.buffers[i];
      if (!buffer.constant || !buffer.fill) continue;
      if (!buffer.key.empty()) {
        constants_[i].identity = IdentityOf(fmt::format("key {} {}", buffer.bytes, buffer.key));
        continue;
      }
      std::vector<std::byte> bytes(buffer.bytes);
      buffer.fill(bytes.data());
      constants_[i].identity = IdentityOf(std::span<const std::byte>(bytes));
      buffer.fill = [kept = std::move(bytes)](std::byte* to) {
        std::memcpy(to, kept.data(), kept.size());
      };
    }
    for (const LoweredOp& op : program_.load_ops) {
      const std::string recipe = Recipe(op);
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        constants_[Index(op.outputs[i].buffer)].identity =
            IdentityOf(fmt::format("{}output {}", recipe, i));
      }
    }
  }

  /// Says how a load op computes its outputs.
  std::string Recipe(const LoweredOp& op) const {
    std::string text = fmt::format("op {} ", reinterpret_cast<std::uintptr_t>(op.kernel.body));
    for (const Operand& input : op.inputs) {
      text += fmt::format("{}+{}:{} ", ToString(constants_[Index(input.buffer)].identity),
                          input.offset, input.bytes);
    }
    for (const Operand& output : op.outputs) {
      text += fmt::format("{}+{}:{} ", program_.buffer(output.buffer).bytes, output.offset,
                          output.bytes);
    }
    text.append(reinterpret_cast<const char*>(op.kernel.args.data()), op.kernel.args.size());
    return text;
  }

  void FindKnown() {
    const MutexLock lock(store_.mutex_);
    store_.DropFreed();
    for (Contents& contents : constants_) {
      if (!contents.stays) continue;
      const auto place = store_.places_.find(contents.identity);
      if (place == store_.places_.end()) continue;
      contents.known = place->second.chunk.lock();
      contents.offset = place->second.offset;
    }
  }

  /// A load op runs if one of its outputs is read and not there. Then its inputs are needed too.
  void ChooseLoadOps() {
    for (Contents& contents : constants_) contents.made = contents.stays && !contents.known;
    runs_.assign(program_.load_ops.size(), false);
    for (std::size_t i = program_.load_ops.size(); i-- > 0;) {
      const LoweredOp& op = program_.load_ops[i];
      runs_[i] = std::ranges::any_of(
          op.outputs, [&](const Operand& output) { return constants_[Index(output.buffer)].made; });
      if (!runs_[i]) continue;
      for (const Operand& output : op.outputs) constants_[Index(output.buffer)].made = true;
      for (const Operand& input : op.inputs) Need(constants_[Index(input.buffer)]);
    }
  }

  void Need(Contents& contents) {
    const bool readable = contents.known && store_.device_.info().memory_on_host;
    if (!readable) contents.made = true;
  }

  /// Whether the contents become part of the new chunk, rather than of memory that is freed after
  /// loading.
  static bool InChunk(const Contents& contents) { return contents.stays && !contents.known; }

  void ChooseOwn() {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      constants_[i].own = InChunk(constants_[i]) && program_.buffers[i].from_request;
      if (constants_[i].own) bytes += program_.buffers[i].bytes;
    }
    if (bytes >= kOwnChunkBytes) return;
    for (Contents& contents : constants_) contents.own = false;
  }

  /// Gives a place to everything that is made.
  Status Place() {
    ChooseOwn();
    std::size_t passing_bytes = 0;
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      if (!constants_[i].made || InChunk(constants_[i])) continue;
      passing_offsets_.emplace(i, passing_bytes);
      passing_bytes += AlignBuffer(program_.buffers[i].bytes);
    }
    if (passing_bytes > 0) {
      LAGOON_ASSIGN_OR_RETURN(passing_,
                              store_.device_.Allocate(passing_bytes, MemoryKind::kHostVisible));
    }
    PlaceInChunk(/*own=*/false);
    PlaceInChunk(/*own=*/true);
    std::size_t begin = store_.TakeRange(new_[0].bytes + new_[1].bytes);
    for (NewChunk& chunk : new_) {
      chunk.begin = begin;
      begin += chunk.bytes;
    }
    for (Contents& contents : constants_) {
      if (contents.made && InChunk(contents)) contents.offset += NewChunkOf(contents).begin;
    }
    LAGOON_RETURN_IF_ERROR(AllocateChunk(/*own=*/false));
    return AllocateChunk(/*own=*/true);
  }

  /// Sets the offsets of contents in their chunk.
  void PlaceInChunk(bool own) {
    NewChunk& to = new_[own ? 1 : 0];
    std::map<Identity, std::size_t> placed;
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      Contents& contents = constants_[i];
      if (!contents.made || !InChunk(contents) || contents.own != own) continue;
      const auto [first, is_new] = placed.emplace(contents.identity, to.bytes);
      contents.shares = !is_new;
      contents.offset = first->second;
      if (is_new) to.bytes += AlignBuffer(program_.buffers[i].bytes);
    }
  }

  Status AllocateChunk(bool own) {
    NewChunk& to = new_[own ? 1 : 0];
    if (to.bytes == 0) return {};
    DeviceControl& device = store_.device_;
    LAGOON_ASSIGN_OR_RETURN(Buffer memory, device.Allocate(to.bytes, MemoryKind::kDevice));
    to.chunk = std::make_shared<const WeightChunk>(WeightChunk{to.begin, std::move(memory), own});
    if (!device.info().memory_on_host) {
      LAGOON_ASSIGN_OR_RETURN(to.staged, device.Allocate(to.bytes, MemoryKind::kHostVisible));
    }
    return {};
  }

  const NewChunk& NewChunkOf(const Contents& contents) const { return new_[contents.own ? 1 : 0]; }

  /// Where the host finds or writes the contents of buffer `i`.
  std::byte* Address(std::size_t i) const {
    const auto passing = passing_offsets_.find(i);
    if (passing != passing_offsets_.end()) return passing_.data() + passing->second;
    const Contents& contents = constants_[i];
    if (contents.known) {
      return contents.known->memory.data() + (contents.offset - contents.known->offset);
    }
    const NewChunk& to = NewChunkOf(contents);
    return (to.staged.size() > 0 ? to.staged : to.chunk->memory).data() +
           (contents.offset - to.begin);
  }

  void Fill() {
    std::size_t freed = 0;
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      LoweredBuffer& buffer = program_.buffers[i];
      if (!buffer.fill) continue;
      if (constants_[i].made && !constants_[i].shares) buffer.fill(Address(i));
      buffer.fill = nullptr;
      // Otherwise the peak would hold every constant twice: in ONNX's form, and packed.
      freed += buffer.bytes;
      if (freed < kCountBytes) continue;
      if (constants_[i].made && FreedMemory() >= kReturnBytes) ReturnFreedMemory();
      freed = 0;
    }
  }

  void SetPointer(std::vector<std::byte>& args, std::uint32_t at, const Operand& operand) const {
    const std::byte* const target = Address(Index(operand.buffer)) + operand.offset;
    std::memcpy(args.data() + at, &target, sizeof(target));
  }

  Status RunLoadOp(const LoweredOp& op) {
    Buffer scratch;
    if (op.kernel.scratch_bytes > 0) {
      LAGOON_ASSIGN_OR_RETURN(
          scratch, store_.device_.Allocate(op.kernel.scratch_bytes, MemoryKind::kHostVisible));
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

  PackedWeights Finish() {
    PackedWeights packed;
    std::set<std::shared_ptr<const WeightChunk>> chunks;
    std::set<std::size_t> counted;
    const MutexLock lock(store_.mutex_);
    for (std::size_t i = 0; i < constants_.size(); ++i) {
      const Contents& contents = constants_[i];
      packed.offsets.push_back(contents.offset);
      if (!contents.stays) continue;
      chunks.insert(contents.known ? contents.known : NewChunkOf(contents).chunk);
      if (counted.insert(contents.offset).second) {
        packed.bytes += AlignBuffer(program_.buffers[i].bytes);
      }
      if (contents.known || contents.own) continue;
      store_.places_[contents.identity] = {new_[0].chunk, contents.offset};
    }
    packed.chunks.assign(chunks.begin(), chunks.end());
    std::ranges::sort(packed.chunks, {}, [](const auto& chunk) { return chunk->offset; });
    return packed;
  }

  WeightStore& store_;
  LoweredProgram& program_;
  std::vector<Contents> constants_;  // by BufferId
  std::vector<bool> runs_;           // by load op
  NewChunk new_[2];                  // the one to be shared, and the program's own
  Buffer passing_;
  std::map<std::size_t, std::size_t> passing_offsets_;  // by BufferId
};

void WeightStore::DropFreed() {
  std::erase_if(places_, [](const auto& place) { return place.second.chunk.expired(); });
}

std::size_t WeightStore::TakeRange(std::size_t bytes) {
  const MutexLock lock(mutex_);
  const std::size_t begin = end_;
  end_ += bytes;
  return begin;
}

Result<PackedWeights> WeightStore::Pack(LoweredProgram& program) {
  return Packing(*this, program).Run();
}

std::shared_ptr<WeightStore> WeightStores::For(const std::string& key) {
  const MutexLock lock(mutex_);
  std::erase_if(stores_, [](const auto& store) { return store.second.expired(); });
  std::weak_ptr<WeightStore>& place = stores_[key];
  std::shared_ptr<WeightStore> store = place.lock();
  if (store == nullptr) place = store = std::make_shared<WeightStore>(device_);
  return store;
}

}  // namespace lagoon
