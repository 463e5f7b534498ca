#include "kernels/select/non_max.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

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

/// Chosen and counts. `state`, if not null, becomes what each round leaves to the next one.
std::vector<Bytes> AllRounds(NonMaxSpec spec, std::vector<Bytes> inputs,
                             std::vector<Bytes>* states = nullptr) {
  const std::size_t rounds = NonMaxRounds(spec);
  for (;; ++spec.round) {
    const auto choose = MakeNonMaxChoose(spec);
    EXPECT_TRUE(choose.has_value());
    if (spec.round + 1 == rounds) return TypedRun(*choose, inputs, ChosenBytes(spec)).Run();
    inputs[1] = TypedRun(*choose, inputs, {NonMaxStateBytes(spec)}).Run()[0];
    if (states != nullptr) states->push_back(inputs[1]);
  }
}

/// The rows [batch, class, box].
I64 Choose(const NonMaxSpec& spec, const std::vector<Bytes>& inputs) {
  const auto gather = MakeNonMaxGather(spec);
  EXPECT_TRUE(gather.has_value());
  const std::size_t rows = spec.batch * spec.classes * spec.most;
  TypedRun gathered(*gather, AllRounds(spec, inputs), {rows * 24, 16});
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

bool OverlapPlainly(const float* a, const float* b, float threshold) {
  float sides[2];
  for (const int axis : {0, 1}) {
    const float a_low = std::min(a[axis], a[axis + 2]), a_high = std::max(a[axis], a[axis + 2]);
    const float b_low = std::min(b[axis], b[axis + 2]), b_high = std::max(b[axis], b[axis + 2]);
    sides[axis] = std::min(a_high, b_high) - std::max(a_low, b_low);
    if (!(sides[axis] > 0)) return false;
  }
  const auto area = [](const float* box) {
    return std::abs(box[2] - box[0]) * std::abs(box[3] - box[1]);
  };
  const float shared = sides[0] * sides[1];
  return shared > 0 && area(a) > 0 && area(b) > 0 &&
         shared / (area(a) + area(b) - shared) > threshold;
}

/// One image, one class.
I64 ChoosePlainly(const F32& boxes, const F32& scores, const Limits& limits) {
  I64 order, rows;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > limits.score) order.push_back(static_cast<std::int64_t>(i));
  }
  const auto at = [](const auto& values, std::int64_t i, std::size_t step) {
    return values.data() + step * static_cast<std::size_t>(i);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return *at(scores, a, 1) > *at(scores, b, 1);
  });
  I64 kept;
  for (const std::int64_t box : order) {
    if (static_cast<std::int64_t>(kept.size()) == limits.per_class) break;
    if (std::none_of(kept.begin(), kept.end(), [&](std::int64_t one) {
          return OverlapPlainly(at(boxes, box, 4), at(boxes, one, 4), limits.iou);
        })) {
      kept.push_back(box);
      rows.insert(rows.end(), {0, 0, box});
    }
  }
  return rows;
}

TEST(NonMaxSuppression, ChoosesAsPlainlyWrittenCodeDoes) {
  std::mt19937 random(3);
  for (const std::size_t count : {1, 15, 33, 700, 3000}) {
    for (const float size : {0.02F, 0.2F}) {
      std::uniform_real_distribution<float> place(0, 1);
      F32 boxes, scores;
      for (std::size_t i = 0; i < count; ++i) {
        const float y = place(random), x = place(random);
        const float width = i % 7 == 0 ? 0 : size * place(random);
        boxes.insert(boxes.end(), {y, x, y + size * place(random), x + width});
        if (i % 3 == 0) std::swap(boxes[4 * i], boxes[4 * i + 2]);
        scores.push_back(std::round(500 * place(random)) / 500);
      }
      if (count > 20) {
        boxes[20] = std::numeric_limits<float>::infinity();
        std::copy(boxes.begin(), boxes.begin() + 40, boxes.end() - 40);  // boxes twice
      }
      for (const float iou : {-0.5F, 0.0F, 0.3F, 0.7F, 1.0F}) {
        for (const std::int64_t per_class : {std::int64_t{1} << 40, std::int64_t{40}}) {
          const NonMaxSpec spec{1, 1, count, count, false, true, true};
          const Limits limits{per_class, iou, 0.1F};
          EXPECT_EQ(Choose(spec, InputsOf(boxes, scores, limits)),
                    ChoosePlainly(boxes, scores, limits))
              << count << " boxes, " << iou;
        }
      }
    }
  }
}

TEST(NonMaxSuppression, BoxesThatAreNoNumbersOverlapNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const F32 boxes{0, 0, 1, 1, 0, nan, 1, 1, 0, 0, nan, nan, 0, 0, 1, 1};
  const NonMaxSpec spec{1, 1, 4, 4, false, true, true};
  const F32 scores{0.9F, 0.8F, 0.7F, 0.6F};
  const I64 all_but_the_last{0, 0, 0, 0, 0, 1, 0, 0, 2};
  EXPECT_EQ(Choose(spec, InputsOf(boxes, scores, {9, 0.5F, 0})), all_but_the_last);
  EXPECT_EQ(Choose(spec, InputsOf(boxes, scores, {9, nan, 0})),
            (I64{0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 3}));
}

// Ten thousand boxes that all stay. Each round looks at its guards often, leaves without a trace,
// and is short.
TEST(NonMaxSuppression, ARoundOfManyBoxesCanLeave) {
  constexpr std::size_t kBoxes = 10'000;
  F32 boxes, scores;
  for (std::size_t i = 0; i < kBoxes; ++i) {
    const auto at = static_cast<float>(i);
    boxes.insert(boxes.end(), {at, 0, at + 0.5F, 1});
    scores.push_back(static_cast<float>(i * 7919 % kBoxes));
  }
  NonMaxSpec spec{1, 1, kBoxes, 2000, false, true, true};
  const std::size_t rounds = NonMaxRounds(spec);
  ASSERT_GT(rounds, 10);
  std::vector<Bytes> inputs = InputsOf(boxes, scores, {2000, 0.5F, -1}), states;
  EXPECT_EQ(FromBytes<std::int64_t>(AllRounds(spec, inputs, &states)[1]), I64{2000});
  int all_checks = 0;
  for (; spec.round + 1 < rounds; ++spec.round) {
    TypedRun run(*MakeNonMaxChoose(spec), inputs, {NonMaxStateBytes(spec)});
    testing::LeaveAt count;
    ASSERT_TRUE(run.RunBlock(0, &count));
    all_checks += count.checks();
    EXPECT_LT(count.checks(), 80) << "round " << spec.round;
    for (const int check : {1, 2, count.checks() / 2, count.checks()}) {
      testing::LeaveAt leave(check);
      EXPECT_FALSE(run.RunBlock(0, &leave)) << check;
    }
    inputs[1] = states[spec.round];
  }
  EXPECT_GT(all_checks, 100);
}

TEST(NonMaxSuppression, BadSizesAreRefused) {
  EXPECT_FALSE(MakeNonMaxChoose({1, 1, 4, 5, false, true, true}).has_value());
  EXPECT_FALSE(MakeNonMaxChoose({0, 1, 4, 4, false, true, true}).has_value());
  EXPECT_FALSE(MakeNonMaxChoose({1, 1, 4, 4, false, true, true, 1}).has_value());
  EXPECT_FALSE(MakeNonMaxGather({1 << 20, 1 << 20, 4, 4, false, true, true}).has_value());
}

}  // namespace
}  // namespace lagoon
