// Normalisation, interpolation, windows and recurrent cells against plain loops.

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/ops.h"
#include "kernels/testing/ops.h"
#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Doubles;
using testing::Floats;

/// What MakeMoments() writes for x, which it is compared with.
Floats MomentsOf(const NormalizeSpec& s, const Floats& x) {
  Doubles reference;
  for (std::size_t i = 0; i < s.rows * s.pieces(); ++i) {
    const std::size_t piece = i % s.pieces(), row = i / s.pieces() * s.row;
    const std::size_t begin = row + s.row * piece / s.pieces();
    const std::size_t end = row + s.row * (piece + 1) / s.pieces();
    double mean = 0, squares = 0;
    for (std::size_t j = begin; j < end && s.center; ++j) mean += x[j];
    mean /= static_cast<double>(end - begin);
    for (std::size_t j = begin; j < end; ++j) squares += std::pow(x[j] - mean, 2);
    reference.insert(reference.end(), {mean, squares});
  }
  testing::ExpectKernel([&] { return MakeMoments(s); }, {x}, reference, 2e-5);
  return {reference.begin(), reference.end()};
}

void CheckNormalize(const NormalizeSpec& s) {
  SCOPED_TRACE(::testing::Message()
               << s.rows << "x" << s.row << " period " << s.period << " inner " << s.inner);
  const Floats x = testing::RandomFloats(s.rows * s.row, -3, 5);
  const std::size_t parameters = s.period * s.row / s.inner;
  const Floats scale = testing::RandomFloats(parameters, 0.5, 2, 2),
               bias = testing::RandomFloats(parameters, -1, 1, 3);
  Doubles reference;
  for (std::size_t i = 0; i < s.rows; ++i) {
    double mean = 0, square = 0;
    for (std::size_t j = 0; j < s.row && s.center; ++j) mean += x[i * s.row + j];
    mean /= double(s.row);
    for (std::size_t j = 0; j < s.row; ++j) square += std::pow(x[i * s.row + j] - mean, 2);
    const double factor = 1 / std::sqrt(square / double(s.row) + s.epsilon);
    for (std::size_t j = 0; j < s.row; ++j) {
      const std::size_t p = i % s.period * (s.row / s.inner) + j / s.inner;
      reference.push_back((x[i * s.row + j] - mean) * factor * (s.scale ? scale[p] : 1) +
                          (s.bias ? bias[p] : 0));
    }
  }
  std::vector<Floats> inputs{x};
  if (s.moments) inputs.push_back(MomentsOf(s, x));
  if (s.scale) inputs.push_back(scale);
  if (s.bias) inputs.push_back(bias);
  testing::ExpectKernel([&] { return MakeNormalize(s); }, inputs, reference, 2e-5);
}

TEST(Normalize, LayersInstancesAndGroups) {
  CheckNormalize({.rows = 128, .row = 768});
  CheckNormalize({.rows = 3, .row = 37});
  CheckNormalize({.rows = 5, .row = 1});
  CheckNormalize({.rows = 2 * 7, .row = 25, .period = 7, .inner = 25});
  CheckNormalize({.rows = 2 * 3, .row = 4 * 25, .period = 3, .inner = 25});
  CheckNormalize({.rows = 9, .row = 64, .bias = false, .center = false});
  CheckNormalize({.rows = 1, .row = kMaxNormalizeRow, .scale = false, .bias = false});
}

TEST(Normalize, LongRowsByTheMomentsOfTheirPieces) {
  constexpr std::size_t kLong = 3 * kMaxNormalizeRow + 7;
  CheckNormalize({.rows = 2, .row = kLong, .moments = true});
  CheckNormalize({.rows = 2, .row = kLong, .bias = false, .center = false, .moments = true});
  CheckNormalize({.rows = 4, .row = 5 * 7919, .period = 2, .inner = 7919, .moments = true});
  CheckNormalize({.rows = 3, .row = 11, .period = 3, .inner = 11, .moments = true});
}

