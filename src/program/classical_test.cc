// Compositions that sample, look up and decide: DeformConv, GatherBlockQuantized, and the models of
// ai.onnx.ml.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "program/testing/run_model.h"

namespace lagoon {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using testing::FromBytes;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::NodeRef;
using ::testing::Pointwise;
using testing::RunModel;
using testing::ToBytes;
using Floats = std::vector<float>;
using Ints = std::vector<std::int64_t>;

Floats Numbers(std::size_t count, std::size_t seed = 11) {
  Floats numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>((i * 37 + seed) % 101) / 50.0f - 1.0f;
  }
  return numbers;
}

/// The pixel of an image at a place between pixels; zeros lie around the image.
float At(const float* image, int height, int width, float row, float column) {
  const float top = std::floor(row), left = std::floor(column);
  float sum = 0;
  for (const float r : {top, top + 1}) {
    for (const float c : {left, left + 1}) {
      if (r < 0 || c < 0 || r >= static_cast<float>(height) || c >= static_cast<float>(width)) {
        continue;
      }
      const float weight = (1 - std::abs(row - r)) * (1 - std::abs(column - c));
      sum += weight * image[static_cast<int>(r) * width + static_cast<int>(c)];
    }
  }
  return sum;
}

TEST(DeformConv, SamplesWhereTheOffsetsSay) {
  // Two channels of 4 x 5, a window of 2 x 2, a padding of 1 before, three outputs of 4 x 5.
  const Floats x = Numbers(2 * 20), w = Numbers(3 * 2 * 4, 5), mask = Numbers(4 * 20, 17);
  Floats offsets = Numbers(2 * 4 * 20, 3);
  for (float& offset : offsets) offset *= 3;
  ModelBuilder model(19);
  model.Input("x", {1, 2, 4, 5}).Input("o", {1, 8, 4, 5}).Input("m", {1, 4, 4, 5}).Output("y");
  model.Floats("w", {3, 2, 2, 2}, w).Floats("b", {3}, {1, 2, 3});
  model.Add("DeformConv", {"x", "w", "o", "b", "m"}, {"y"}).Ints("pads", {1, 1, 0, 0});
  Floats expected;
  for (int out = 0; out < 3; ++out) {
    for (int pixel = 0; pixel < 20; ++pixel) {
      float sum = static_cast<float>(out + 1);
      for (int tap = 0; tap < 4; ++tap) {
        const float row = static_cast<float>(pixel / 5 - 1 + tap / 2) +
                          offsets[static_cast<std::size_t>((2 * tap) * 20 + pixel)];
        const float column = static_cast<float>(pixel % 5 - 1 + tap % 2) +
                             offsets[static_cast<std::size_t>((2 * tap + 1) * 20 + pixel)];
        for (int channel = 0; channel < 2; ++channel) {
          sum += w[static_cast<std::size_t>((out * 2 + channel) * 4 + tap)] *
                 mask[static_cast<std::size_t>(tap * 20 + pixel)] *
                 At(x.data() + channel * 20, 4, 5, row, column);
        }
      }
      expected.push_back(sum);
    }
  }
  const Floats y =
      FromBytes<float>(RunModel(model, {ToBytes(x), ToBytes(offsets), ToBytes(mask)})[0]);
  EXPECT_THAT(y, Pointwise(FloatNear(1e-4F), expected));
}

TEST(GatherBlockQuantized, UnpacksTheRowsThatItGathers) {
  // Two rows of four numbers of 4 bits, in blocks of two.
  const std::vector<std::uint8_t> table{0x21, 0x43, 0x65, 0x87}, zeros{0x10, 0x32};
  for (const bool has_zeros : {false, true}) {
    ModelBuilder model(21);
    model.proto.add_opset_import()->set_domain("com.microsoft");
    model.proto.mutable_opset_import(1)->set_version(1);
    constexpr int kByte = onnx::TensorProto::UINT8;
    model.Input("i", {2}, onnx::TensorProto::INT64).Output("y");
    model.Floats("s", {2, 2}, {1, 10, 100, 1000});
    *model.graph().add_initializer() = testing::RawTensor("w", kByte, {2, 2}, table);
    *model.graph().add_initializer() = testing::RawTensor("z", kByte, {2, 1}, zeros);
    std::vector<std::string> inputs{"w", "i", "s"};
    if (has_zeros) inputs.emplace_back("z");
    NodeRef node = model.Add("GatherBlockQuantized", inputs, {"y"}).Int("block_size", 2);
    node.proto().set_domain("com.microsoft");
    const Floats y = FromBytes<float>(RunModel(model, {ToBytes(Ints{1, 0})})[0]);
    if (has_zeros) {
      EXPECT_THAT(y, ElementsAre(300, 400, 4000, 5000, 1, 2, 20, 30));
    } else {
      EXPECT_THAT(y, ElementsAre(-300, -200, -1000, 0, -7, -6, -50, -40));
    }
  }
}

ModelBuilder Classical(const std::string& op, const Dims& x,
                       const std::vector<std::string>& outputs,
                       const std::function<void(NodeRef)>& set) {
  ModelBuilder model(17);
  model.proto.mutable_opset_import(0)->set_domain("ai.onnx.ml");  // the only domain
  model.proto.mutable_opset_import(0)->set_version(1);
  model.Input("x", x);
  for (const std::string& output : outputs) model.Output(output);
  NodeRef node = model.Add(op, {"x"}, outputs);
  node.proto().set_domain("ai.onnx.ml");
  set(node);
  return model;
}

