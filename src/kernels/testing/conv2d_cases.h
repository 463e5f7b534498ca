#pragma once

// For the tests of conv2d's bodies: shapes, and a plain reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/conv/bf16/bf16_unit.h"
#include "kernels/conv/conv2d_tiling.h"
#include "kernels/testing/conv2d.h"

namespace lagoon::testing {

/// A sum in double precision.
struct Expected {
  double value;
  double magnitude;  // sum of absolute products; rounding errors are proportional to it
};

/// `value` as a body multiplies it: rounded to bf16 or unchanged.
inline double Rounded(float value, bool bf16) {
  return bf16 ? std::bit_cast<float>(static_cast<std::uint32_t>(ToBf16(value)) << 16) : value;
}

inline Expected Accumulate(const ConvProblem& p, std::size_t image, std::size_t oy, std::size_t ox,
                           std::size_t o) {
  const Conv2dSpec& s = p.spec;
  const ImageWindow& w = s.window;
  const bool bf16 = s.precision == Precision::kBf16;
  Expected sum{0, 0};
  for (std::size_t kh = 0; kh < w.kernel_h; ++kh) {
    for (std::size_t kw = 0; kw < w.kernel_w; ++kw) {
      const auto pixel = InputPixelOf(w, image, oy, ox, kh, kw);
      if (!pixel) continue;
      for (std::size_t i = 0; i < s.in_channels; ++i) {
        const double product =
            Rounded(p.x.data()[*pixel * s.in_channels + i], bf16 && !IsGemv(s)) *
            Rounded(p.weights.data()[((o * s.in_channels + i) * w.kernel_h + kh) * w.kernel_w + kw],
                    bf16);
        sum.value += product;
        sum.magnitude += std::abs(product);
      }
    }
  }
  return sum;
}

inline double FinishReference(const ConvProblem& p, double sum, std::size_t index) {
  const Epilogue& e = p.spec.epilogue;
  if (p.spec.bias) sum += p.bias.data()[index % p.spec.out_channels];
  const double residual = e.residual ? p.residual.data()[index] : 0;
  if (!e.residual_last) sum += residual;
  if (e.activation == Activation::kUnary) sum = sum < 0 ? e.alpha * sum : sum;  // kLeakyRelu
  if (e.activation == Activation::kRelu) sum = std::max(sum, 0.0);
  if (e.activation == Activation::kClip) sum = std::clamp(sum, double{e.low}, double{e.high});
  return e.residual_last ? sum + residual : sum;
}

/// Compares y with sums in fp64.
inline void ExpectReference(const ConvProblem& p) {
  std::size_t index = 0;
  for (std::size_t image = 0; image < p.spec.window.batch; ++image) {
    for (std::size_t oy = 0; oy < p.spec.window.out_height; ++oy) {
      for (std::size_t ox = 0; ox < p.spec.window.out_width; ++ox) {
        for (std::size_t o = 0; o < p.spec.out_channels; ++o, ++index) {
          const Expected sum = Accumulate(p, image, oy, ox, o);
          ASSERT_NEAR(p.y.data()[index], FinishReference(p, sum.value, index),
                      1e-6 * (sum.magnitude + 2))
              << "image " << image << " y " << oy << " x " << ox << " channel " << o;
        }
      }
    }
  }
}

struct ConvCase {
  std::string name;
  Conv2dSpec spec;
};

inline void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }

inline Conv2dSpec Gemm(std::uint32_t rows, std::uint32_t depth, std::uint32_t columns) {
  Conv2dSpec s;
  s.window.height = s.window.out_height = rows;
  s.in_channels = depth;
  s.out_channels = columns;
  return s;
}

inline Conv2dSpec With(Conv2dSpec spec, auto change) {
  change(spec);
  return spec;
}

// Adds cases with functions after the store, and with residuals after an activation.
inline void AddFinished(std::vector<ConvCase>& cases) {
  for (const bool residual : {false, true}) {
    for (const Activation activation : {Activation::kRelu, Activation::kUnary}) {
      if (!residual && activation == Activation::kRelu) continue;
      const auto change = [=](Conv2dSpec& s) {
        s.epilogue = {.activation = activation, .residual = residual, .residual_last = residual};
        s.epilogue.unary = UnaryOp::kLeakyRelu;
        s.epilogue.alpha = 0.1f;
      };
      const std::string name = std::string(residual ? "residual_last_" : "plain_") +
                               std::to_string(static_cast<int>(activation));
      cases.push_back({"finish_whole_" + name, With(SquareConv(32, 14, 64, 3, 1, 1), change)});
      cases.push_back({"finish_part_" + name, With(SquareConv(32, 29, 41, 3, 1, 1), change)});
      cases.push_back({"finish_wide_" + name, With(SquareConv(40, 14, 600, 3, 1, 1), change)});
      cases.push_back({"finish_gemm_" + name, With(Gemm(70, 100, 300), change)});
      cases.push_back({"finish_gemv_" + name, With(Gemm(1, 100, 41), change)});
    }
  }
}

