#include "kernels/select/non_max.h"

#include <gtest/gtest.h>

#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::FromBytes;
using testing::ToBytes;
using testing::TypedRun;
using F32 = std::vector<float>;
using I64 = std::vector<std::int64_t>;

struct Limits {
  std::int64_t per_class = 0;
  float iou = 0, score = 0;
};

std::vector<Bytes> InputsOf(const F32& boxes, const F32& scores, const Limits& limits) {
  return {ToBytes(boxes), ToBytes(scores), ToBytes(I64{limits.per_class}), ToBytes(F32{limits.iou}),
          ToBytes(F32{limits.score})};
}

std::vector<std::size_t> ChosenBytes(const NonMaxSpec& spec) {
  const std::size_t lists = spec.batch * spec.classes;
  return {lists * spec.most * 4, lists * 8};
}

/// The rows [batch, class, box].
I64 Choose(const NonMaxSpec& spec, const std::vector<Bytes>& inputs) {
  const auto choose = MakeNonMaxChoose(spec);
  const auto gather = MakeNonMaxGather(spec);
  EXPECT_TRUE(choose.has_value() && gather.has_value());
  TypedRun chosen(*choose, inputs, ChosenBytes(spec));
  const std::size_t rows = spec.batch * spec.classes * spec.most;
  TypedRun gathered(*gather, chosen.Run(), {rows * 24, 16});
  const std::vector<Bytes> y = gathered.Run();
  const I64 sizes = FromBytes<std::int64_t>(y[1]);
  EXPECT_EQ(sizes[1], 3);
  I64 result = FromBytes<std::int64_t>(y[0]);
  result.resize(static_cast<std::size_t>(3 * sizes[0]));
  return result;
}

/// Numbers with many ties.
F32 Numbers(std::size_t count, std::size_t step, std::size_t first, std::size_t modulus,
            float divisor) {
  F32 numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>((i * step + first) % modulus) / divisor;
  }
  return numbers;
}

// The expected rows are ONNX Runtime's.
TEST(NonMaxSuppression, CornersInSeveralImagesAndClasses) {
  const NonMaxSpec spec{2, 2, 9, 4, false, true, true};
  EXPECT_EQ(Choose(spec, InputsOf(Numbers(72, 37, 11, 23, 8), Numbers(36, 29, 3, 17, 16),
                                  {4, 0.25F, 0.2F})),
            (I64{0, 0, 1, 0, 0, 5, 0, 0, 2, 0, 0, 6, 0, 1, 2, 0, 1, 6, 0, 1, 3, 0, 1, 0,
                 1, 0, 0, 1, 0, 4, 1, 0, 1, 1, 0, 5, 1, 1, 1, 1, 1, 5, 1, 1, 2, 1, 1, 6}));
}

TEST(NonMaxSuppression, CentersWithFewerBoxesThanAllowed) {
  const NonMaxSpec spec{1, 3, 9, 9, true, true, true};
  EXPECT_EQ(Choose(spec, InputsOf(Numbers(36, 37, 11, 23, 8), Numbers(27, 29, 3, 17, 16),
                                  {3, 0.1F, 0.3F})),
            (I64{0, 0, 1, 0, 0, 5, 0, 0, 2, 0, 1, 2, 0, 1, 6, 0, 1, 3, 0, 2, 0, 0, 2, 4, 0, 2, 1}));
}

TEST(NonMaxSuppression, EqualScoresKeepTheOrderOfTheBoxes) {
  const F32 boxes{0, 0, 1, 1, 5, 5, 6, 6, 0, 0, 1, 1};
  NonMaxSpec spec{1, 1, 3, 3, false, true, false};
  std::vector<Bytes> inputs = InputsOf(boxes, {0.5F, 0.5F, 0.5F}, {3, 0.5F, 0});
  inputs.pop_back();
  EXPECT_EQ(Choose(spec, inputs), (I64{0, 0, 0, 0, 0, 1}));
}

TEST(NonMaxSuppression, ANegativeOrZeroLimitChoosesNothing) {
  const NonMaxSpec spec{1, 1, 2, 2, false, true, true};
  const F32 boxes{0, 0, 1, 1, 5, 5, 6, 6};
  EXPECT_EQ(Choose(spec, InputsOf(boxes, {0.5F, 0.6F}, {0, 0.5F, 0})), I64{});
  EXPECT_EQ(Choose(spec, InputsOf(boxes, {0.5F, 0.6F}, {-3, 0.5F, 0})), I64{});
  EXPECT_EQ(Choose(spec, InputsOf(boxes, {0.5F, 0.6F}, {9, 0.5F, 0})), (I64{0, 0, 1, 0, 0, 0}));
}

// A block of ten thousand boxes that all stay looks at its guards often, and leaves without a
// trace.
TEST(NonMaxSuppression, ABlockOfManyBoxesCanLeave) {
  constexpr std::size_t kBoxes = 10'000;
  F32 boxes, scores;
  for (std::size_t i = 0; i < kBoxes; ++i) {
    const auto at = static_cast<float>(i);
    boxes.insert(boxes.end(), {at, 0, at + 0.5F, 1});
    scores.push_back(static_cast<float>(i * 7919 % kBoxes));
  }
  const NonMaxSpec spec{1, 1, kBoxes, 2000, false, true, true};
  TypedRun run(*MakeNonMaxChoose(spec), InputsOf(boxes, scores, {2000, 0.5F, -1}),
               ChosenBytes(spec));
  const std::vector<Bytes> before = run.Run();
  EXPECT_EQ(FromBytes<std::int64_t>(before[1]), I64{2000});
  testing::LeaveAt count;
  ASSERT_TRUE(run.RunBlock(0, &count));
  EXPECT_GT(count.checks(), 1000);
  for (const int check : {1, 2, 100, count.checks() / 2, count.checks()}) {
    testing::LeaveAt leave(check);
    EXPECT_FALSE(run.RunBlock(0, &leave)) << check;
  }
  EXPECT_EQ(run.Run(), before);
}

TEST(NonMaxSuppression, BadSizesAreRefused) {
  EXPECT_FALSE(MakeNonMaxChoose({1, 1, 4, 5, false, true, true}).has_value());
  EXPECT_FALSE(MakeNonMaxChoose({0, 1, 4, 4, false, true, true}).has_value());
  EXPECT_FALSE(MakeNonMaxGather({1 << 20, 1 << 20, 4, 4, false, true, true}).has_value());
}

}  // namespace
}  // namespace lagoon
