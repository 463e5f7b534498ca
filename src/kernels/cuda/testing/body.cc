#include "kernels/cuda/testing/body.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "kernels/cuda/testing/any_body.h"
#include "simt/emulator.h"

namespace lagoon::cuda::testing {
namespace {

constexpr auto kPoison = std::byte{0xad};

void Bind(std::vector<std::byte>& args, std::uint32_t offset, const std::byte* operand) {
  std::memcpy(args.data() + offset, &operand, sizeof(operand));
}

/// Memory with the alignment that the CPU's bodies need.
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t bytes) : memory_(bytes + kAlignment) {}

  std::byte* data() {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (kAlignment - at % kAlignment) % kAlignment;
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  Bytes memory_;
};

/// Revokes one tile at some of its barriers, in separate runs.
void ExpectTileLeavesCleanly(BoundBody& bound, std::uint32_t tile) {
  bound.Poison();
  ASSERT_EQ(bound.Run({tile}, {}).size(), 1u) << "tile " << tile;
  const std::uint64_t barriers = bound.barriers();
  ASSERT_GE(barriers, 1u) << "tile " << tile << " never looks at its guards";
  std::set<std::uint64_t> at = {0, 1, barriers / 3, barriers / 2, barriers - 1};
  for (const std::uint64_t barrier : at) {
    bound.Poison();
    const bool committed = !bound.Run({tile}, {.seed = barrier, .revoke_at = barrier}).empty();
    ASSERT_TRUE(committed || bound.Untouched())
        << "tile " << tile << " left behind barrier " << barrier << " and had written";
  }
}

}  // namespace

BoundBody::BoundBody(CudaKernel kernel, std::vector<Bytes> inputs,
                     const std::vector<std::size_t>& output_bytes)
    : kernel_(std::move(kernel)), inputs_(std::move(inputs)) {
  EXPECT_EQ(kernel_.inputs.size(), inputs_.size());
  EXPECT_EQ(kernel_.outputs.size(), output_bytes.size());
  for (const std::size_t bytes : output_bytes) outputs_.emplace_back(bytes, kPoison);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Bind(kernel_.args, kernel_.inputs[i], inputs_[i].data());
    operands_.emplace_back(inputs_[i]);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    Bind(kernel_.args, kernel_.outputs[i], outputs_[i].data());
  }
}

void BoundBody::BindInput(std::size_t input, const Bytes& operand) {
  Bind(kernel_.args, kernel_.inputs[input], operand.data());
  operands_[input] = operand;
}

std::vector<std::uint32_t> BoundBody::Run(const std::vector<std::uint32_t>& tiles,
                                          const Play& play) {
  simt::Emulator emulator({.seed = play.seed});
  u32 word = play.revoked ? 1 : 0;
  GuardRef guards[kMaxGuards] = {};
  guards[0].word = &word;
  emulator.OnBarrier([&](const simt::BarrierEvent& event) {
    if (event.barriers == play.revoke_at) word = 1;
  });
  // Aligned as in grid parameters.
  alignas(kArgsAlignment) unsigned char args[kArgsBytes];
  std::memcpy(args, kernel_.args.data(), kernel_.args.size());
  std::vector<u32> agreed(tiles.size(), 0);
  const auto thread = [&] {
    const BlockControl control(guards);
    const bool committed = AnyBody::Run(static_cast<u32>(kernel_.body), args, tiles[blockIdx.x],
                                        simt::DynamicShared(), control);
    if (committed) ++agreed[blockIdx.x];
  };
  const Status status = emulator.Run({.name = kernel_.name,
                                      .grid = {static_cast<unsigned>(tiles.size())},
                                      .block = {kBodyThreads},
                                      .shared_bytes = kernel_.shared_bytes,
                                      .kernel = thread});
  EXPECT_TRUE(status) << status.error().message;
  barriers_ = emulator.barriers();
  std::vector<std::uint32_t> committed;
  for (std::size_t i = 0; i < tiles.size() && status; ++i) {
    EXPECT_TRUE(agreed[i] == 0 || agreed[i] == kBodyThreads)
        << kernel_.name << ": " << agreed[i] << " threads of tile " << tiles[i] << " committed";
    if (agreed[i] == kBodyThreads) committed.push_back(tiles[i]);
  }
  return committed;
}

std::vector<std::uint32_t> BoundBody::AllTiles() const {
  std::vector<std::uint32_t> tiles(kernel_.blocks);
  std::iota(tiles.begin(), tiles.end(), 0u);
  return tiles;
}

void BoundBody::Poison() {
  for (Bytes& output : outputs_) std::fill(output.begin(), output.end(), kPoison);
}

bool BoundBody::Untouched() const {
  return std::all_of(outputs_.begin(), outputs_.end(), [](const Bytes& output) {
    return std::all_of(output.begin(), output.end(), [](std::byte b) { return b == kPoison; });
  });
}

