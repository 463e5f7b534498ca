#include <algorithm>
#include <cstddef>

#include "kernels/conv/bf16/conv2d_bf16.h"
#include "kernels/conv/bf16/conv2d_bf16_args.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

// Where the elements of one step lie in a filter in ONNX's order. The depth runs over kernel
// positions, then channels.
struct StepPlaces {
  std::size_t offset[kBf16Step];
  std::size_t count;  // elements of the step; fewer in the last one

  StepPlaces(const Conv2dSpec& spec, std::size_t step) {
    const std::size_t kernel = WindowTaps(spec.window);
    const std::size_t first = step * kBf16Step;
    count = std::min<std::size_t>(kBf16Step, kernel * spec.in_channels - first);
    for (std::size_t i = 0; i < count; ++i) {
      offset[i] = (first + i) % spec.in_channels * kernel + (first + i) / spec.in_channels;
    }
  }
};

// Packs one column of half a panel of one step, [pair of the depth][column][2]; zeros behind the
// depth.
void PackColumn(const StepPlaces& places, const float* filter, Bf16* to) {
  for (std::size_t i = 0; i < kBf16Step; ++i) {
    to[i / 2 * 2 * kBf16Vector + i % 2] =
        i < places.count ? ToBf16(filter[places.offset[i]]) : Bf16{};
  }
}

}  // namespace

std::size_t PackedBf16Conv2dWeightBytes(const Conv2dSpec& spec) {
  const std::size_t depth = WindowTaps(spec.window) * spec.in_channels;
  return CeilDivide(spec.out_channels, kBf16Vector) * kBf16Vector * Bf16Steps(depth) * kBf16Step *
         sizeof(Bf16);
}

void PackBf16Conv2dWeights(const Conv2dSpec& spec, const float* weights, void* packed) {
  const std::size_t depth = WindowTaps(spec.window) * spec.in_channels;
  Bf16* to = static_cast<Bf16*>(packed);
  std::fill_n(to, PackedBf16Conv2dWeightBytes(spec) / sizeof(Bf16), Bf16{});
  for (std::size_t first = 0; first < spec.out_channels; first += kBf16Panel) {
    const std::size_t width = Bf16PanelWidth(spec.out_channels, first / kBf16Panel);
    const std::size_t columns = std::min<std::size_t>(width, spec.out_channels - first);
    for (std::size_t step = 0; step < Bf16Steps(depth); ++step, to += width * kBf16Step) {
      const StepPlaces places(spec, step);
      for (std::size_t column = 0; column < columns; ++column) {
        const std::size_t half = column / kBf16Vector;
        PackColumn(places, weights + (first + column) * depth,
                   to + half * kBf16Vector * kBf16Step + column % kBf16Vector * 2);
      }
    }
  }
}

}  // namespace lagoon
