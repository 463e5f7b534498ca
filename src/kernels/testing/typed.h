#pragma once

// For tests of kernels on any element types: runs the blocks of a kernel one by one on poisoned
// memory, and checks that each block writes its own tile only.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/move/index_ops.h"
#include "kernels/testing/leave_at.h"

namespace lagoon::testing {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes ToBytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> FromBytes(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// A kernel bound to its inputs and to outputs of the given sizes.
class TypedRun {
 public:
  TypedRun(Kernel kernel, const std::vector<Bytes>& inputs, const std::vector<std::size_t>& outputs)
      : kernel_(std::move(kernel)), inputs_(inputs), scratch_(kernel_.scratch_bytes + 64) {
    EXPECT_EQ(kernel_.inputs.size(), inputs_.size());
    EXPECT_EQ(kernel_.outputs.size(), outputs.size());
    for (const std::size_t size : outputs) outputs_.emplace_back(size);
    for (std::size_t i = 0; i < inputs_.size(); ++i) Bind(kernel_.inputs[i], inputs_[i].data());
    for (std::size_t i = 0; i < outputs_.size(); ++i) Bind(kernel_.outputs[i], outputs_[i].data());
  }

  /// Runs all blocks, the last one first: their order must not matter.
  const std::vector<Bytes>& Run(std::byte poison = std::byte{0xa5}) {
    for (Bytes& output : outputs_) std::fill(output.begin(), output.end(), poison);
    for (std::uint32_t block = kernel_.blocks; block-- > 0;) EXPECT_TRUE(RunBlock(block));
    return outputs_;
  }

  /// Expects that every byte is written by exactly one block, with a value that does not depend on
  /// the memory's contents before; a block that leaves must have written nothing.
  void ExpectTiles() {
    for (const std::uint32_t block : {0u, kernel_.blocks / 2, kernel_.blocks - 1}) {
      ExpectLeavesCleanly(block);
    }
    const std::vector<Bytes> whole = Run();
    EXPECT_EQ(whole, Run(std::byte{0x5a}));
    std::vector<Bytes> owners = whole;
    for (Bytes& owner : owners) std::fill(owner.begin(), owner.end(), std::byte{0});
    for (std::uint32_t block = 0; block < kernel_.blocks; ++block) {
      std::vector<Bytes> seen[2];
      for (const std::byte poison : {std::byte{0xa5}, std::byte{0x5a}}) {
        for (Bytes& output : outputs_) std::fill(output.begin(), output.end(), poison);
        EXPECT_TRUE(RunBlock(block));
        seen[poison == std::byte{0xa5} ? 0 : 1] = outputs_;
      }
      for (std::size_t i = 0; i < owners.size(); ++i) {
        for (std::size_t at = 0; at < owners[i].size(); ++at) {
          if (seen[0][i][at] != seen[1][i][at]) continue;  // not written
          ASSERT_EQ(owners[i][at], std::byte{0}) << "byte " << at << " of output " << i;
          owners[i][at] = std::byte{1};
        }
      }
    }
    for (const Bytes& owner : owners) {
      EXPECT_EQ(std::count(owner.begin(), owner.end(), std::byte{0}), 0) << "bytes left out";
    }
  }

  const Kernel& kernel() const { return kernel_; }
  bool RunBlock(std::uint32_t block, CheckProbe* probe = nullptr) {
    std::fill(scratch_.begin(), scratch_.end(), std::byte{0xc3});
    void* start = scratch_.data();
    std::size_t space = scratch_.size();
    std::align(64, kernel_.scratch_bytes, start, space);
    BlockContext context({}, {static_cast<std::byte*>(start), kernel_.scratch_bytes}, probe);
    return kernel_.body(kernel_.args.data(), block, context);
  }

 private:
  void ExpectLeavesCleanly(std::uint32_t block) {
    constexpr int kMaxChecks = 12;
    LeaveAt count;
    ASSERT_TRUE(RunBlock(block, &count));
    ASSERT_GE(count.checks(), 1) << "block " << block << " never looks at its guards";
    for (int i = 1; i <= std::min(count.checks(), kMaxChecks); ++i) {
      // Results may already exist at the last checks, so those are tried too.
      const int check = i % 2 == 1 ? (i + 1) / 2 : count.checks() - i / 2 + 1;
      for (Bytes& output : outputs_) std::fill(output.begin(), output.end(), std::byte{0xa5});
      const std::vector<Bytes> untouched = outputs_;
      LeaveAt leave(check);
      ASSERT_FALSE(RunBlock(block, &leave)) << "block " << block << ", check " << check;
      ASSERT_EQ(outputs_, untouched) << "block " << block << " left at check " << check;
    }
  }

  void Bind(std::uint32_t offset, const std::byte* pointer) {
    std::memcpy(kernel_.args.data() + offset, &pointer, sizeof(pointer));
  }

  Kernel kernel_;
  std::vector<Bytes> inputs_, outputs_;
  Bytes scratch_;
};

/// Runs `kernel`, checks its blocks and compares its only output.
template <typename T>
void ExpectTyped(const Result<Kernel>& kernel, const std::vector<Bytes>& inputs,
                 const std::vector<T>& expected) {
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
  TypedRun run(*kernel, inputs, {expected.size() * sizeof(T)});
  run.ExpectTiles();
  EXPECT_EQ(FromBytes<T>(run.Run()[0]), expected);
}

/// The inputs of MakeScatter(): runs MakeScatterTargets(), and expects of it what ExpectTyped()
/// does.
inline std::vector<Bytes> ScatterInputs(const IndexSpec& spec, const Bytes& x, const Bytes& indices,
                                        const Bytes& updates) {
  std::size_t entries = 1;
  for (const std::int64_t size : spec.entries) entries *= static_cast<std::size_t>(size);
  const std::size_t chunks = (entries + kScatterChunk - 1) / kScatterChunk;
  const Result<Kernel> kernel = MakeScatterTargets(spec);
  if (!kernel) {
    ADD_FAILURE() << kernel.error().message;
    return {};
  }
  constexpr std::size_t kNumber = sizeof(std::int64_t);
  TypedRun run(*kernel, {indices}, {entries * kNumber, chunks * 2 * kNumber});
  run.ExpectTiles();
  const std::vector<Bytes>& outputs = run.Run();
  return {x, outputs[0], outputs[1], updates};
}

}  // namespace lagoon::testing