void ExpectKeepsPromises(BoundBody& bound) {
  const std::vector<std::uint32_t> all = bound.AllTiles();
  ASSERT_LE(bound.kernel().args.size(), kArgsBytes);
  ASSERT_TRUE(bound.Run(all, {.revoked = true}).empty()) << "ran under a raised guard";
  ASSERT_TRUE(bound.Untouched());
  ASSERT_EQ(bound.Run(all, {.seed = 1}), all);
  const std::vector<Bytes> whole = bound.outputs();

  std::mt19937 random(static_cast<unsigned>(all.size()));
  std::uint64_t barriers = bound.barriers();
  bound.Poison();
  std::vector<std::uint32_t> left = all;
  for (std::uint64_t round = 0; !left.empty(); ++round) {
    const std::uint64_t revoke_at =
        round < 3 ? random() % std::max<std::uint64_t>(barriers, 1) : kNever;
    const auto committed = bound.Run(left, {.seed = 2 + round, .revoke_at = revoke_at});
    barriers = bound.barriers();
    std::erase_if(left, [&](std::uint32_t tile) {
      return std::find(committed.begin(), committed.end(), tile) != committed.end();
    });
    ASSERT_TRUE(round < 3 || left.empty()) << left.size() << " tiles left with no guard raised";
  }
  ASSERT_EQ(bound.outputs(), whole) << "resumed tiles have other bits";

  ASSERT_NO_FATAL_FAILURE(ExpectTileLeavesCleanly(bound, all.front()));
  ASSERT_NO_FATAL_FAILURE(ExpectTileLeavesCleanly(bound, all.back()));
  bound.Poison();
  ASSERT_EQ(bound.Run(all, {.seed = 99}), all);
  ASSERT_EQ(bound.outputs(), whole) << "another order of warps and blocks gives other bits";
  if (also_expect != nullptr) also_expect(bound, whole);
}

std::vector<Bytes> RunOnCpu(const Kernel& kernel, const std::vector<Bytes>& inputs,
                            const std::vector<std::size_t>& output_bytes) {
  std::vector<std::byte> args = kernel.args;
  std::vector<Bytes> outputs;
  for (const std::size_t bytes : output_bytes) outputs.emplace_back(bytes);
  EXPECT_EQ(kernel.inputs.size(), inputs.size());
  EXPECT_EQ(kernel.outputs.size(), outputs.size());
  std::vector<AlignedMemory> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    operands.emplace_back(inputs[i].size());
    std::memcpy(operands[i].data(), inputs[i].data(), inputs[i].size());
    Bind(args, kernel.inputs[i], operands[i].data());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) Bind(args, kernel.outputs[i], outputs[i].data());
  AlignedMemory scratch(kernel.scratch_bytes);
  for (std::uint32_t block = 0; block < kernel.blocks; ++block) {
    BlockContext context({}, {scratch.data(), kernel.scratch_bytes});
    EXPECT_TRUE(kernel.body(args.data(), block, context));
  }
  return outputs;
}

void ExpectClose(std::span<const std::byte> got, std::span<const std::byte> want,
                 double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size() / sizeof(float); ++i) {
    float y, reference;
    std::memcpy(&y, got.data() + i * sizeof(float), sizeof(float));
    std::memcpy(&reference, want.data() + i * sizeof(float), sizeof(float));
    if (std::isnan(reference) || std::isinf(reference)) {
      ASSERT_TRUE(std::isnan(reference) ? std::isnan(y) : y == reference)
          << "element " << i << ": " << y << ", the CPU has " << reference;
    } else {
      ASSERT_NEAR(y, reference, tolerance * std::max(1.0f, std::abs(reference))) << "element " << i;
    }
  }
}

void ExpectLikeCpu(const Result<CudaKernel>& made, const std::vector<Bytes>& inputs,
                   const Result<Kernel>& cpu, const std::vector<Bytes>& cpu_inputs,
                   const std::vector<std::size_t>& output_bytes, double tolerance) {
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(cpu) << cpu.error().message;
  BoundBody bound(*made, inputs, output_bytes);
  ASSERT_NO_FATAL_FAILURE(ExpectKeepsPromises(bound));
  const std::vector<Bytes> want = RunOnCpu(*cpu, cpu_inputs, output_bytes);
  for (std::size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "output " << i);
    if (tolerance == 0) {
      ASSERT_EQ(bound.outputs()[i], want[i]);
    } else {
      ASSERT_NO_FATAL_FAILURE(ExpectClose(bound.outputs()[i], want[i], tolerance));
    }
  }
}

void ExpectLikeCpu(const Result<CudaKernel>& made, const Result<Kernel>& cpu,
                   const std::vector<Bytes>& inputs, const std::vector<std::size_t>& output_bytes,
                   double tolerance) {
  ExpectLikeCpu(made, inputs, cpu, inputs, output_bytes, tolerance);
}

}  // namespace lagoon::cuda::testing
