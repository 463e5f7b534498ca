#include <algorithm>
#include <cstddef>

#include "kernels/conv/bf16/conv2d_bf16.h"
#include "kernels/conv/conv2d.h"
#include "kernels/conv/conv2d_args.h"
#include "kernels/conv/conv2d_body.h"
#include "kernels/conv/conv2d_tiling.h"
#include "kernels/conv/gemv_args.h"
#include "kernels/window.h"

namespace lagoon {
namespace {

void PackGemv(const Conv2dSpec& spec, std::size_t lanes, const float* weights, float* packed) {
  const std::size_t groups = CeilDivide(spec.out_channels, kGemvGroup);
  const std::size_t vectors = GemvVectors(spec.in_channels, lanes, /*bf16=*/false);
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t v = 0; v < vectors; ++v) {
      for (std::size_t o = group * kGemvGroup; o < (group + 1) * kGemvGroup; ++o) {
        for (std::size_t i = v * lanes; i < (v + 1) * lanes; ++i) {
          const bool exists = o < spec.out_channels && i < spec.in_channels;
          *packed++ = exists ? weights[o * spec.in_channels + i] : 0;
        }
      }
    }
  }
}

// The same in bf16, with two vectors of the depth together: [group][pair][output][lane][2].
void PackBf16Gemv(const Conv2dSpec& spec, std::size_t lanes, const float* weights, Bf16* packed) {
  const std::size_t groups = CeilDivide(spec.out_channels, kGemvGroup);
  const std::size_t vectors = GemvVectors(spec.in_channels, lanes, /*bf16=*/true);
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t v = 0; v < vectors; v += 2) {
      for (std::size_t o = group * kGemvGroup; o < (group + 1) * kGemvGroup; ++o) {
        for (std::size_t i = 0; i < 2 * lanes; ++i) {
          const std::size_t k = (v + i % 2) * lanes + i / 2;
          const bool exists = o < spec.out_channels && k < spec.in_channels;
          *packed++ = exists ? ToBf16(weights[o * spec.in_channels + k]) : Bf16{};
        }
      }
    }
  }
}

// Packs one panel: [kernel_h][kernel_w][in_channels][width], for `count` output channels from
// `channel` on; zeros up to `width`.
void PackPanel(const Conv2dSpec& spec, std::size_t channel, std::size_t width, const float* weights,
               float* packed) {
  const std::size_t kernel = WindowTaps(spec.window);
  const std::size_t count = std::min<std::size_t>(width, spec.out_channels - channel);
  const std::size_t filter = kernel * spec.in_channels;
  weights += channel * filter;
  for (std::size_t i = 0; i < spec.in_channels; ++i) {
    for (std::size_t position = 0; position < kernel; ++position) {
      float* to = packed + (position * spec.in_channels + i) * width;
      for (std::size_t o = 0; o < count; ++o) to[o] = weights[o * filter + i * kernel + position];
      std::fill(to + count, to + width, 0.0f);
    }
  }
}

std::size_t PackedFloats(const Conv2dSpec& spec, const ConvTarget& target) {
  const std::size_t depth = WindowTaps(spec.window) * spec.in_channels;
  return CeilDivide(spec.out_channels, target.lanes) * target.lanes * depth;
}

}  // namespace

std::size_t PackedConv2dWeightBytes(const Conv2dSpec& spec) {
  const ConvTarget& target = ChosenConvTarget();
  const bool bf16 = spec.precision == Precision::kBf16;
  if (IsGemv(spec)) {
    return CeilDivide(spec.out_channels, kGemvGroup) * kGemvGroup *
           GemvVectors(spec.in_channels, target.lanes, bf16) * target.lanes *
           (bf16 ? sizeof(Bf16) : sizeof(float));
  }
  return bf16 ? PackedBf16Conv2dWeightBytes(spec) : PackedFloats(spec, target) * sizeof(float);
}

void PackConv2dWeights(const Conv2dSpec& spec, const float* weights, void* packed) {
  const ConvTarget& target = ChosenConvTarget();
  if (spec.precision == Precision::kBf16) {
    if (!IsGemv(spec)) return PackBf16Conv2dWeights(spec, weights, packed);
    return PackBf16Gemv(spec, target.lanes, weights, static_cast<Bf16*>(packed));
  }
  float* to = static_cast<float*>(packed);
  if (IsGemv(spec)) return PackGemv(spec, target.lanes, weights, to);
  const std::size_t depth = WindowTaps(spec.window) * spec.in_channels;
  for (std::size_t channel = 0; channel < spec.out_channels;) {
    const std::size_t width =
        PanelWidth(target.lanes, spec.out_channels, channel / (2 * target.lanes));
    PackPanel(spec, channel, width, weights, to);
    to += depth * width;
    channel += width;
  }
}

bool PacksFlipped(const Conv2dSpec& spec) {
  return spec.precision == Precision::kFp32 && WindowTaps(spec.window) == 1 && !IsGemv(spec);
}

void PackFlippedConv2dWeights(const Conv2dSpec& spec, const float* weights, void* packed) {
  constexpr std::size_t kRows = 32;  // at a time: their panels' lines are written one after another
  const ConvTarget& target = ChosenConvTarget();
  const std::size_t columns = spec.out_channels;
  for (std::size_t first = 0; first < spec.in_channels; first += kRows) {
    const std::size_t end = std::min<std::size_t>(first + kRows, spec.in_channels);
    float* panel = static_cast<float*>(packed);
    for (std::size_t channel = 0; channel < columns;) {
      const std::size_t width = PanelWidth(target.lanes, columns, channel / (2 * target.lanes));
      const std::size_t count = std::min(width, columns - channel);
      for (std::size_t i = first; i < end; ++i) {
        float* const to = std::copy_n(weights + i * columns + channel, count, panel + i * width);
        std::fill_n(to, width - count, 0.0f);
      }
      panel += spec.in_channels * width;
      channel += width;
    }
  }
}

}  // namespace lagoon