TEST(Normalize, MomentsFarFromZeroAreExact) {
  constexpr std::size_t kRow = 5 * kMaxNormalizeRow;
  const NormalizeSpec spec{.rows = 1, .row = kRow, .scale = false, .bias = false, .moments = true};
  Floats x(kRow);
  // 4096 + {-1, 1}, but the last fifth lies around 0: the means of the pieces are far apart.
  for (std::size_t i = 0; i < kRow; ++i) {
    x[i] = (i < kRow / 5 * 4 ? 4096.0F : 0.0F) + (i % 2 == 0 ? 1.0F : -1.0F);
  }
  const double mean = 4096 * 0.8, deviation = std::sqrt(4096.0 * 4096 * 0.16 + 1);
  Doubles reference;
  for (const float v : x) reference.push_back((v - mean) / deviation);
  testing::ExpectKernel([&] { return MakeNormalize(spec); }, {x, MomentsOf(spec, x)}, reference,
                        1e-6);
}

TEST(Normalize, RefusesBadSpecsByName) {
  testing::ExpectInvalid(MakeNormalize({.rows = 2, .row = kMaxNormalizeRow + 1}),
                         {"normalize", "16385"});
  testing::ExpectInvalid(MakeNormalize({.rows = 2, .row = 10, .inner = 3}), {"row 10", "of 3"});
}

/// Every seventh pixel lies outside.
void CheckInterpolate(const InterpolateSpec& spec) {
  const Floats x = testing::RandomFloats(spec.outer * spec.in * spec.inner);
  const Floats weights = testing::RandomFloats(spec.out * spec.taps);
  std::vector<std::int32_t> indices(spec.out * spec.taps);
  for (std::size_t at = 0; at < indices.size(); ++at) {
    indices[at] =
        at / spec.taps % 7 == 3 ? -1 : static_cast<std::int32_t>((at * 11 + at / 5) % spec.in);
  }
  Doubles reference;
  for (std::size_t row = 0; row < spec.outer * spec.out; ++row) {
    const std::size_t o = row / spec.out, first = row % spec.out * spec.taps;
    for (std::size_t j = 0; j < spec.inner; ++j) {
      double sum = 0;
      for (std::size_t t = 0; t < spec.taps && indices[first] >= 0; ++t) {
        const auto at = static_cast<std::size_t>(indices[first + t]);
        sum += double{weights[first + t]} * x[(o * spec.in + at) * spec.inner + j];
      }
      reference.push_back(indices[first] < 0 ? spec.fill : sum);
    }
  }
  Floats table(indices.size());  // the bytes of `indices`
  std::memcpy(table.data(), indices.data(), indices.size() * sizeof(float));
  testing::ExpectKernel([&] { return MakeInterpolate(spec); }, {x, table, weights}, reference,
                        1e-5);
}

TEST(Interpolate, AlongTheLastAndAnInnerAxis) {
  for (const std::size_t taps : {2u, 3u, 4u}) {
    for (const std::size_t inner : {1u, 5u, 6000u}) CheckInterpolate({2, 3, 4, inner, taps, 9});
    for (const std::size_t out : {1u, 15u, 67u, 5000u}) CheckInterpolate({3, 40, out, 1, taps, 9});
  }
}

/// A small window with a different geometry on each of three axes.
SpatialWindow Window() {
  SpatialWindow w;
  w.in = {3, 5, 40};
  w.kernel = {2, 3, 3};
  w.stride = {1, 2, 1};
  w.dilation = {1, 1, 2};
  w.pad_begin = {1, 0, 2};
  w.out = {4, 2, 40};
  return w;
}

