#pragma once

// Convolution and pooling over one to three spatial axes in the plain layout [N,C,D,H,W], for cases
// that the image bodies (conv2d, depthwise, pool) do not cover. Missing axes have size 1.

#include <array>
#include <cstdint>

#include "kernels/kernel.h"
#include "plan/tensor.h"

namespace lagoon {

inline constexpr std::size_t kSpatialAxes = 3;

struct SpatialWindow {
  std::array<std::size_t, kSpatialAxes> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  std::array<std::size_t, kSpatialAxes> stride{1, 1, 1}, dilation{1, 1, 1};
  std::array<std::size_t, kSpatialAxes> pad_begin{0, 0, 0};
};

/// y = sum of x * w + bias. The weights [groups * out_channels, in_channels, D, H, W] are ordinary
/// tensor data, not packed.
struct DirectConvSpec {
  SpatialWindow window = {};
  std::size_t batch = 1, groups = 1;
  std::size_t in_channels = 1, out_channels = 1;  // channels of one group
  bool bias = false;
};

/// Inputs: x, w, [bias]. Output: y. All fp32. A block computes rows of y, with its sums in scratch
/// memory.
Result<Kernel> MakeDirectConv(const DirectConvSpec& spec);

enum class WindowPool : std::uint8_t { kMax, kAverage, kAverageCountPadding, kLp };

struct WindowPoolSpec {
  WindowPool kind = WindowPool::kMax;
  SpatialWindow window = {};
  std::size_t images = 1;  // N * C
  int p = 2;               // for kLp
  /// Read only for kAverageCountPadding: what lies behind this padding does not count.
  std::array<std::size_t, kSpatialAxes> pad_end{0, 0, 0};
  /// kMax: adds a second output (kInt64), the index of each maximum in x.
  bool indices = false;
  /// These indices count along the first spatial axis first.
  bool column_major = false;
  DataType type = DataType::kFloat32;  // for kMax also kInt8, kUInt8
};

/// Input x; outputs y and, if `indices`, the indices.
Result<Kernel> MakeWindowPool(const WindowPoolSpec& spec);

}  // namespace lagoon
