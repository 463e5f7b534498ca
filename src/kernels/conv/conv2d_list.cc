#include "kernels/conv/conv2d_list.h"

#include <algorithm>

#include "kernels/conv/conv2d_walk.h"
#include "kernels/tiling.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

/// With fewer pixels, a segment takes no less time: too few sums are under way.
constexpr std::size_t kLeastPixels = 5;
/// Classes must save this much to be worth segments that read scattered pixels.
constexpr double kWorthClasses = 0.95;

// The number of columns from which `offset` + column * stride reaches `target`.
std::int64_t ColumnsUntil(std::int64_t target, std::int64_t offset, std::int64_t stride) {
  return offset >= target ? 0 : (target - offset + stride - 1) / stride;
}

// Without columns of padding, a kernel row may be one tap.
bool Joined(const Conv2dArgs& args) { return args.taps_w != args.window.kernel_w; }

std::uint32_t SegmentsOf(std::size_t pixels, std::uint32_t max_rows) {
  return static_cast<std::uint32_t>(CeilDivide(pixels, max_rows));
}

// Time of the segments of `pixels` pixels with `taps` taps per kernel row, up to a factor.
double CostOf(std::size_t pixels, std::uint32_t taps, std::uint32_t max_rows) {
  return SegmentCost(pixels, SegmentsOf(pixels, max_rows)) * taps;
}

}  // namespace

double SegmentCost(std::size_t pixels, std::size_t segments) {
  return static_cast<double>(std::max(pixels, kLeastPixels * segments));
}

ColumnRange InsideColumns(const ImageWindow& window, std::uint32_t tap) {
  const std::int64_t offset = std::int64_t{tap} * window.dilation_w - window.pad_left;
  const std::int64_t columns = window.out_width;
  const std::int64_t begin = std::min(columns, ColumnsUntil(0, offset, window.stride_w));
  const std::int64_t end = std::min(columns, ColumnsUntil(window.width, offset, window.stride_w));
  return {begin, std::max(begin, end)};
}

/// Pixels of one row of y: `first` is the number of the first one in the list.
struct ListMaker::Run {
  std::size_t row;  // over all images
  std::uint32_t column, first, count;
};

ListMaker::ListMaker(const Conv2dArgs& args) : args_(args) {
  const bool joined = Joined(args);
  for (std::uint32_t tap = 0; tap < args.taps_w; ++tap) {
    inside_[tap] = joined ? ColumnRange{0, args.window.out_width} : InsideColumns(args.window, tap);
  }
}

void ListMaker::Make(std::size_t segment, PixelList& list) const {
  const ImageWindow& w = args_.window;
  const ConvClasses& classes = args_.classes;
  std::uint32_t at = classes.count - 1;
  while (segment < classes.first_segment[at]) --at;
  const std::uint32_t first_segment = classes.first_segment[at], columns = classes.columns[at];
  const std::uint32_t end =
      at + 1 == classes.count ? args_.segments : classes.first_segment[at + 1];
  const std::size_t pixels = std::size_t{w.batch} * w.out_height * columns;
  const Range range = Share(pixels, end - first_segment, segment - first_segment);
  std::fill_n(list.inside_rows, w.kernel_h, 0u);
  std::fill_n(list.inside_columns, args_.taps_w, 0u);
  list.count = 0;
  const std::size_t first_row = range.begin / columns;
  std::size_t row = first_row, left = range.size();
  auto column = static_cast<std::uint32_t>(range.begin % columns);
  for (; left > 0; ++row, column = 0) {
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(left, columns - column));
    Add({row, classes.first_column[at] + column, list.count, count}, list);
    left -= count;
  }
  list.neighbours = columns == w.out_width || row == first_row + 1;
  list.first_tap = 0;
  const std::uint32_t taps = w.kernel_h * args_.taps_w;
  while (list.first_tap < taps &&
         !list.Needs(list.first_tap / args_.taps_w, list.first_tap % args_.taps_w)) {
    ++list.first_tap;
  }
}

