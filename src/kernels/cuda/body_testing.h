#pragma once

// Runs CUDA bodies on the emulator: whole, in several orders, revoked at any barrier and resumed,
// and compares with the CPU's body of the same op. Where $LAGOON_TEST_GPU is the number of a GPU,
// they run there too, and must give what the emulator gives but for the rounding of sums.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cuda/kernel.h"
#include "kernels/kernel.h"

namespace lagoon::cuda::testing {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes BytesOf(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

/// A kernel bound to operands; its outputs begin poisoned.
class BoundBody {
 public:
  BoundBody(CudaKernel kernel, std::vector<Bytes> inputs,
            const std::vector<std::size_t>& output_bytes);

  /// Reads another body's output, say, instead of the input that it was made with.
  void BindInput(std::size_t input, const Bytes& operand);
  /// Of all outputs; fp32 unless told.
  void SetOutputType(DataType type) { output_type_ = type; }

  struct Play {
    std::uint64_t seed = 1;
    std::uint64_t revoke_at = kNever;  // the barrier, counted over all blocks, that sees the guard
    bool revoked = false;              // from the start
  };
  /// Runs each of `tiles` in a block of its own, four at a time. Those that committed; a block
  /// whose threads disagree, or that the emulator finds at fault, fails the test.
  std::vector<std::uint32_t> Run(const std::vector<std::uint32_t>& tiles, const Play& play);
  std::vector<std::uint32_t> AllTiles() const;
  void Poison();
  /// No output byte has been written.
  bool Untouched() const;

  const CudaKernel& kernel() const { return kernel_; }
  const std::vector<Bytes>& outputs() const { return outputs_; }
  std::span<const std::span<const std::byte>> operands() const { return operands_; }
  DataType output_type() const { return output_type_; }
  std::uint64_t barriers() const { return barriers_; }  // of the last Run()

 private:
  CudaKernel kernel_;
  std::vector<Bytes> inputs_, outputs_;
  std::vector<std::span<const std::byte>> operands_;  // inputs_, or what was bound instead
  DataType output_type_ = DataType::kFloat32;
  std::uint64_t barriers_ = 0;
};

/// What else ExpectKeepsPromises() holds a body to, beside what the emulator made of it: on a GPU
/// (gpu_testing.cc). Null: nothing.
inline void (*also_expect)(const BoundBody& bound, const std::vector<Bytes>& whole) = nullptr;

/// Runs the body whole; revoked at random barriers and resumed, which must give the same bits;
/// revoked from the start and at barriers of single tiles, which must leave no trace. Leaves the
/// outputs complete.
void ExpectKeepsPromises(BoundBody& bound);

/// The outputs of the CPU's body on the same inputs.
std::vector<Bytes> RunOnCpu(const Kernel& kernel, const std::vector<Bytes>& inputs,
                            const std::vector<std::size_t>& output_bytes);

/// |got - want| <= tolerance * max(1, |want|), as fp32; infinities and NaN must agree.
void ExpectClose(std::span<const std::byte> got, std::span<const std::byte> want, double tolerance);

/// All of the above.
void ExpectLikeCpu(const Result<CudaKernel>& made, const Result<Kernel>& cpu,
                   const std::vector<Bytes>& inputs, const std::vector<std::size_t>& output_bytes,
                   double tolerance);
/// With operands in another form for the CPU.
void ExpectLikeCpu(const Result<CudaKernel>& made, const std::vector<Bytes>& inputs,
                   const Result<Kernel>& cpu, const std::vector<Bytes>& cpu_inputs,
                   const std::vector<std::size_t>& output_bytes, double tolerance);

}  // namespace lagoon::cuda::testing