TEST(ClassicalModels, ScaleAndNormalize) {
  const Bytes x = ToBytes(Floats{1, 2, -4, 0, 0, 0});
  const auto scaler = Classical("Scaler", {2, 3}, {"y"}, [](NodeRef n) {
    n.Floats("offset", {1, 1, 1}).Floats("scale", {1, 2, 3});
  });
  EXPECT_THAT(FromBytes<float>(RunModel(scaler, {x})[0]), ElementsAre(0, 2, -15, -1, -2, -3));
  const auto norm = [&](const std::string& name) {
    const auto model =
        Classical("Normalizer", {2, 3}, {"y"}, [&](NodeRef n) { n.Text("norm", name); });
    return FromBytes<float>(RunModel(model, {x})[0]);
  };
  EXPECT_THAT(norm("MAX"), ElementsAre(0.5, 1, -2, 0, 0, 0));
  EXPECT_THAT(norm("L1"),
              Pointwise(FloatNear(1e-6F), Floats{1 / 7.0F, 2 / 7.0F, -4 / 7.0F, 0, 0, 0}));
  EXPECT_THAT(norm("L2")[2], FloatNear(-4 / std::sqrt(21.0F), 1e-6F));
}

TEST(ClassicalModels, LinearClassifierHasLabelsAndScores) {
  const auto model = Classical("LinearClassifier", {2, 2}, {"label", "scores"}, [](NodeRef n) {
    n.Floats("coefficients", {1, 0, 0, 1, -1, -1}).Floats("intercepts", {0, 0, 1});
    n.Ints("classlabels_ints", {4, 7, 9});
  });
  const auto outputs = RunModel(model, {ToBytes(Floats{3, 1, -2, -1})});
  EXPECT_THAT(FromBytes<std::int64_t>(outputs[0]), ElementsAre(4, 9));
  EXPECT_THAT(FromBytes<float>(outputs[1]), ElementsAre(3, 1, -3, -2, -1, 4));
}

/// A tree: x0 <= 0.5, then x1 < 2 on the way "yes"; the leaves 2, 3, 4 give 1, 10, 100.
void SetTree(NodeRef n, const std::string& kind, const Ints& ids) {
  n.Ints("nodes_treeids", {0, 0, 0, 0, 0}).Ints("nodes_nodeids", {0, 1, 2, 3, 4});
  n.Ints("nodes_featureids", {0, 1, 0, 0, 0}).Floats("nodes_values", {0.5F, 2, 0, 0, 0});
  n.Ints("nodes_truenodeids", {1, 2, 0, 0, 0}).Ints("nodes_falsenodeids", {4, 3, 0, 0, 0});
  n.Ints("nodes_missing_value_tracks_true", {1, 0, 0, 0, 0});
  onnx::AttributeProto& modes = *n.proto().add_attribute();
  modes.set_name("nodes_modes");
  modes.set_type(onnx::AttributeProto::STRINGS);
  for (const char* const mode : {"BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF", "LEAF"}) {
    modes.add_strings(mode);
  }
  n.Ints(kind + "_treeids", {0, 0, 0}).Ints(kind + "_nodeids", {2, 3, 4});
  n.Ints(kind + "_ids", ids).Floats(kind + "_weights", {1, 10, 100});
}

TEST(ClassicalModels, TreesDecide) {
  const float nan = std::nanf("");
  const Bytes x = ToBytes(Floats{0.5F, 1, 0, 2, 1, 0, nan, 0, 0, nan});
  const auto regressor = Classical("TreeEnsembleRegressor", {5, 2}, {"y"}, [](NodeRef n) {
    SetTree(n, "target", {0, 0, 0});
    n.Int("n_targets", 1).Floats("base_values", {0.5F});
  });
  EXPECT_THAT(FromBytes<float>(RunModel(regressor, {x})[0]),
              ElementsAre(1.5, 10.5, 100.5, 1.5, 10.5));
  const auto classifier =
      Classical("TreeEnsembleClassifier", {5, 2}, {"label", "scores"}, [](NodeRef n) {
        SetTree(n, "class", {0, 1, 2});
        n.Ints("classlabels_int64s", {4, 7, 9});
      });
  const auto outputs = RunModel(classifier, {x});
  EXPECT_THAT(FromBytes<std::int64_t>(outputs[0]), ElementsAre(4, 7, 9, 4, 7));
  EXPECT_THAT(FromBytes<float>(outputs[1]),
              ElementsAre(1, 0, 0, 0, 10, 0, 0, 0, 100, 1, 0, 0, 0, 10, 0));
}

TEST(ClassicalModels, TreesThatLeadNowhereOrBackAreRefused) {
  const auto with = [](const Ints& yes) {
    return Classical("TreeEnsembleRegressor", {1, 2}, {"y"}, [&](NodeRef n) {
      SetTree(n, "target", {0, 0, 0});
      for (onnx::AttributeProto& attribute : *n.proto().mutable_attribute()) {
        if (attribute.name() != "nodes_truenodeids") continue;
        for (std::size_t i = 0; i < yes.size(); ++i)
          attribute.set_ints(static_cast<int>(i), yes[i]);
      }
    });
  };
  EXPECT_THAT(MessageOf(with({8}).Import(), ErrorCode::kInvalidArgument),
              HasSubstr("tree 0 has no node 8"));
  EXPECT_THAT(MessageOf(with({1, 1}).Import(), ErrorCode::kUnimplemented),
              HasSubstr("leads back to a node"));
  const auto text = Classical("LinearClassifier", {1, 1}, {"label", "scores"}, [](NodeRef n) {
    n.Floats("coefficients", {1, 2});
  });
  EXPECT_THAT(MessageOf(text.Import(), ErrorCode::kUnimplemented),
              HasSubstr("labels that are text are not supported"));
}

}  // namespace
}  // namespace lagoon
