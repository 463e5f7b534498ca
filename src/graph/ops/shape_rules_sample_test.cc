// RoiAlign, GridSample and the attributes of recurrent ops.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "graph/testing/model_builder.h"
#include "graph/testing/one_node.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using testing::ModelBuilder;
using testing::NodeRef;
using testing::OneNode;

OneNode Roi(const Dims& x, const Dims& regions, const std::vector<std::int64_t>& images,
            std::int64_t opset = 16) {
  OneNode node{"RoiAlign", x, {"rois", "images"}};
  node.opset = opset;
  node.prepare = [=](ModelBuilder& model) {
    model.Weights("rois", regions).Ints("images", images);
  };
  node.configure = [](NodeRef ref) { ref.Int("output_height", 3).Int("output_width", 5); };
  return node;
}

TEST(InferRoiAlign, OneImageForEachRegion) {
  EXPECT_EQ(Roi({2, 7, 20, 30}, {4, 4}, {0, 1, 0, 1}).OutputDims(), (Dims{4, 7, 3, 5}));
  const Node old = Roi({2, 7, 20, 30}, {1, 4}, {0}, 13).Imported();
  EXPECT_EQ(old.String("coordinate_transformation_mode", ""), "output_half_pixel");
}

TEST(InferRoiAlign, NamesWhatDoesNotFit) {
  EXPECT_THAT(Roi({2, 7, 20}, {4, 4}, {0, 1, 0, 1}).Invalid(), HasSubstr("[2,7,20]"));
  EXPECT_THAT(Roi({2, 7, 20, 30}, {4, 5}, {0, 1, 0, 1}).Invalid(), HasSubstr("[4,5]"));
  EXPECT_THAT(Roi({2, 7, 20, 30}, {4, 4}, {0, 1}).Invalid(), HasSubstr("batch_indices [2]"));
  OneNode node = Roi({2, 7, 20, 30}, {1, 4}, {0});
  node.configure = [](NodeRef ref) { ref.Int("output_height", 0); };
  EXPECT_THAT(node.Invalid(), HasSubstr("output_height 0"));
  node.configure = [](NodeRef ref) { ref.Int("sampling_ratio", 100000); };
  EXPECT_THAT(node.Invalid(), HasSubstr("sampling_ratio 100000"));
  node.configure = [](NodeRef ref) { ref.Text("mode", "median"); };
  EXPECT_THAT(node.Invalid(), HasSubstr("mode 'median' is not known"));
}

OneNode Grid(const Dims& x, const Dims& grid, const char* mode = "bilinear") {
  OneNode node{"GridSample", x, {"grid"}};
  node.opset = 16;
  node.prepare = [=](ModelBuilder& model) { model.Weights("grid", grid); };
  node.configure = [=](NodeRef ref) { ref.Text("mode", mode); };
  return node;
}

TEST(InferGridSample, OnePixelForEachPlace) {
  EXPECT_EQ(Grid({2, 7, 20, 30}, {2, 4, 9, 2}).OutputDims(), (Dims{2, 7, 4, 9}));
  EXPECT_EQ(Grid({1, 3, 4, 5, 6}, {1, 7, 8, 9, 3}).OutputDims(), (Dims{1, 3, 7, 8, 9}));
  EXPECT_EQ(Grid({2, 7, 20, 30}, {2, 4, 9, 2}, "bicubic").Imported().String("mode", ""), "cubic");
}

TEST(InferGridSample, NamesWhatDoesNotFit) {
  EXPECT_THAT(Grid({2, 7, 20, 30}, {2, 4, 9, 3}).Invalid(), HasSubstr("grid [2,4,9,3]"));
  EXPECT_THAT(Grid({2, 7, 20, 30}, {1, 4, 9, 2}).Invalid(), HasSubstr("grid [1,4,9,2]"));
  EXPECT_THAT(Grid({2, 7, 20, 30}, {2, 4, 9, 2}, "round").Invalid(), HasSubstr("mode 'round'"));
  EXPECT_THAT(Grid({2, 7, 20}, {2, 4, 1}).Unimplemented(), HasSubstr("2 and 3 spatial axes"));
  EXPECT_THAT(Grid({1, 3, 4, 5, 6}, {1, 7, 8, 9, 3}, "bicubic").Unimplemented(),
              HasSubstr("2 spatial axes only"));
}

OneNode Lstm(const std::function<void(NodeRef)>& configure) {
  OneNode node{"LSTM", {4, 2, 3}, {"w", "r"}};
  node.opset = 14;
  node.prepare = [](ModelBuilder& model) {
    model.Weights("w", {1, 20, 3}).Weights("r", {1, 20, 5});
  };
  node.configure = configure;
  return node;
}

TEST(InferRecurrent, NamesBadAttributes) {
  EXPECT_THAT(Lstm([](NodeRef ref) { ref.Float("clip", -1); }).Invalid(), HasSubstr("clip is -1"));
  EXPECT_THAT(Lstm([](NodeRef ref) { ref.Int("input_forget", 2); }).Invalid(),
              HasSubstr("input_forget is 2"));
}

TEST(InferRecurrent, EachFunctionHasItsParameters) {
  const Node node = Lstm([](NodeRef) {}).Imported();
  EXPECT_EQ(std::get<std::vector<std::string>>(node.attributes.at("activations")),
            (std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}));
  EXPECT_EQ(std::get<std::vector<float>>(node.attributes.at("activation_alpha")).size(), 3u);
}

}  // namespace
}  // namespace lagoon
