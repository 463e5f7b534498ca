#include "kernels/lines/reduce.h"

#include <algorithm>

#include "kernels/testing/ops.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

Doubles Reference(const ReduceSpec& s, const Floats& x) {
  Doubles y;
  for (std::size_t o = 0; o < s.outer; ++o) {
    for (std::size_t i = 0; i < s.inner; ++i) {
      double sum = 0, max = x[o * s.axis * s.inner + i], min = max;
      for (std::size_t a = 0; a < s.axis; ++a) {
        const double v = x[(o * s.axis + a) * s.inner + i];
        sum += v;
        max = std::max(max, v);
        min = std::min(min, v);
      }
      y.push_back(s.op == ReduceOp::kSum   ? sum
                  : s.op == ReduceOp::kMax ? max
                  : s.op == ReduceOp::kMin ? min
                                           : sum / double(s.axis));
    }
  }
  return y;
}

void Check(ReduceSpec s) {
  const Floats x = testing::RandomFloats(s.outer * s.axis * s.inner, -1, 2);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax, ReduceOp::kMin}) {
    SCOPED_TRACE(::testing::Message()
                 << s.outer << "x" << s.axis << "x" << s.inner << " op " << int(op));
    s.op = op;
    testing::ExpectKernel([&] { return MakeReduce(s); }, {x}, Reference(s, x), 1e-5);
  }
}

TEST(Reduce, GlobalPoolingOfModels) {
  Check({.outer = 1, .axis = 49, .inner = 512});
  Check({.outer = 2, .axis = 49, .inner = 1280});
  Check({.outer = 1, .axis = 169, .inner = 1000});
}

TEST(Reduce, RowsOfAnyLength) {
  for (const std::size_t axis : {1u, 3u, 16u, 17u, 65u, 1000u})
    Check({.outer = 5, .axis = axis, .inner = 1});
  Check({.outer = 3000, .axis = 50, .inner = 1});
}

TEST(Reduce, ColumnsOfAnyWidth) {
  for (const std::size_t inner : {2u, 7u, 8u, 16u, 19u, 40u})
    Check({.outer = 3, .axis = 21, .inner = inner});
}

TEST(Reduce, LongLinesLeaveBeforeTheyWrite) {
  for (const std::size_t inner : {1u, 3u}) {
    const ReduceSpec s{.outer = 2, .axis = 300'000, .inner = inner};
    Check(s);
    testing::BoundKernel bound(*MakeReduce(s), {Floats(2 * 300'000 * inner)}, 2 * inner);
    testing::LeaveAt count;
    EXPECT_TRUE(bound.RunBlock(0, &count));
    EXPECT_GE(count.checks(), 10);
  }
}

TEST(Reduce, RefusesEmptyShapes) {
  testing::ExpectInvalid(MakeReduce({.outer = 0, .axis = 4, .inner = 1}), {"reduce", "outer", "0"});
}

}  // namespace
}  // namespace lagoon
