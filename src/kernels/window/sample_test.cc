#include "kernels/window/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/testing/ops.h"
#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

RoiAlignSpec Regions(std::size_t count, std::size_t samples) {
  RoiAlignSpec spec;
  spec.batch = 2;
  spec.height = 6;
  spec.width = 5;
  spec.channels = 37;
  spec.regions = count;
  spec.out_height = 2;
  spec.out_width = 3;
  spec.samples = samples;
  spec.half_pixel = false;
  return spec;
}

/// x[n, row, column, channel] = row + 10 * column + channel: linear, so that a sample is exact.
Floats Slope(const RoiAlignSpec& spec) {
  Floats x;
  for (std::size_t pixel = 0; pixel < spec.batch * spec.height * spec.width; ++pixel) {
    for (std::size_t c = 0; c < spec.channels; ++c) {
      x.push_back(float(pixel / spec.width % spec.height + 10 * (pixel % spec.width) + c));
    }
  }
  return x;
}

Floats Align(const RoiAlignSpec& spec, const Floats& regions,
             const std::vector<std::int64_t>& images) {
  testing::TypedRun run(
      *MakeRoiAlign(spec),
      {testing::ToBytes(Slope(spec)), testing::ToBytes(regions), testing::ToBytes(images)},
      {spec.regions * spec.out_height * spec.out_width * spec.channels * sizeof(float)});
  run.ExpectTiles();
  return testing::FromBytes<float>(run.Run()[0]);
}

TEST(RoiAlign, AveragesASlopeToTheMiddleOfEachBin) {
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget scoped(target);
    for (const std::size_t samples : {0u, 2u, 3u}) {
      const RoiAlignSpec spec = Regions(2, samples);
      const Floats y = Align(spec, {0, 1, 3, 5, 1, 1, 4, 3}, {0, 1});
      for (std::size_t bin = 0; bin < 12; ++bin) {
        const double left = bin < 6 ? 0 : 1, height = bin < 6 ? 4 : 2;
        const double row = 1 + (double(bin / 3 % 2) + 0.5) * height / 2;
        const double column = left + double(bin % 3) + 0.5;
        for (std::size_t c = 0; c < spec.channels; ++c) {
          ASSERT_NEAR(y[bin * spec.channels + c], row + 10 * column + double(c), 1e-4) << bin;
        }
      }
    }
  }
}

TEST(RoiAlign, ARegionOfNoImageOrOutsideIsZero) {
  for (const std::size_t samples : {0u, 2u}) {
    const RoiAlignSpec spec = Regions(5, samples);
    const Floats y =
        Align(spec, {0, 0, 3, 3, 0, 0, 3, 3, kNan, 0, 3, kNan, 90, 90, 99, 99, -1e30f, 0, 1e30f, 4},
              {-1, 2, 0, 1, 1});
    const std::size_t region = spec.out_height * spec.out_width * spec.channels;
    for (std::size_t i = 0; i < 4 * region; ++i) ASSERT_EQ(y[i], 0) << i;
  }
}

TEST(RoiAlign, RefusesByName) {
  RoiAlignSpec spec = Regions(1, kMostRoiSamples + 1);
  testing::ExpectInvalid(MakeRoiAlign(spec), {"roi_align", "1025 samples"});
  spec = Regions(0, 1);
  testing::ExpectInvalid(MakeRoiAlign(spec), {"roi_align", "regions is 0"});
}

GridSampleSpec Places(std::size_t places) {
  GridSampleSpec spec;
  spec.batch = 2;
  spec.channels = 19;
  spec.in = {1, 4, 3};
  spec.places = places;
  spec.align_corners = true;
  return spec;
}

TEST(GridSample, ReadsPixelsAtCorners) {
  const GridSampleSpec spec = Places(2);
  const Floats x = testing::RandomFloats(2 * 12 * spec.channels);
  const Floats grid{-1, -1, 1, 1, 0, 1, 1, -1};
  Doubles expected;
  for (const std::size_t pixel : {0u, 11u, 12u + 10, 12u + 2}) {
    for (std::size_t c = 0; c < spec.channels; ++c) {
      expected.push_back(x[pixel * spec.channels + c]);
    }
  }
  for (const SampleMode mode : {SampleMode::kNearest, SampleMode::kLinear, SampleMode::kCubic}) {
    GridSampleSpec with = spec;
    with.mode = mode;
    testing::ExpectKernel([&] { return MakeGridSample(with); }, {x, grid}, expected, 1e-5);
  }
}

TEST(GridSample, AnyNumberIsSomePlace) {
  GridSampleSpec spec = Places(3);
  spec.batch = 1;
  const Floats x = testing::RandomFloats(12 * spec.channels);
  const float infinity = std::numeric_limits<float>::infinity();
  const Floats grid{kNan, 0, infinity, -infinity, 3e38f, -3e38f};
  for (const SampleMode mode : {SampleMode::kNearest, SampleMode::kLinear, SampleMode::kCubic}) {
    for (const SamplePadding padding :
         {SamplePadding::kZeros, SamplePadding::kBorder, SamplePadding::kReflection}) {
      spec.mode = mode;
      spec.padding = padding;
      testing::TypedRun run(*MakeGridSample(spec), {testing::ToBytes(x), testing::ToBytes(grid)},
                            {3 * spec.channels * sizeof(float)});
      for (const float y : testing::FromBytes<float>(run.Run()[0])) {
        ASSERT_TRUE(std::isfinite(y));
        if (padding == SamplePadding::kZeros) {
          ASSERT_EQ(y, 0);
        }
      }
    }
  }
}

TEST(GridSample, RefusesByName) {
  GridSampleSpec spec = Places(3);
  spec.axes = 3;
  spec.mode = SampleMode::kCubic;
  testing::ExpectInvalid(MakeGridSample(spec), {"grid_sample", "3 axes", "cubic takes 2"});
  spec = Places(0);
  testing::ExpectInvalid(MakeGridSample(spec), {"grid_sample", "places is 0"});
}

}  // namespace
}  // namespace lagoon