/// Calls f(out position, tap, in position) for every tap that lies in x.
template <typename F>
void ForTaps(const SpatialWindow& w, F&& f) {
  const std::size_t outs = w.out[0] * w.out[1] * w.out[2],
                    taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
  for (std::size_t out = 0; out < outs; ++out) {
    for (std::size_t tap = 0; tap < taps; ++tap) {
      std::size_t o = out, t = tap, in = 0, scale = 1;
      bool inside = true;
      for (std::size_t a = 3; a-- > 0;) {
        const std::size_t at =
            o % w.out[a] * w.stride[a] + t % w.kernel[a] * w.dilation[a] - w.pad_begin[a];
        inside = inside && at < w.in[a];
        in += at * scale;
        scale *= w.in[a];
        o /= w.out[a];
        t /= w.kernel[a];
      }
      if (inside) f(out, tap, in);
    }
  }
}

TEST(DirectConv, OverThreeAxesInGroups) {
  for (const std::size_t stride : {1u, 2u}) {
    DirectConvSpec spec;
    spec.window = Window();
    spec.window.stride[2] = stride;
    spec.window.out[2] = stride == 1 ? 40 : 20;
    spec.batch = 2;
    spec.groups = 2;
    spec.in_channels = 3;
    spec.out_channels = 2;
    spec.bias = true;
    const SpatialWindow& w = spec.window;
    const std::size_t in = w.in[0] * w.in[1] * w.in[2], out = w.out[0] * w.out[1] * w.out[2],
                      taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
    const Floats x = testing::RandomFloats(2 * 6 * in), bias = testing::RandomFloats(4, -1, 1, 3),
                 weights = testing::RandomFloats(4 * 3 * taps, -1, 1, 2);
    Doubles reference(2 * 4 * out);
    for (std::size_t image = 0; image < 2; ++image) {
      for (std::size_t m = 0; m < 4; ++m) {
        double* const y = reference.data() + (image * 4 + m) * out;
        std::fill(y, y + out, bias[m]);
        for (std::size_t c = 0; c < 3; ++c) {
          const float* const plane = x.data() + (image * 6 + m / 2 * 3 + c) * in;
          ForTaps(w, [&](std::size_t to, std::size_t tap, std::size_t from) {
            y[to] += double{plane[from]} * weights[(m * 3 + c) * taps + tap];
          });
        }
      }
    }
    testing::ExpectKernel([&] { return MakeDirectConv(spec); }, {x, weights, bias}, reference,
                          1e-5);
  }
}

TEST(DirectConv, LongRowsAreManyPieces) {
  DirectConvSpec spec;
  SpatialWindow& w = spec.window;
  w.in = {1, 1, 1301};
  w.kernel = {1, 1, 5};
  w.dilation = {1, 1, 3};
  w.pad_begin = {0, 0, 6};
  w.out = {1, 1, 1301};
  const Floats x = testing::RandomFloats(1301), weights = testing::RandomFloats(5, -1, 1, 2);
  Doubles reference(1301);
  ForTaps(w, [&](std::size_t to, std::size_t tap, std::size_t from) {
    reference[to] += double{x[from]} * weights[tap];
  });
  testing::ExpectKernel([&] { return MakeDirectConv(spec); }, {x, weights}, reference, 1e-5);
}

TEST(WindowPool, WindowsMayBeFarLargerThanTheImage) {
  WindowPoolSpec spec;
  spec.window.in = {1, 60, 60};
  spec.window.kernel = {1, 200, 1 << 20};
  spec.window.pad_begin = {0, 70, 1 << 19};
  spec.kind = WindowPool::kAverage;
  const Floats x = testing::RandomFloats(3600);
  double sum = 0;
  for (const float value : x) sum += value;
  testing::ExpectKernel([&] { return MakeWindowPool(spec); }, {x}, {sum / 3600}, 1e-5);
}

