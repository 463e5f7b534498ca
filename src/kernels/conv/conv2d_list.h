#pragma once

// Micro-tiles of any output pixels: which pixels a segment has, where they read x, and which taps
// are padding.

#include <cstddef>
#include <cstdint>

#include "kernels/conv/conv2d_args.h"
#include "kernels/conv/conv2d_body.h"

namespace lagoon {

/// The pixels of one segment.
struct PixelList {
  std::uint32_t count = 0;
  std::uint32_t first_tap = 0;  // the first tap that some pixel has inside the image
  bool neighbours = false;      // whether they are neighbours in y
  // Where each pixel has tap 0, perhaps outside the image, in bytes from x, and where it has its
  // first channel, in floats from y.
  std::ptrdiff_t from[kMaxMicroRows] = {};
  std::size_t places[kMaxMicroRows] = {};
  /// Bit p of element k: kernel row or kernel column k of pixel p is inside the image.
  std::uint32_t inside_rows[kMaxListKernel] = {}, inside_columns[kMaxListKernel] = {};

  bool Needs(std::uint32_t row, std::uint32_t column) const {
    return (inside_rows[row] & inside_columns[column]) != 0;
  }
};

/// Output columns [begin, end).
struct ColumnRange {
  std::int64_t begin, end;
};

/// The output columns that have kernel column `tap` inside the image.
ColumnRange InsideColumns(const ImageWindow& window, std::uint32_t tap);

/// Makes the lists of a convolution with ConvInput::kList, which must outlive this object.
class ListMaker {
 public:
  explicit ListMaker(const Conv2dArgs& args);
  void Make(std::size_t segment, PixelList& list) const;

 private:
  struct Run;
  void Add(const Run& run, PixelList& list) const;

  const Conv2dArgs& args_;
  ColumnRange inside_[kMaxListKernel];
};

/// Time of `segments` segments of `pixels` pixels together, up to a factor.
double SegmentCost(std::size_t pixels, std::size_t segments);

/// Chooses the classes of a convolution with ConvInput::kList, and sets its fields that say where
/// segments lie. `max_rows`: most pixels of a segment.
void SetClasses(std::uint32_t max_rows, Conv2dArgs& args);

/// The share of the taps that the segments of such a convolution need, on average and at most.
struct TapShare {
  double average = 1, most = 1;
};
TapShare TapShareOf(const Conv2dArgs& args);

}  // namespace lagoon
