#pragma once

// Runs CUDA bodies on the emulator (whole, in several orders, revoked at any barrier and resumed)
// and compares the results with those of the CPU's body of the same op. If $LAGOON_TEST_GPU is the
// number of a GPU, the bodies run there too, and the results must equal the emulator's up to the
// rounding of sums.

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

/// A kernel bound to operands. Its outputs are poisoned at first.
class BoundBody {
 public:
  BoundBody(CudaKernel kernel, std::vector<Bytes> inputs,
            const std::vector<std::size_t>& output_bytes);

  /// Reads `operand`, for example another body's output, instead of the input given at
  /// construction.
  void BindInput(std::size_t input, const Bytes& operand);
  /// Type of all outputs; fp32 by default.
  void SetOutputType(DataType type) { output_type_ = type; }

  struct Play {
    std::uint64_t seed = 1;
    /// The number of the barrier, counted over all blocks, at which the guard is raised.
    std::uint64_t revoke_at = kNever;
    bool revoked = false;  // true: revoked from the start
  };
  /// Runs each of `tiles` in its own block, four blocks at a time, and returns the tiles that
  /// committed. The test fails if the threads of a block disagree or the emulator finds an error.
  std::vector<std::uint32_t> Run(const std::vector<std::uint32_t>& tiles, const Play& play);
  std::vector<std::uint32_t> AllTiles() const;
  void Poison();
  /// True if no output byte has been written.
  bool Untouched() const;

  const CudaKernel& kernel() const { return kernel_; }
  const std::vector<Bytes>& outputs() const { return outputs_; }
  std::span<const std::span<const std::byte>> operands() const { return operands_; }
  DataType output_type() const { return output_type_; }
  std::uint64_t barriers() const { return barriers_; }  // in the last Run()

 private:
  CudaKernel kernel_;
  std::vector<Bytes> inputs_, outputs_;
  std::vector<std::span<const std::byte>> operands_;  // inputs_, or operands bound with BindInput()
  DataType output_type_ = DataType::kFloat32;
  std::uint64_t barriers_ = 0;
};

/// What ExpectKeepsPromises() checks in addition to the emulator: the body on a GPU
/// (testing/gpu.cc). Null: nothing.
inline void (*also_expect)(const BoundBody& bound, const std::vector<Bytes>& whole) = nullptr;

/// Expects a body to keep its promises: it runs whole; revoked at random barriers and resumed, it
/// gives the same bits; revoked from the start or at barriers of single tiles, it writes nothing.
/// Leaves the outputs complete.
void ExpectKeepsPromises(BoundBody& bound);

/// The outputs of the CPU's body for the same inputs.
std::vector<Bytes> RunOnCpu(const Kernel& kernel, const std::vector<Bytes>& inputs,
                            const std::vector<std::size_t>& output_bytes);

/// |got - want| <= tolerance * max(1, |want|), as fp32; infinities and NaN must agree.
void ExpectClose(std::span<const std::byte> got, std::span<const std::byte> want, double tolerance);

/// Runs a CUDA body and the CPU's, checks the promises and compares the outputs.
void ExpectLikeCpu(const Result<CudaKernel>& made, const Result<Kernel>& cpu,
                   const std::vector<Bytes>& inputs, const std::vector<std::size_t>& output_bytes,
                   double tolerance);
/// The same, with operands in another form for the CPU.
void ExpectLikeCpu(const Result<CudaKernel>& made, const std::vector<Bytes>& inputs,
                   const Result<Kernel>& cpu, const std::vector<Bytes>& cpu_inputs,
                   const std::vector<std::size_t>& output_bytes, double tolerance);

}  // namespace lagoon::cuda::testing
