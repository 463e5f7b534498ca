#pragma once

// Images sampled at computed places.

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace lagoon {

/// ONNX's RoiAlign: each region of an image becomes a small image of bins. A bin is the average or
/// the maximum of samples between pixels.
struct RoiAlignSpec {
  std::size_t batch = 1, height = 1, width = 1, channels = 1;  // of x
  std::size_t regions = 1;
  std::size_t out_height = 1, out_width = 1;
  std::size_t samples = 0;  // along each axis of a bin; 0: as many as the bin has pixels
  float scale = 1;          // from the regions' coordinates to pixels
  bool half_pixel = true;   // pixel i lies at i + 0.5; otherwise a region has at least one pixel
  bool maximum = false;     // the greatest weighted pixel of a bin; otherwise the average sample
};

/// The most samples along an axis of a bin, which a region far larger than the image reaches.
inline constexpr std::size_t kMostRoiSamples = 1024;

/// Inputs: x [batch,height,width,channels], regions [regions,4] (left, top, right, bottom), and the
/// image of each region [regions] (int64). Output: y [regions,out_height,out_width,channels], zero
/// for a region of an image that does not exist. A block computes some bins.
Result<Kernel> MakeRoiAlign(const RoiAlignSpec& spec);

enum class SampleMode : std::uint8_t { kNearest, kLinear, kCubic };
/// What lies outside of the image.
enum class SamplePadding : std::uint8_t { kZeros, kBorder, kReflection };

/// ONNX's GridSample over two or three spatial axes. A missing first axis has size 1.
struct GridSampleSpec {
  std::size_t batch = 1, channels = 1;
  std::array<std::size_t, 3> in{1, 1, 1};
  std::size_t axes = 2;    // 2 or 3: numbers per place
  std::size_t places = 1;  // per image
  SampleMode mode = SampleMode::kLinear;
  SamplePadding padding = SamplePadding::kZeros;
  bool align_corners = false;
};

/// Inputs: x [batch,in...,channels], the grid [batch,places,axes] in [-1,1], the last axis of x
/// first. Output: y [batch,places,channels]. A place that is not a number lies outside. kCubic
/// takes two axes. A block computes some places.
Result<Kernel> MakeGridSample(const GridSampleSpec& spec);

}  // namespace lagoon
