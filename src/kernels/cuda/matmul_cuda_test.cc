#include "kernels/cuda/testing/body.h"
#include "kernels/testing/ops.h"

namespace lagoon::cuda {
namespace {

using lagoon::testing::RandomFloats;
using testing::BytesOf;
using testing::ExpectLikeCpu;

struct Shape {
  std::size_t batch = 1, m = 1, k = 1, n = 1;
  bool flip_a = false, flip_b = false, share_b = false;
};

void Check(const Shape& s) {
  SCOPED_TRACE(::testing::Message() << s.batch << "x[" << s.m << "," << s.k << "," << s.n << "]"
                                    << s.flip_a << s.flip_b << s.share_b);
  const auto signed_of = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  const MatmulSpec spec{.batch = {signed_of(s.batch)},
                        .a_batch_strides = {signed_of(s.m * s.k)},
                        .b_batch_strides = {s.share_b ? 0 : signed_of(s.k * s.n)},
                        .m = s.m,
                        .k = s.k,
                        .n = s.n,
                        .a_row_stride = s.flip_a ? 1 : s.k,
                        .a_k_stride = s.flip_a ? s.m : 1,
                        .b_k_stride = s.flip_b ? 1 : s.n,
                        .b_column_stride = s.flip_b ? s.k : 1,
                        .alpha = 0.5f};
  ExpectLikeCpu(MakeCudaMatmul(spec), MakeMatmul(spec),
                {BytesOf(RandomFloats(s.batch * s.m * s.k)),
                 BytesOf(RandomFloats((s.share_b ? 1 : s.batch) * s.k * s.n, -1, 1, 2))},
                {s.batch * s.m * s.n * 4}, 2e-5);
}

TEST(CudaMatmul, AnySize) {
  Check({.m = 1, .k = 1, .n = 1});
  Check({.m = 65, .k = 37, .n = 130});
  Check({.m = 64, .k = 300, .n = 64});
}

TEST(CudaMatmul, AnyOrderOfTheOperandsAndBatches) {
  for (const bool flip_a : {false, true}) {
    for (const bool flip_b : {false, true}) {
      Check({.batch = 2, .m = 50, .k = 40, .n = 70, .flip_a = flip_a, .flip_b = flip_b});
    }
  }
  Check({.batch = 3, .m = 20, .k = 30, .n = 40, .share_b = true});
}

}  // namespace
}  // namespace lagoon::cuda
