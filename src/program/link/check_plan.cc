#include "program/link/check_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "program/link/ordering.h"

namespace lagoon {
namespace {

std::string Describe(const ByteRange& range) {
  return fmt::format("{} [{},{})", range.region == Region::kWeights ? "weights" : "arena",
                     range.offset, range.offset + range.bytes);
}

bool Contains(const ByteRange& outer, const ByteRange& inner) {
  return outer.region == inner.region && outer.offset <= inner.offset &&
         inner.offset + inner.bytes <= outer.offset + outer.bytes;
}

class Checker {
 public:
  Checker(const Plan& plan, std::span<const std::shared_ptr<const WeightChunk>> weights)
      : plan_(plan), weights_(weights), ordering_(Deps(plan)) {}

  Status Run() const {
    for (std::uint32_t i = 0; i < plan_.ops.size(); ++i) {
      LAGOON_RETURN_IF_ERROR(CheckRanges(i));
      LAGOON_RETURN_IF_ERROR(CheckRelocations(i));
      for (std::uint32_t j = 0; j < i; ++j) LAGOON_RETURN_IF_ERROR(CheckPair(j, i));
      for (const ByteRange& read : plan_.ops[i].reads) LAGOON_RETURN_IF_ERROR(CheckRead(i, read));
    }
    for (const PlanTensor& output : plan_.outputs) LAGOON_RETURN_IF_ERROR(CheckOutput(output));
    return {};
  }

 private:
  static std::vector<std::vector<std::uint32_t>> Deps(const Plan& plan) {
    std::vector<std::vector<std::uint32_t>> deps;
    for (const PlanOp& op : plan.ops) deps.push_back(op.deps);
    return deps;
  }

  tl::unexpected<Error> Broken(std::uint32_t op, const std::string& why) const {
    return Fail(ErrorCode::kInternal,
                fmt::format("model '{}': op {} '{}' {}", plan_.model, op, plan_.ops[op].name, why));
  }

  /// Where the region, or the part of the weights that has the byte `offset`, begins and ends.
  std::pair<std::size_t, std::size_t> RegionOf(const ByteRange& range) const {
    if (range.region == Region::kArena) return {0, plan_.arena_bytes};
    for (const auto& chunk : weights_) {
      if (range.offset >= chunk->offset && range.offset - chunk->offset < chunk->memory.size()) {
        return {chunk->offset, chunk->offset + chunk->memory.size()};
      }
    }
    return {0, 0};
  }

  Status CheckRanges(std::uint32_t i) const {
    const PlanOp& op = plan_.ops[i];
    for (const std::vector<ByteRange>* ranges : {&op.reads, &op.writes}) {
      for (const ByteRange& range : *ranges) {
        const auto [begin, end] = RegionOf(range);
        if (range.bytes == 0 || range.offset < begin || range.offset > end ||
            range.bytes > end - range.offset) {
          return Broken(i,
                        fmt::format("names {} of a region [{},{})", Describe(range), begin, end));
        }
      }
    }
    for (const ByteRange& write : op.writes) {
      if (write.region != Region::kArena) return Broken(i, "writes " + Describe(write));
      for (const ByteRange& read : op.reads) {
        const bool replaced = op.in_place && Contains(write, read) && Contains(read, write);
        if (write.Overlaps(read) && !replaced) {
          return Broken(i, fmt::format("writes {} and reads {}", Describe(write), Describe(read)));
        }
      }
      for (const PlanTensor& input : plan_.inputs) {
        if (!write.Overlaps(input.range) || IsReplaced(input, write)) continue;
        return Broken(i, fmt::format("writes {} of input '{}'", Describe(write), input.spec.name));
      }
    }
    return {};
  }

  /// Whether an output lies in the place of the input, which `write` writes as a whole.
  bool IsReplaced(const PlanTensor& input, const ByteRange& write) const {
    return Contains(write, input.range) && Contains(input.range, write) &&
           std::ranges::any_of(plan_.outputs, [&](const PlanTensor& output) {
             return Contains(output.range, write) && Contains(write, output.range);
           });
  }

