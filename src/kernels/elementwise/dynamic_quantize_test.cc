#include "kernels/elementwise/dynamic_quantize.h"

#include <algorithm>
#include <cmath>

#include "kernels/testing/ops.h"
#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::Floats;

Bytes ExtremesOf(const Floats& x, std::size_t& parts) {
  parts = ExtremesParts({x.size()});
  testing::TypedRun run(*MakeExtremes({x.size()}), {testing::ToBytes(x)},
                        {parts * 2 * sizeof(float)});
  run.ExpectTiles();
  return run.Run()[0];
}

/// With and without a kernel of its own for the extremes.
void Check(const Floats& x, bool divided) {
  SCOPED_TRACE(::testing::Message() << x.size() << " elements, divided " << divided);
  DynamicQuantizeSpec spec{x.size(), 0};
  std::vector<Bytes> inputs{testing::ToBytes(x)};
  if (divided) inputs.push_back(ExtremesOf(x, spec.parts));
  testing::TypedRun run(*MakeDynamicQuantize(spec), inputs, {x.size(), sizeof(float), 1});
  run.ExpectTiles();
  const std::vector<Bytes>& outputs = run.Run();
  const float low = std::min(0.0f, *std::min_element(x.begin(), x.end()));
  const float high = std::max(0.0f, *std::max_element(x.begin(), x.end()));
  const float scale = high == low ? 1 : (high - low) / 255;
  const float zero = std::nearbyint(-low / scale);
  EXPECT_EQ(testing::FromBytes<float>(outputs[1])[0], scale);
  EXPECT_EQ(testing::FromBytes<std::uint8_t>(outputs[2])[0], zero);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float level = std::nearbyint(x[i] / scale) + zero;
    ASSERT_EQ(std::to_integer<int>(outputs[0][i]), std::clamp(level, 0.0f, 255.0f)) << i;
  }
}

TEST(DynamicQuantize, AnyCountOnEveryTarget) {
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget scoped(target);
    for (const std::size_t count : {1u, 7u, 16u, 33u, 1000u, 70'001u}) {
      for (const bool divided : {false, true}) {
        Check(testing::RandomFloats(count, -3, 5), divided);
      }
    }
  }
}

TEST(DynamicQuantize, TheRangeAlwaysHoldsZero) {
  for (const bool divided : {false, true}) {
    Check(testing::RandomFloats(100, 2, 5), divided);
    Check(testing::RandomFloats(100, -5, -2), divided);
    Check(Floats(40, 0.0f), divided);
  }
}

TEST(DynamicQuantize, RefusesNoElementsByName) {
  testing::ExpectInvalid(MakeExtremes({0}), {"extremes", "count", "0"});
  testing::ExpectInvalid(MakeDynamicQuantize({0, 0}), {"dynamic_quantize", "count", "0"});
}

}  // namespace
}  // namespace lagoon
