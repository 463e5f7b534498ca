#pragma once

// What every op's factory returns: a body with its argument image, tiled for the device at hand.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "device/block.h"
#include "kernels/unary_op.h"

namespace lagoon {

struct CudaImage;  // device/cuda/program.h

/// One way to cut a kernel into blocks: another image of the same argument struct.
struct KernelVersion {
  std::string name;  // says how, and tells the versions of one kernel apart: "7x1x2"
  std::vector<std::byte> args;
  std::uint32_t blocks = 0;
  std::size_t scratch_bytes = 0;
};

/// A body tiled for one shape. `args` is the image of the body's argument struct with null
/// pointers; `inputs` and `outputs` say where in it the operands' pointers lie, in the factory's
/// documented order. Activations are dense row-major fp32 in the layout that the factory documents
/// (images: NHWC).
struct Kernel {
  const char* name = "";            // of the body, static storage: "conv2d"
  Body body = nullptr;              // the CPU's; null: it is another device's
  const CudaImage* cuda = nullptr;  // an NVIDIA GPU's; outlives what is compiled with it
  std::uint32_t blocks = 0;
  std::size_t scratch_bytes = 0;  // of a unit; of a GPU's block, shared
  std::vector<std::byte> args;
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  /// Positions in `inputs` of operands that output 0 may replace in place: a block reads of them
  /// only the bytes that it writes, and reads them before.
  std::vector<std::uint32_t> in_place;
  /// All ways that the factory knows, with this one among them; empty where there is only this one
  /// (REEF 5.3).
  std::vector<KernelVersion> versions;
  double flops = 0;        // multiply and add count as two
  double bytes_moved = 0;  // operands read and written once each
};

#if __has_builtin(__builtin_clear_padding)
#define LAGOON_CLEAR_PADDING(object) __builtin_clear_padding(object)
#else
#define LAGOON_CLEAR_PADDING(object) static_cast<void>(object)
#endif
/// Whether equal arguments have equal images, which kernels that prepare the same constant are told
/// by: not with a compiler that leaves padding as it is (Clang).
inline constexpr bool kArgsImagesCompare = __has_builtin(__builtin_clear_padding);

/// The image of a trivially copyable argument struct.
template <typename Args>
std::vector<std::byte> ArgsImage(Args args) {
  static_assert(std::is_trivially_copyable_v<Args>);
  LAGOON_CLEAR_PADDING(&args);
  std::vector<std::byte> image(sizeof(Args));
  std::memcpy(image.data(), &args, sizeof(Args));
  return image;
}

/// Limits are kept while values are stored; any other function follows once a tile is written.
enum class Activation : std::uint8_t { kNone, kRelu, kClip, kUnary };

/// What a body does to its results: y = activation(acc + bias + residual).
struct Epilogue {
  Activation activation = Activation::kNone;
  float low = 0;          // kClip
  float high = 0;         // kClip
  bool residual = false;  // one more input, of the output's shape
  /// The residual is added behind the activation: y = activation(acc + bias) + residual.
  bool residual_last = false;
  UnaryOp unary = UnaryOp::kCopy;  // kUnary: one with a vector body (MakeUnary)
  float alpha = 0, beta = 0;       // its parameters
};

}  // namespace lagoon