// Adds a run, and counts it.
void ListMaker::Add(const Run& run, PixelList& list) const {
  const ImageWindow& w = args_.window;
  const std::size_t image = run.row / w.out_height, out_row = run.row % w.out_height;
  const KernelRows rows = KernelRowsOf(args_, out_row);
  const std::int64_t row = static_cast<std::int64_t>(image) * w.height + rows.y;
  const std::int64_t pixel = row * w.width + ColumnOf(args_, run.column);
  const std::int64_t pitch = std::int64_t{args_.channels} * std::int64_t{sizeof(float)};
  std::int64_t from = pixel * pitch;
  std::size_t place = (run.row * w.out_width + run.column) * args_.out_channels;
  for (std::uint32_t p = run.first; p < run.first + run.count; ++p) {
    list.from[p] = from;
    list.places[p] = place;
    from += w.stride_w * pitch;
    place += args_.out_channels;
  }
  const std::uint32_t all = ((1u << run.count) - 1) << run.first;
  for (std::uint32_t k = rows.begin; k < rows.end; ++k) list.inside_rows[k] |= all;
  for (std::uint32_t k = 0; k < args_.taps_w; ++k) {
    const std::int64_t begin = std::max<std::int64_t>(run.column, inside_[k].begin) - run.column;
    const std::int64_t end =
        std::min<std::int64_t>(run.column + run.count, inside_[k].end) - run.column;
    if (begin >= end) continue;
    list.inside_columns[k] |= ((1u << (end - begin)) - 1) << (run.first + begin);
  }
  list.count += run.count;
}

void SetClasses(std::uint32_t max_rows, Conv2dArgs& args) {
  const ImageWindow& w = args.window;
  const std::size_t rows = std::size_t{w.batch} * w.out_height;
  args.images = args.rows = 1;
  ConvClasses& classes = args.classes;
  classes.count = 0;
  const double together = CostOf(rows * w.out_width, args.taps_w, max_rows);
  double apart = 0;
  std::uint32_t segments = 0;
  const std::uint32_t all_segments = SegmentsOf(rows * w.out_width, max_rows);
  for (std::uint32_t column = 0; column < w.out_width && !Joined(args);) {
    // The class of this column ends where some kernel column enters or leaves the image.
    std::int64_t end = w.out_width;
    std::uint32_t taps = 0;
    for (std::uint32_t tap = 0; tap < args.taps_w; ++tap) {
      const ColumnRange inside = InsideColumns(w, tap);
      if (inside.begin > column) end = std::min(end, inside.begin);
      if (inside.end > column) end = std::min(end, inside.end);
      taps += inside.begin <= column && column < inside.end;
    }
    if (classes.count == kMaxListClasses) {
      apart = together;
      break;
    }
    const auto columns = static_cast<std::uint32_t>(end - column);
    classes.first_column[classes.count] = column;
    classes.columns[classes.count] = columns;
    classes.first_segment[classes.count++] = segments;
    segments += SegmentsOf(rows * columns, max_rows);
    apart += CostOf(rows * columns, taps, max_rows);
    column += columns;
  }
  args.segments = segments;
  if (!Joined(args) && apart < kWorthClasses * together) return;
  classes.count = 1;
  classes.first_column[0] = classes.first_segment[0] = 0;
  classes.columns[0] = w.out_width;
  args.segments = all_segments;
}

TapShare TapShareOf(const Conv2dArgs& args) {
  PixelList list;
  const ListMaker maker(args);
  const std::uint32_t taps = args.window.kernel_h * args.taps_w;
  // Where most segments are alike, some of them tell enough.
  constexpr std::uint32_t kMostSamples = 256;
  const auto step = static_cast<std::uint32_t>(CeilDivide(args.segments, kMostSamples));
  std::size_t needed = 0, most = 1, samples = 0;
  for (std::uint32_t segment = 0; segment < args.segments; segment += step, ++samples) {
    maker.Make(segment, list);
    std::size_t count = 0;
    for (std::uint32_t tap = 0; tap < taps; ++tap) {
      count += list.Needs(tap / args.taps_w, tap % args.taps_w);
    }
    needed += count;
    most = std::max(most, count);
  }
  const double all = taps;
  if (step > 1) most = taps;
  return {static_cast<double>(needed) / all / static_cast<double>(samples),
          static_cast<double>(most) / all};
}

}  // namespace lagoon