  Status CheckRelocations(std::uint32_t i) const {
    const PlanOp& op = plan_.ops[i];
    for (const Relocation& relocation : op.relocations) {
      const ByteRange at{relocation.region, relocation.offset, 1};
      const auto holds = [&](const ByteRange& range) { return Contains(range, at); };
      if (std::none_of(op.reads.begin(), op.reads.end(), holds) &&
          std::none_of(op.writes.begin(), op.writes.end(), holds)) {
        return Broken(i, "has a pointer outside its access sets: " + Describe(at));
      }
      if (op.args.size() < sizeof(void*) ||
          relocation.args_offset > op.args.size() - sizeof(void*)) {
        return Broken(i, fmt::format("has a pointer at byte {} of its {} bytes of arguments",
                                     relocation.args_offset, op.args.size()));
      }
    }
    return {};
  }

  Status CheckPair(std::uint32_t first, std::uint32_t second) const {
    if (ordering_.Precedes(first, second)) return {};
    const PlanOp& a = plan_.ops[first];
    const PlanOp& b = plan_.ops[second];
    for (const auto& [writes, others] :
         {std::pair{&a.writes, &b.writes}, {&a.writes, &b.reads}, {&b.writes, &a.reads}}) {
      for (const ByteRange& write : *writes) {
        for (const ByteRange& other : *others) {
          if (!write.Overlaps(other)) continue;
          return Broken(second, fmt::format("is not ordered after op {} '{}', but {} meets {}",
                                            first, a.name, Describe(write), Describe(other)));
        }
      }
    }
    return {};
  }

  /// The last op before `before` that writes a byte of `range`. `written`: the range of that write.
  std::optional<std::uint32_t> LastWriter(std::uint32_t before, const ByteRange& range,
                                          ByteRange* written) const {
    for (std::uint32_t i = before; i-- > 0;) {
      for (const ByteRange& write : plan_.ops[i].writes) {
        if (!write.Overlaps(range)) continue;
        *written = write;
        return i;
      }
    }
    return std::nullopt;
  }

  bool IsInput(const ByteRange& range) const {
    return std::any_of(plan_.inputs.begin(), plan_.inputs.end(),
                       [&](const PlanTensor& input) { return Contains(input.range, range); });
  }

  Status CheckRead(std::uint32_t reader, const ByteRange& range) const {
    if (range.region == Region::kWeights || IsInput(range)) return {};
    ByteRange written;
    const std::optional<std::uint32_t> writer = LastWriter(reader, range, &written);
    if (!writer) return Broken(reader, fmt::format("reads {}, never written", Describe(range)));
    if (!Contains(written, range)) {
      return Broken(reader,
                    fmt::format("reads {}, of which op {} '{}' has overwritten {}", Describe(range),
                                *writer, plan_.ops[*writer].name, Describe(written)));
    }
    return {};
  }

  Status CheckOutput(const PlanTensor& output) const {
    if (output.range.bytes == 0 && output.ops.empty()) return {};
    ByteRange written;
    const auto writer =
        LastWriter(static_cast<std::uint32_t>(plan_.ops.size()), output.range, &written);
    if (writer && Contains(written, output.range) && output.ops == std::vector{*writer}) return {};
    return Fail(ErrorCode::kInternal,
                fmt::format("model '{}': output '{}' in {} is not what its ops wrote last",
                            plan_.model, output.spec.name, Describe(output.range)));
  }

  const Plan& plan_;
  std::span<const std::shared_ptr<const WeightChunk>> weights_;
  Ordering ordering_;
};

Status CheckDeps(const Plan& plan) {
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    for (const std::uint32_t dep : plan.ops[i].deps) {
      if (dep < i) continue;
      return Fail(ErrorCode::kInternal,
                  fmt::format("model '{}': op {} '{}' depends on op {}, which is not before it",
                              plan.model, i, plan.ops[i].name, dep));
    }
  }
  return {};
}

}  // namespace

Status CheckPlan(const Plan& plan, std::span<const std::shared_ptr<const WeightChunk>> weights) {
  LAGOON_RETURN_IF_ERROR(CheckDeps(plan));
  return Checker(plan, weights).Run();
}

}  // namespace lagoon
