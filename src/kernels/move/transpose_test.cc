#include "kernels/move/transpose.h"

#include <algorithm>
#include <numeric>

#include "kernels/testing/ops.h"

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

TEST(Transpose, LongRunsAreCut) { Check({2, 3, 20'000}, {1, 0, 2}); }

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
}

}  // namespace
}  // namespace lagoon
