#include "kernels/move/transpose.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>

#include "kernels/testing/ops.h"
#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;
using Shape = std::vector<std::int64_t>;

Doubles Reference(const Shape& dims, const Shape& permutation, const Floats& x) {
  const std::size_t rank = dims.size();
  std::vector<std::size_t> strides(rank);
  std::size_t stride = 1;
  for (std::size_t i = rank; i-- > 0;) {
    strides[i] = stride;
    stride *= std::size_t(dims[i]);
  }
  Doubles y(x.size());
  for (std::size_t index = 0; index < y.size(); ++index) {
    std::size_t rest = index, at = 0;
    for (std::size_t i = rank; i-- > 0;) {
      const auto from = std::size_t(permutation[i]);
      at += rest % std::size_t(dims[from]) * strides[from];
      rest /= std::size_t(dims[from]);
    }
    y[index] = x[at];
  }
  return y;
}

void Check(const Shape& dims, const Shape& permutation) {
  SCOPED_TRACE(::testing::PrintToString(dims) + " by " + ::testing::PrintToString(permutation));
  std::size_t count = 1;
  for (const std::int64_t size : dims) count *= std::size_t(size);
  const Floats x = testing::RandomFloats(count);
  testing::ExpectKernel([&] { return MakeTranspose(dims, permutation); }, {x},
                        Reference(dims, permutation, x), 0);
}

/// The same for elements of one byte.
void CheckBytes(const Shape& dims, const Shape& permutation) {
  SCOPED_TRACE(::testing::PrintToString(dims) + " by " + ::testing::PrintToString(permutation));
  std::size_t count = 1;
  for (const std::int64_t size : dims) count *= std::size_t(size);
  std::minstd_rand random(7);
  std::vector<std::uint8_t> x(count), expected;
  for (std::uint8_t& byte : x) byte = static_cast<std::uint8_t>(random() >> 8);
  for (const double byte : Reference(dims, permutation, Floats(x.begin(), x.end()))) {
    expected.push_back(static_cast<std::uint8_t>(byte));
  }
  for (const std::int64_t target : testing::Targets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const testing::ScopedTarget use(target);
    const Result<Kernel> kernel = MakeTranspose(dims, permutation, 1);
    testing::ExpectTyped(kernel, {testing::ToBytes(x)}, expected);
    if (::testing::Test::HasFatalFailure()) return;
    EXPECT_STREQ(kernel->name, "transpose");
  }
}

TEST(Transpose, ImagesToNhwcAndBack) {
  for (const std::int64_t channels : {1, 2, 3, 4, 7, 33, 64}) {
    for (const std::int64_t size : {1, 5, 13, 48}) {
      Check({2, channels, size, size}, {0, 2, 3, 1});
      Check({2, size, size, channels}, {0, 3, 1, 2});
    }
  }
  Check({1, 3, 224, 224}, {0, 2, 3, 1});
  Check({1, 112, 112, 3}, {0, 3, 1, 2});
}

TEST(Transpose, EveryPermutationOfFourAxes) {
  Shape permutation = {0, 1, 2, 3};
  do {
    Check({3, 5, 4, 17}, permutation);
  } while (std::next_permutation(permutation.begin(), permutation.end()));
}

TEST(Transpose, SixAxesAndAxesOfOne) {
  Check({2, 3, 2, 3, 2, 5}, {5, 3, 1, 4, 2, 0});
  Check({2, 3, 2, 3, 2, 5}, {1, 0, 3, 2, 4, 5});
  Check({1, 6, 1, 5, 1, 1}, {3, 4, 0, 1, 5, 2});
  Check({1, 1}, {1, 0});
  Check({7}, {0});
}

