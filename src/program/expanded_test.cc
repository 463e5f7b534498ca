// What compositions of ops compute (graph/expand), compared with plain loops.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>

#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::ModelBuilder;
using testing::RunModel;
using testing::ToBytes;
using Floats = std::vector<float>;
using Complex = std::complex<double>;

Floats Numbers(std::size_t count) {
  Floats numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>((i * 37 + 11) % 101) / 50.0f - 1.0f;
  }
  return numbers;
}

void ExpectNear(const Bytes& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size() * sizeof(float));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    float value = 0;
    std::memcpy(&value, actual.data() + i * sizeof(float), sizeof(float));
    ASSERT_NEAR(value, expected[i], tolerance) << "element " << i;
  }
}

// The transform of `x` by its definition; `inverse` divides by the length.
std::vector<Complex> TransformOf(const std::vector<Complex>& x, bool inverse) {
  const auto length = static_cast<double>(x.size());
  std::vector<Complex> y(x.size());
  for (std::size_t k = 0; k < y.size(); ++k) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % x.size()) / length;
      y[k] += x[j] * std::polar(1.0, inverse ? angle : -angle);
    }
    if (inverse) y[k] /= length;
  }
  return y;
}

TEST(Expanded, DftOfRealNumbersAlongTheFirstAxes) {
  // [4,9,1]: along axis 1, of which the first 6 numbers count, one-sided.
  ModelBuilder model(20);
  model.Input("x", {4, 9, 1}).Number("length", 6).Number("axis", 1).Output("y");
  model.Add("DFT", {"x", "length", "axis"}, {"y"}).Int("onesided", 1);
  const Floats x = Numbers(36);
  std::vector<double> expected;
  for (std::size_t row = 0; row < 4; ++row) {
    const std::vector<Complex> y =
        TransformOf({x.begin() + static_cast<std::ptrdiff_t>(row * 9),
                     x.begin() + static_cast<std::ptrdiff_t>(row * 9 + 6)},
                    false);
    for (std::size_t k = 0; k < 4; ++k) expected.insert(expected.end(), {y[k].real(), y[k].imag()});
  }
  ExpectNear(RunModel(model, {ToBytes(x)})[0], expected, 1e-5);
}

TEST(Expanded, InverseDftOfComplexNumbersWithZerosBehindThem) {
  // [5,3,2]: along axis 0, with 2 zeros.
  ModelBuilder model(17);
  model.Input("x", {5, 3, 2}).Number("length", 7).Output("y");
  model.Add("DFT", {"x", "length"}, {"y"}).Int("axis", 0).Int("inverse", 1);
  const Floats x = Numbers(30);
  std::vector<double> expected(7 * 3 * 2);
  for (std::size_t column = 0; column < 3; ++column) {
    std::vector<Complex> line(7);
    for (std::size_t j = 0; j < 5; ++j) {
      line[j] = {x[(j * 3 + column) * 2], x[(j * 3 + column) * 2 + 1]};
    }
    const std::vector<Complex> y = TransformOf(line, true);
    for (std::size_t k = 0; k < 7; ++k) {
      expected[(k * 3 + column) * 2] = y[k].real();
      expected[(k * 3 + column) * 2 + 1] = y[k].imag();
    }
  }
  ExpectNear(RunModel(model, {ToBytes(x)})[0], expected, 1e-5);
}

TEST(Expanded, InverseDftOfOneHalfOfTheFrequenciesGivesTheRealSignal) {
  // [2,9,1] there, one-sided, and back to 9 (given) or 8 samples.
  for (const std::int64_t length : {8, 9}) {
    ModelBuilder model(20);
    model.Input("x", {2, length, 1}).Number("length", length).Number("axis", 1).Output("y");
    model.Add("DFT", {"x", "", "axis"}, {"half"}).Int("onesided", 1);
    const std::string given = length == 9 ? "length" : "";
    model.Add("DFT", {"half", given, "axis"}, {"y"}).Int("inverse", 1).Int("onesided", 1);
    const Floats x = Numbers(static_cast<std::size_t>(2 * length));
    ExpectNear(RunModel(model, {ToBytes(x)})[0], {x.begin(), x.end()}, 1e-5);
  }
}

// Frames of 12 samples, 8 apart, of a signal of 45.
std::vector<double> FramesTransformed(const Floats& x, const Floats& window) {
  std::vector<double> expected;
  for (std::size_t frame = 0; frame < 5; ++frame) {
    std::vector<Complex> samples(12);
    for (std::size_t i = 0; i < 12; ++i) samples[i] = double{x[frame * 8 + i]} * window[i];
    const std::vector<Complex> y = TransformOf(samples, false);
    for (std::size_t k = 0; k < 7; ++k) expected.insert(expected.end(), {y[k].real(), y[k].imag()});
  }
  return expected;
}