TEST(WindowPool, AveragesAndNorms) {
  for (const WindowPool kind :
       {WindowPool::kAverage, WindowPool::kAverageCountPadding, WindowPool::kLp}) {
    WindowPoolSpec spec;
    spec.kind = kind;
    spec.window = Window();
    spec.images = 3;
    spec.p = 3;
    spec.pad_end = {10, 10, 10};  // behind every window
    const SpatialWindow& w = spec.window;
    const std::size_t in = w.in[0] * w.in[1] * w.in[2], out = w.out[0] * w.out[1] * w.out[2],
                      taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
    const Floats x = testing::RandomFloats(3 * in);
    Doubles sums(3 * out), counts(3 * out), reference;
    for (std::size_t image = 0; image < 3; ++image) {
      ForTaps(w, [&](std::size_t to, std::size_t, std::size_t from) {
        const double value = x[image * in + from];
        sums[image * out + to] += kind == WindowPool::kLp ? std::pow(std::abs(value), 3) : value;
        ++counts[image * out + to];
      });
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      reference.push_back(kind == WindowPool::kLp        ? std::cbrt(sums[i])
                          : kind == WindowPool::kAverage ? sums[i] / counts[i]
                                                         : sums[i] / double(taps));
    }
    testing::ExpectKernel([&] { return MakeWindowPool(spec); }, {x}, reference, 1e-5);
  }
}