TEST(Transpose, ShuffledChannels) {
  for (const std::int64_t groups : {2, 3, 4, 5, 8, 17}) {
    for (const std::int64_t each : {1, 2, 7, 8, 9, 15, 16, 17, 24, 48}) {
      Check({11, groups, each}, {0, 2, 1});
      Check({11, each, groups}, {0, 2, 1});
      Check({each, groups}, {1, 0});
    }
  }
  Check({5000, 2, 24}, {0, 2, 1});  // several blocks
  Check({3, 2, 2'500}, {0, 2, 1});  // more than a pixel's channels
  Check({3, 2'500, 4}, {0, 2, 1});
  Check({2, 2, 12, 5, 5}, {0, 2, 1, 3, 4});  // channels first
}

TEST(Transpose, LongRunsAreCut) { Check({2, 3, 20'000}, {1, 0, 2}); }

TEST(Transpose, BytesOfImages) {
  for (const std::int64_t channels : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64}) {
    for (const std::int64_t size : {1, 3, 5, 13}) {
      CheckBytes({2, channels, size, size}, {0, 2, 3, 1});
      CheckBytes({2, size, size, channels}, {0, 3, 1, 2});
    }
  }
}

TEST(Transpose, BytesOfShuffledChannels) {
  for (const std::int64_t groups : {2, 3, 4, 5, 8, 16, 17}) {
    for (const std::int64_t each : {2, 7, 8, 9, 15, 16, 17, 24, 48}) {
      CheckBytes({11, groups, each}, {0, 2, 1});
    }
  }
  CheckBytes({5000, 2, 24}, {0, 2, 1});  // several blocks
  CheckBytes({3, 2, 2'500}, {0, 2, 1});  // more than a pixel's channels
  CheckBytes({3, 70, 80}, {0, 2, 1});
  CheckBytes({2, 2, 12, 5, 5}, {0, 2, 1, 3, 4});  // channels first
}

TEST(Transpose, BytesOfAnyShape) {
  std::mt19937 random(5);
  for (int i = 0; i < 40; ++i) {
    Shape dims, permutation(2 + random() % 4);
    std::iota(permutation.begin(), permutation.end(), 0);
    std::shuffle(permutation.begin(), permutation.end(), random);
    const unsigned most = permutation.size() < 4 ? 50 : 11;
    while (dims.size() < permutation.size()) dims.push_back(1 + random() % most);
    CheckBytes(dims, permutation);
  }
  for (const std::int64_t side : {2, 3, 4, 5, 70}) {
    CheckBytes({side, 5'003}, {1, 0});
    CheckBytes({5'003, side}, {1, 0});
  }
  CheckBytes({2, 3, 40'000}, {1, 0, 2});
  CheckBytes({1, 1}, {1, 0});
}

TEST(Transpose, RefusesWhatIsNoPermutation) {
  const auto make = [](Shape dims, Shape permutation) { return MakeTranspose(dims, permutation); };
  testing::ExpectInvalid(make({2, 3}, {0, 0}), {"transpose", "[0,0]", "[2,3]"});
  testing::ExpectInvalid(make({2, 3}, {0, 2}), {"[0,2]"});
  testing::ExpectInvalid(make({2, 3}, {0}), {"[0]"});
  testing::ExpectInvalid(make({2, 3}, {-1, 0}), {"[-1,0]"});
  testing::ExpectInvalid(make({}, {}), {"rank 0"});
  testing::ExpectInvalid(
      make(Shape(17, 1), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}), {"rank 17"});
  testing::ExpectInvalid(make({2, 0}, {0, 1}), {"axis 1", "0"});
  testing::ExpectInvalid(MakeTranspose(Shape{2, 0}, Shape{0, 1}, 1), {"axis 1", "0"});
}

TEST(Transpose, BytesHereAndNow) {
  for (const auto& [rows, columns] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {1, 9}, {70, 3}, {77, 300}}) {
    std::vector<std::uint8_t> from(rows * columns), to(from.size()), want(from.size());
    for (std::size_t i = 0; i < from.size(); ++i)
      from[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
    for (std::size_t i = 0; i < from.size(); ++i) want[i % columns * rows + i / columns] = from[i];
    TransposeBytes(from.data(), rows, columns, to.data());
    EXPECT_EQ(to, want) << rows << " x " << columns;
  }
}

}  // namespace
}  // namespace lagoon