TEST(Expanded, StftWithAWindowThatIsConstantOrComputed) {
  const Floats x = Numbers(45), window = Numbers(12);
  for (const bool constant : {true, false}) {
    ModelBuilder model(17);
    model.Input("x", {1, 45, 1}).Number("step", 8).Output("y");
    std::vector<Bytes> inputs{ToBytes(x)};
    if (constant) {
      model.Floats("w", {12}, window);
    } else {
      model.Input("w", {12});
      inputs.push_back(ToBytes(window));
    }
    model.Add("STFT", {"x", "step", "w"}, {"y"});
    ExpectNear(RunModel(model, inputs)[0], FramesTransformed(x, window), 1e-5);
  }
}

TEST(Expanded, EinsumReadsDiagonals) {
  ModelBuilder model(13);
  model.Input("x", {3, 4, 3}).Input("w", {4}).Output("y");
  model.Add("Einsum", {"x", "w"}, {"y"}).Text("equation", "iji,j->i");
  const Floats x = Numbers(36), w = Numbers(4);
  std::vector<double> expected(3);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 4; ++j) expected[i] += double{x[(i * 4 + j) * 3 + i]} * w[j];
  }
  ExpectNear(RunModel(model, {ToBytes(x), ToBytes(w)})[0], expected, 1e-5);
}

TEST(Expanded, DeterminantOfATriangleIsTheProductOfItsDiagonal) {
  ModelBuilder model(13);
  model.Input("x", {2, 4, 4}).Output("y");
  model.Add("Det", {"x"}, {"y"});
  // The second matrix is the first one with two rows exchanged, which changes the sign.
  Floats x{2, 5, 1, 7, 0, 3, 4, 9, 0, 0, -1, 6, 0, 0, 0, 0.5f};
  Floats swapped = x;
  std::swap_ranges(swapped.begin(), swapped.begin() + 4, swapped.begin() + 8);
  x.insert(x.end(), swapped.begin(), swapped.end());
  ExpectNear(RunModel(model, {ToBytes(x)})[0], {-3, 3}, 1e-5);
}

TEST(Expanded, Col2ImAddsWhatBlocksShare) {
  // 2 channels, blocks of 2 x 3 over an image of 5 x 7, stride 2 x 1, a pad of 1 at the left: 2 x 6
  // places, and a last row that no block reaches.
  ModelBuilder model(18);
  model.Input("x", {1, 12, 12}).Ints("image", {5, 7}).Ints("block", {2, 3}).Output("y");
  model.Add("Col2Im", {"x", "image", "block"}, {"y"})
      .Ints("strides", {2, 1})
      .Ints("pads", {0, 1, 0, 0});
  const Floats x = Numbers(144);
  std::vector<double> expected(2 * 5 * 7);
  for (std::size_t row = 0; row < 12; ++row) {
    const std::size_t channel = row / 6, r = row % 6 / 3, s = row % 3;
    for (std::size_t place = 0; place < 12; ++place) {
      const std::size_t h = place / 6 * 2 + r, padded = place % 6 + s;
      if (padded == 0) continue;
      expected[(channel * 5 + h) * 7 + padded - 1] += double{x[row * 12 + place]};
    }
  }
  ExpectNear(RunModel(model, {ToBytes(x)})[0], expected, 1e-5);
}

TEST(Expanded, MaxUnpoolPutsNumbersBack) {
  ModelBuilder model(13);
  model.Input("x", {1, 2, 1, 2}).Input("i", {1, 2, 1, 2}, onnx::TensorProto::INT64);
  model.Ints("shape", {1, 2, 3, 4}).Output("y");
  model.Add("MaxUnpool", {"x", "i", "shape"}, {"y"})
      .Ints("kernel_shape", {2, 2})
      .Ints("strides", {2, 2});
  // The places are those in a tensor [1,2,2,4]; the third row is new.
  ExpectNear(RunModel(model, {ToBytes(Floats{1, 2, 3, 4}),
                              ToBytes(std::vector<std::int64_t>{1, 6, 8, 15})})[0],
             {0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0}, 0);
}

TEST(Expanded, CenterCropPadKeepsTheMiddle) {
  ModelBuilder model(18);
  model.Input("x", {2, 5}).Ints("shape", {5, 2}).Output("y");
  model.Add("CenterCropPad", {"x", "shape"}, {"y"});
  ExpectNear(RunModel(model, {ToBytes(Floats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})})[0],
             {0, 0, 2, 3, 7, 8, 0, 0, 0, 0}, 0);
}

