#pragma once

// What every op's factory returns: a body with its argument image, tiled for its device.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "device/block.h"
#include "plan/elementwise_list.h"

namespace lagoon {

struct CudaImage;  // device/cuda/driver/program.h

/// One way to cut a kernel into blocks: another image of the same argument struct.
struct KernelVersion {
  std::string name;  // describes the cut and is unique among the versions of a kernel: "7x1x2"
  std::vector<std::byte> args;
  std::uint32_t blocks = 0;
  std::size_t scratch_bytes = 0;
};

/// A body tiled for one shape. `args` is the image of the body's argument struct with null
/// pointers; `inputs` and `outputs` are the offsets of the operands' pointers in that image, in the
/// order that the factory documents. Tensors are dense row-major, with the types and the layout
/// that the factory documents (images: NHWC).
struct Kernel {
  const char* name = "";            // name of the body, static storage: "conv2d"
  Body body = nullptr;              // CPU body; null for a kernel of another device
  const CudaImage* cuda = nullptr;  // code for an NVIDIA GPU; outlives what is compiled with it
  std::uint32_t blocks = 0;
  std::size_t scratch_bytes = 0;  // per compute unit; on a GPU shared memory per block
  std::vector<std::byte> args;
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  /// Positions in `inputs` of operands whose memory output 0 may use: a block reads only those
  /// bytes of such an operand that it writes, and reads them before it writes.
  std::vector<std::uint32_t> in_place;
  /// All ways to cut the kernel that the factory offers, this one included; empty if there is only
  /// this one (REEF 5.3).
  std::vector<KernelVersion> versions;
  double flops = 0;        // a multiplication and an addition count as two
  double bytes_moved = 0;  // every operand read or written once
};

#if __has_builtin(__builtin_clear_padding)
#define LAGOON_CLEAR_PADDING(object) __builtin_clear_padding(object)
#else
#define LAGOON_CLEAR_PADDING(object) static_cast<void>(object)
#endif
/// True if equal Args structs always have equal images, so that comparing images finds kernels that
/// prepare the same constant. False on compilers that cannot clear padding (Clang).
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

/// kRelu and kClip are limits, applied while values are stored. kUnary is applied after a tile is
/// written.
enum class Activation : std::uint8_t { kNone, kRelu, kClip, kUnary };

/// What a body does to its results: y = activation(acc + bias + residual).
struct Epilogue {
  Activation activation = Activation::kNone;
  float low = 0;          // kClip
  float high = 0;         // kClip
  bool residual = false;  // one more input, of the output's shape
  /// Adds the residual after the activation: y = activation(acc + bias) + residual.
  bool residual_last = false;
  UnaryOp unary = UnaryOp::kCopy;  // for kUnary: an op with a vector body (MakeUnary)
  float alpha = 0, beta = 0;       // parameters of `unary`
};

}  // namespace lagoon