TEST(WindowPool, MaximumOfBytesWithIndices) {
  WindowPoolSpec spec;
  spec.window.in = {1, 3, 3};
  spec.window.kernel = {1, 2, 2};
  spec.window.out = {1, 2, 2};
  spec.type = DataType::kUInt8;
  spec.indices = true;
  const std::vector<std::uint8_t> x{1, 9, 3, 4, 5, 9, 7, 8, 0};
  for (const bool column_major : {false, true}) {
    spec.column_major = column_major;
    testing::TypedRun run(*MakeWindowPool(spec), {testing::ToBytes(x)}, {4, 32});
    run.ExpectTiles();
    EXPECT_EQ(testing::FromBytes<std::uint8_t>(run.Run()[0]),
              (std::vector<std::uint8_t>{9, 9, 8, 9}));
    EXPECT_EQ(testing::FromBytes<std::int64_t>(run.Run()[1]),
              column_major ? (std::vector<std::int64_t>{3, 3, 5, 7})
                           : (std::vector<std::int64_t>{1, 1, 7, 5}));
  }
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Gate `gate` of unit `unit`: the product of its weights with `state`.
double Product(const Floats& r, const float* state, std::size_t hidden, std::size_t gate,
               std::size_t unit) {
  double sum = 0;
  for (std::size_t i = 0; i < hidden; ++i) {
    sum += double{r[(gate * hidden + unit) * hidden + i]} * state[i];
  }
  return sum;
}

TEST(Cell, LstmWithPeepholes) {
  constexpr std::size_t kBatch = 3, kHidden = 37;
  const Floats x = testing::RandomFloats(kBatch * 4 * kHidden),
               r = testing::RandomFloats(4 * kHidden * kHidden, -0.3f, 0.3f, 2),
               h = testing::RandomFloats(kBatch * kHidden, -1, 1, 3),
               c = testing::RandomFloats(kBatch * kHidden, -1, 1, 4),
               p = testing::RandomFloats(3 * kHidden, -1, 1, 5);
  Kernel kernel = *MakeCell({CellKind::kLstm, kBatch, kHidden, true});
  testing::TypedRun run(kernel,
                        {testing::ToBytes(x), testing::ToBytes(r), testing::ToBytes(h),
                         testing::ToBytes(c), testing::ToBytes(p)},
                        {kBatch * kHidden * 4, kBatch * kHidden * 4});
  run.ExpectTiles();
  const Floats new_h = testing::FromBytes<float>(run.Run()[0]),
               new_c = testing::FromBytes<float>(run.Run()[1]);
  for (std::size_t b = 0; b < kBatch; ++b) {
    for (std::size_t u = 0; u < kHidden; ++u) {
      const auto gate = [&](std::size_t g) {
        return x[(b * 4 + g) * kHidden + u] + Product(r, h.data() + b * kHidden, kHidden, g, u);
      };
      const double before = c[b * kHidden + u];
      const double state = Sigmoid(gate(2) + p[2 * kHidden + u] * before) * before +
                           Sigmoid(gate(0) + p[u] * before) * std::tanh(gate(3));
      ASSERT_NEAR(new_c[b * kHidden + u], state, 1e-5);
      ASSERT_NEAR(new_h[b * kHidden + u],
                  Sigmoid(gate(1) + p[kHidden + u] * state) * std::tanh(state), 1e-5);
    }
  }
}

TEST(Cell, ASequenceOfABatchGetsTheBitsThatItGetsAlone) {
  constexpr std::size_t kBatch = 15, kHidden = 50;
  const Floats x = testing::RandomFloats(kBatch * 4 * kHidden),
               r = testing::RandomFloats(4 * kHidden * kHidden, -0.3f, 0.3f, 2),
               h = testing::RandomFloats(kBatch * kHidden, -1, 1, 3),
               c = testing::RandomFloats(kBatch * kHidden, -1, 1, 4);
  const auto row = [](const Floats& all, std::size_t at, std::size_t count) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at * count);
    return Floats(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  const auto run = [&](std::size_t batch, const Floats& gates, const Floats& state,
                       const Floats& cell) {
    testing::TypedRun step(*MakeCell({CellKind::kLstm, batch, kHidden, false}),
                           {testing::ToBytes(gates), testing::ToBytes(r), testing::ToBytes(state),
                            testing::ToBytes(cell)},
                           {batch * kHidden * 4, batch * kHidden * 4});
    return testing::FromBytes<float>(step.Run()[0]);
  };
  const Floats together = run(kBatch, x, h, c);
  for (std::size_t b = 0; b < kBatch; ++b) {
    EXPECT_EQ(row(together, b, kHidden),
              run(1, row(x, b, 4 * kHidden), row(h, b, kHidden), row(c, b, kHidden)));
  }
}

TEST(Cell, AStateStaysBehindTheEndOfItsSequence) {
  constexpr std::size_t kBatch = 3, kHidden = 21;
  const Floats x = testing::RandomFloats(kBatch * 4 * kHidden),
               r = testing::RandomFloats(4 * kHidden * kHidden, -0.3f, 0.3f, 2),
               h = testing::RandomFloats(kBatch * kHidden, -1, 1, 3),
               c = testing::RandomFloats(kBatch * kHidden, -1, 1, 4);
  CellSpec spec{CellKind::kLstm, kBatch, kHidden, false};
  const std::vector<testing::Bytes> inputs{testing::ToBytes(x), testing::ToBytes(r),
                                           testing::ToBytes(h), testing::ToBytes(c)};
  const std::vector<std::size_t> sizes{kBatch * kHidden * 4, kBatch * kHidden * 4};
  testing::TypedRun all(*MakeCell(spec), inputs, sizes);
  spec.lengths = true;
  spec.step = 4;
  std::vector<testing::Bytes> with = inputs;
  with.push_back(testing::ToBytes(std::vector<std::int32_t>{4, 5, 0}));
  testing::TypedRun some(*MakeCell(spec), with, sizes);
  some.ExpectTiles();
  for (std::size_t output = 0; output < 2; ++output) {
    const Floats whole = testing::FromBytes<float>(all.Run()[output]),
                 part = testing::FromBytes<float>(some.Run()[output]);
    const Floats& before = output == 0 ? h : c;
    for (std::size_t i = 0; i < part.size(); ++i) {
      ASSERT_EQ(part[i], i / kHidden == 1 ? whole[i] : before[i]) << i;
    }
  }
}

TEST(Cell, OtherFunctionsAndAClip) {
  constexpr std::size_t kHidden = 19;
  const Floats x = testing::RandomFloats(kHidden, -4, 4), r(kHidden * kHidden, 0), h(kHidden, 0);
  struct Case {
    CellActivation function;
    double (*reference)(double);
  };
  using enum CellFunction;
  for (const auto& [function, reference] :
       {Case{{kRelu}, [](double v) { return std::max(v, 0.0); }},
        Case{{kAffine, 2, 1}, [](double v) { return 2 * v + 1; }},
        Case{{kLeakyRelu, 0.1f}, [](double v) { return v < 0 ? 0.1 * v : v; }},
        Case{{kThresholdedRelu, 1}, [](double v) { return v < 1 ? 0 : v; }},
        Case{{kScaledTanh, 2, 0.5f}, [](double v) { return 2 * std::tanh(v / 2); }},
        Case{{kHardSigmoid, 0.2f, 0.5f},
             [](double v) { return std::min(std::max(0.2 * v + 0.5, 0.0), 1.0); }},
        Case{{kElu, 1.5f}, [](double v) { return v < 0 ? 1.5 * std::expm1(v) : v; }},
        Case{{kSoftsign}, [](double v) { return v / (1 + std::abs(v)); }},
        Case{{kSoftplus}, [](double v) { return std::log1p(std::exp(v)); }},
        Case{{kSigmoid}, [](double v) { return 1 / (1 + std::exp(-v)); }}}) {
    CellSpec spec{CellKind::kRnn, 1, kHidden, false};
    spec.candidate = function;
    spec.clip = 3;
    testing::TypedRun run(*MakeCell(spec),
                          {testing::ToBytes(x), testing::ToBytes(r), testing::ToBytes(h)},
                          {kHidden * 4});
    const Floats y = testing::FromBytes<float>(run.Run()[0]);
    for (std::size_t i = 0; i < kHidden; ++i) {
      const double clipped = std::min(std::max(double{x[i]}, -3.0), 3.0);
      ASSERT_NEAR(y[i], reference(clipped), 1e-5) << int(function.function);
    }
  }
}

TEST(Cell, GruInBothForms) {
  constexpr std::size_t kHidden = 20;
  const Floats x = testing::RandomFloats(3 * kHidden),
               r = testing::RandomFloats(3 * kHidden * kHidden, -0.3f, 0.3f, 2),
               h = testing::RandomFloats(kHidden, -1, 1, 3),
               bias = testing::RandomFloats(kHidden, -1, 1, 4);
  const auto bytes = [](const Floats& values) { return testing::ToBytes(values); };
  testing::TypedRun gates(*MakeCell({CellKind::kGruGates, 1, kHidden, false}),
                          {bytes(x), bytes(r), bytes(h)}, {kHidden * 4, kHidden * 4});
  const std::vector<testing::Bytes> halves = gates.Run();
  testing::TypedRun state(*MakeCell({CellKind::kGruState, 1, kHidden, false}),
                          {bytes(x), bytes(r), bytes(h), halves[0], halves[1]}, {kHidden * 4});
  testing::TypedRun linear(*MakeCell({CellKind::kGruLinear, 1, kHidden, false}),
                           {bytes(x), bytes(r), bytes(h), bytes(bias)}, {kHidden * 4});
  const Floats before = testing::FromBytes<float>(state.Run()[0]),
               after = testing::FromBytes<float>(linear.Run()[0]);
  Floats reset(kHidden);
  const auto gate = [&](std::size_t g, std::size_t u) {
    return Sigmoid(x[g * kHidden + u] + Product(r, h.data(), kHidden, g, u));
  };
  for (std::size_t u = 0; u < kHidden; ++u) reset[u] = float(gate(1, u) * h[u]);
  for (std::size_t u = 0; u < kHidden; ++u) {
    const double z = gate(0, u);
    const double first = std::tanh(x[2 * kHidden + u] + Product(r, reset.data(), kHidden, 2, u));
    ASSERT_NEAR(before[u], (1 - z) * first + z * h[u], 1e-5);
    const double second = std::tanh(x[2 * kHidden + u] +
                                    gate(1, u) * (Product(r, h.data(), kHidden, 2, u) + bias[u]));
    ASSERT_NEAR(after[u], (1 - z) * second + z * h[u], 1e-5);
  }
}

}  // namespace
}  // namespace lagoon