TEST(Expanded, AffineGridTurnsCoordinates) {
  ModelBuilder model(20);
  model.Input("theta", {1, 2, 3}).Ints("size", {1, 1, 2, 3}).Output("y");
  model.Add("AffineGrid", {"theta", "size"}, {"y"}).Int("align_corners", 1);
  // x' = 2 y + 0.5 and y' = x.
  ExpectNear(RunModel(model, {ToBytes(Floats{0, 2, 0.5f, 1, 0, 0})})[0],
             {-1.5, -1, -1.5, 0, -1.5, 1, 2.5, -1, 2.5, 0, 2.5, 1}, 1e-6);
}

TEST(Expanded, AntialiasedShrinkingWeighsAllThatItCovers) {
  // By half: triangles of four elements with the weights 1, 3, 3, 1, which repeat at the ends.
  ModelBuilder model(18);
  model.Input("x", {1, 1, 1, 6}).Floats("scales", {4}, {1, 1, 1, 0.5f}).Output("y");
  model.Add("Resize", {"x", "", "scales"}, {"y"}).Text("mode", "linear").Int("antialias", 1);
  const auto filter = [](double a, double b, double c, double d) {
    return (a + 3 * b + 3 * c + d) / 8;
  };
  ExpectNear(RunModel(model, {ToBytes(Floats{1, 4, 9, 16, 25, 36})})[0],
             {filter(1, 1, 4, 9), filter(4, 9, 16, 25), filter(16, 25, 36, 36)}, 1e-5);
}

TEST(Expanded, LossesLeaveOutIgnoredClasses) {
  ModelBuilder model(13);
  model.Input("x", {3, 2}).Input("t", {3}, onnx::TensorProto::INT64).Output("y");
  model.Floats("w", {2}, {0.5f, 2})
      .Add("NegativeLogLikelihoodLoss", {"x", "t", "w"}, {"y"})
      .Int("ignore_index", -1);
  // -(0.5 * -1 + 2 * -4) / (0.5 + 2)
  ExpectNear(RunModel(model, {ToBytes(Floats{-1, -2, -3, -4, -5, -6}),
                              ToBytes(std::vector<std::int64_t>{0, 1, -1})})[0],
             {3.4}, 1e-6);
}

TEST(Expanded, AttentionGivesItsScoresAndItsWeights) {
  for (const std::int64_t mode : {0, 3}) {
    ModelBuilder model(23);
    model.Input("q", {1, 1, 1, 1}).Input("k", {1, 1, 2, 1}).Input("v", {1, 1, 2, 1});
    model.Output("y").Output("scores");
    model.Add("Attention", {"q", "k", "v"}, {"y", "", "", "scores"})
        .Int("qk_matmul_output_mode", mode);
    const std::vector<Bytes> outputs =
        RunModel(model, {ToBytes(Floats{2}), ToBytes(Floats{1, 3}), ToBytes(Floats{5, 7})});
    const double low = 1 / (1 + std::exp(4.0));
    ExpectNear(outputs[0], {5 * low + 7 * (1 - low)}, 1e-5);
    ExpectNear(outputs[1],
               mode == 0 ? std::vector<double>{2, 6} : std::vector<double>{low, 1 - low}, 1e-5);
  }
}

TEST(Expanded, PackedWeightsMayHaveTheirRowsInAnyBlock) {
  ModelBuilder model(20);
  model.Input("x", {1, 32}).Output("y").Floats("s", {2}, {0.5f, 10});
  std::vector<std::int32_t> block_of_row(32);
  for (std::size_t row = 0; row < 32; ++row) block_of_row[row] = row % 3 == 0 ? 1 : 0;
  *model.graph().add_initializer() = testing::RawTensor<std::uint8_t>(
      "b", onnx::TensorProto::UINT8, {1, 2, 8}, std::vector<std::uint8_t>(16, 0x9b));
  *model.graph().add_initializer() =
      testing::RawTensor("g", onnx::TensorProto::INT32, {32}, block_of_row);
  testing::NodeRef node = model.Add("MatMulNBits", {"x", "b", "s", "", "g"}, {"y"});
  node.proto().set_domain("com.microsoft");
  node.Int("K", 32).Int("N", 1).Int("bits", 4).Int("block_size", 16);
  const Floats x = Numbers(32);
  double expected = 0;
  for (std::size_t row = 0; row < 32; ++row) {
    const double weight = (row % 2 == 0 ? 0xb : 0x9) - 8;
    expected += x[row] * weight * (row % 3 == 0 ? 10 : 0.5);
  }
  ExpectNear(RunModel(model, {ToBytes(x)})[0], {expected}, 1e-3);
}

}  // namespace
}  // namespace lagoon