/// Small cases for every way to read the input, to cut the depth and to end a tile.
inline std::vector<ConvCase> ConvCases() {
  std::vector<ConvCase> cases = {
      {"stem_7x7_s2", SquareConv(3, 62, 64, 7, 2, 3)},
      {"stem_3x3_s2_unpadded", SquareConv(3, 63, 64, 3, 2, 0)},
      {"stem_3x3_s1", SquareConv(3, 40, 40, 3, 1, 1)},
      {"one_channel", SquareConv(1, 28, 8, 5, 1, 2)},
      {"edge_3x3", SquareConv(64, 28, 64, 3, 1, 1)},
      {"edge_3x3_s2", SquareConv(32, 27, 70, 3, 2, 1)},
      {"edge_7x7_image", SquareConv(512, 7, 64, 3, 1, 1)},
      {"edge_single_pixel", SquareConv(32, 1, 40, 3, 1, 1)},
      {"edge_two_pixels", SquareConv(32, 2, 40, 3, 1, 1)},
      {"edge_three_pixels", SquareConv(32, 3, 40, 3, 1, 1)},
      {"patch_5x5", SquareConv(32, 19, 33, 5, 1, 2)},
      {"patch_wide_padding", SquareConv(16, 9, 16, 3, 1, 2)},
      {"padding_beyond_image", SquareConv(16, 3, 16, 3, 1, 8)},
      {"pointwise", SquareConv(64, 27, 150, 1, 1, 0)},
      {"pointwise_s2", SquareConv(256, 28, 128, 1, 2, 0)},
      {"pointwise_padded", SquareConv(24, 13, 24, 1, 1, 1)},
      {"pointwise_deep", SquareConv(1025, 7, 48, 1, 1, 0)},
      {"few_outputs", SquareConv(48, 13, 1, 3, 1, 1)},
      {"odd_everything", SquareConv(19, 23, 37, 3, 2, 1)},
      {"gemm_ragged", Gemm(49, 333, 100)},
      {"gemm_two_rows", Gemm(2, 700, 1000)},
      {"gemm_deep", Gemm(5, 5000, 40)},
      {"gemm_tall", Gemm(3000, 40, 20)},
      {"gemv", Gemm(1, 512, 1000)},
      {"gemv_ragged", Gemm(1, 1001, 103)},
      {"gemv_short", Gemm(1, 3, 5)},
      {"gemv_deep", Gemm(1, 25088, 70)},
      {"one_by_one", Gemm(1, 1, 1)},
  };
  const auto add = [&](const std::string& name, const Conv2dSpec& base, auto change) {
    cases.push_back({name, With(base, change)});
  };
  add("batch", SquareConv(32, 9, 40, 3, 1, 1), [](auto& s) { s.window.batch = 3; });
  add("batch_patch", SquareConv(3, 17, 40, 7, 2, 3), [](auto& s) { s.window.batch = 3; });
  add("batch_pointwise", SquareConv(32, 9, 40, 1, 1, 0), [](auto& s) { s.window.batch = 3; });
  add("dilated_edge", SquareConv(32, 20, 40, 3, 1, 1),
      [](auto& s) { s.window.dilation_w = 1, s.window.dilation_h = 3, s.window.pad_top = 3; });
  add("dilated_patch", SquareConv(32, 20, 40, 3, 1, 2),
      [](auto& s) { s.window.dilation_w = s.window.dilation_h = 2; });
  add("dilated_direct", SquareConv(8, 20, 40, 3, 1, 0), [](auto& s) {
    s.window.dilation_w = s.window.dilation_h = 2, s.window.out_height = s.window.out_width = 16;
  });
  add("dilated_beyond_image", SquareConv(8, 5, 40, 3, 1, 4), [](auto& s) {
    s.window.dilation_w = s.window.dilation_h = 4, s.window.out_height = s.window.out_width = 5;
  });
  add("asymmetric_end", SquareConv(32, 16, 32, 3, 2, 0),
      [](auto& s) { s.window.out_height = s.window.out_width = 8; });
  add("asymmetric_start", SquareConv(32, 16, 32, 2, 1, 0), [](auto& s) {
    s.window.pad_top = s.window.pad_left = 1, s.window.out_height = s.window.out_width = 16;
  });
  add("output_past_padding", SquareConv(16, 6, 32, 3, 1, 1),
      [](auto& s) { s.window.out_height = s.window.out_width = 11; });
  add("rectangular", SquareConv(24, 20, 56, 3, 1, 1), [](auto& s) {
    s.window.height = s.window.out_height = 5, s.window.kernel_w = 1, s.window.pad_left = 0;
  });
  add("row_kernel", SquareConv(24, 20, 56, 1, 1, 0),
      [](auto& s) { s.window.kernel_w = 3, s.window.pad_left = 1; });
  add("strides_differ", SquareConv(24, 20, 56, 3, 1, 1),
      [](auto& s) { s.window.stride_w = 2, s.window.out_width = 10; });
  add("stride_skips_input", SquareConv(24, 20, 56, 1, 3, 0), [](auto&) {});
  // A depth of a few floats: a call of the micro-kernel takes several segments.
  add("shallow_narrow", SquareConv(16, 33, 8, 1, 1, 0), [](auto&) {});
  add("shallow_deep_scratch", SquareConv(3, 120, 600, 1, 1, 0), [](auto&) {});
  add("shallow_rows", SquareConv(5, 61, 40, 1, 2, 0),
      [](auto& s) { s.window.kernel_w = 3, s.window.out_width = 30; });
  add("shallow_above_image", SquareConv(8, 31, 20, 1, 1, 0),
      [](auto& s) { s.window.pad_top = 2, s.window.out_height = 34, s.window.batch = 2; });
  // Images of one column.
  const auto column = [](std::uint32_t height, std::uint32_t kernel, std::uint32_t dilation) {
    return [=](Conv2dSpec& s) {
      const std::uint32_t reach = (kernel - 1) * dilation;
      s.window = {.batch = 2,
                  .height = height,
                  .out_height = height - reach,
                  .kernel_h = kernel,
                  .dilation_h = dilation};
    };
  };
  add("column", SquareConv(24, 1, 56, 1, 1, 0), column(61, 5, 1));
  add("column_dilated", SquareConv(24, 1, 56, 1, 1, 0), column(61, 3, 7));
  add("column_padded", SquareConv(24, 1, 56, 1, 1, 0), [&](auto& s) {
    column(61, 5, 1)(s);
    s.window.stride_h = 2, s.window.pad_top = 2, s.window.out_height = 31;
  });
  add("column_of_few_channels", SquareConv(3, 1, 56, 1, 1, 0), [&](auto& s) {
    column(61, 5, 1)(s);
    s.window.pad_top = 2, s.window.out_height = 61;
  });
  for (const bool bias : {false, true}) {
    for (const bool residual : {false, true}) {
      for (const Activation activation :
           {Activation::kNone, Activation::kRelu, Activation::kClip}) {
        const auto change = [=](Conv2dSpec& s) {
          s.bias = bias;
          s.epilogue = {activation, -0.5f, 1.5f, residual};
        };
        const std::string name = std::string(bias ? "bias_" : "plain_") +
                                 (residual ? "residual_" : "") +
                                 std::to_string(static_cast<int>(activation));
        add("epilogue_whole_" + name, SquareConv(32, 14, 64, 3, 1, 1), change);
        add("epilogue_part_" + name, SquareConv(32, 14, 41, 3, 1, 1), change);
        add("epilogue_scratch_" + name, SquareConv(600, 14, 72, 3, 1, 1), change);
        add("epilogue_shallow_" + name, SquareConv(12, 31, 41, 1, 1, 0), change);
        add("epilogue_gemv_" + name, Gemm(1, 100, 41), change);
      }
    }
  }
  AddFinished(cases);
  return cases;
}

inline constexpr float kUnwritten = -12345.0f;

/// Runs every block alone on poisoned memory. Expects that the blocks write disjoint tiles, that
/// the tiles cover y, and that the values equal those of a full run.
inline void ExpectBlocksWriteTheirOwnTileOnly(ConvProblem& problem) {
  ASSERT_TRUE(problem.RunAll());
  const std::vector<float> full(problem.y.span().begin(), problem.y.span().end());
  std::vector<int> writers(full.size());
  for (std::uint32_t block = 0; block < problem.kernel.blocks; ++block) {
    std::ranges::fill(problem.y.span(), kUnwritten);
    ASSERT_TRUE(problem.RunBlock(block));
    for (std::size_t i = 0; i < full.size(); ++i) {
      if (problem.y.data()[i] == kUnwritten) continue;
      ++writers[i];
      ASSERT_EQ(problem.y.data()[i], full[i]) << "block " << block << " element " << i;
    }
  }
  EXPECT_EQ(std::ranges::count(writers, 1), static_cast<std::ptrdiff_t>(writers.size()));
}

}  // namespace lagoon::testing
