// Conv, matrices, batch-norm and pooling: shapes, normal forms and refusals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/one_node.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ModelBuilder;
using testing::NodeRef;
using testing::OneNode;
using Ints = std::vector<std::int64_t>;

// Conv.

OneNode Conv(const Dims& x, const Dims& w, std::function<void(NodeRef)> configure) {
  return {"Conv", x, {"w"}, [=](ModelBuilder& m) { m.Weights("w", w); }, std::move(configure)};
}

TEST(ConvShape, FollowsStridesPadsAndDilations) {
  EXPECT_EQ(Conv({1, 3, 224, 224}, {64, 3, 7, 7},
                 [](NodeRef n) {
                   n.Ints("strides", {2, 2}).Ints("pads", {3, 3, 3, 3});
                 })
                .OutputDims(),
            (Dims{1, 64, 112, 112}));
  EXPECT_EQ(Conv({2, 4, 10, 12}, {6, 2, 3, 1},
                 [](NodeRef n) {
                   n.Int("group", 2).Ints("dilations", {2, 1}).Ints("pads", {1, 0, 2, 3});
                 })
                .OutputDims(),
            (Dims{2, 6, 9, 15}));
}

TEST(ConvShape, FillsInAttributes) {
  const Node node = Conv({1, 1, 4, 5}, {1, 1, 2, 3}, [](NodeRef) {}).Imported();
  EXPECT_THAT(node.Ints("kernel_shape", {}), ElementsAre(2, 3));
  EXPECT_THAT(node.Ints("strides", {}), ElementsAre(1, 1));
  EXPECT_THAT(node.Ints("dilations", {}), ElementsAre(1, 1));
  EXPECT_THAT(node.Ints("pads", {}), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(node.Int("group", -1), 1);
}

Node AutoPadded(const std::string& mode, const Dims& x, const Ints& strides) {
  return Conv(x, {1, 1, 3, 4},
              [=](NodeRef n) { n.Text("auto_pad", mode).Ints("strides", strides); })
      .Imported();
}

TEST(ConvShape, ResolvesAutoPad) {
  // Height 5 with a kernel of 3 needs 2 pixels of padding in total; width 6 with a kernel of 4
  // needs 3.
  const Node upper = AutoPadded("SAME_UPPER", {1, 1, 5, 6}, {1, 1});
  EXPECT_THAT(upper.Ints("pads", {}), ElementsAre(1, 1, 1, 2));
  EXPECT_FALSE(upper.attributes.contains("auto_pad"));
  const Node lower = AutoPadded("SAME_LOWER", {1, 1, 5, 6}, {1, 1});
  EXPECT_THAT(lower.Ints("pads", {}), ElementsAre(1, 2, 1, 1));
  EXPECT_THAT(AutoPadded("VALID", {1, 1, 5, 6}, {1, 1}).Ints("pads", {}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(AutoPadded("SAME_UPPER", {1, 1, 7, 9}, {2, 3}).Ints("pads", {}),
              ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(AutoPadded("NOTSET", {1, 1, 5, 6}, {1, 1}).Ints("pads", {}), ElementsAre(0, 0, 0, 0));
}

TEST(ConvShape, OfSamePaddingIsTheInputOverTheStride) {
  EXPECT_EQ(Conv({1, 1, 7, 9}, {1, 1, 3, 4},
                 [](NodeRef n) {
                   n.Text("auto_pad", "SAME_UPPER").Ints("strides", {2, 3});
                 })
                .OutputDims(),
            (Dims{1, 1, 4, 3}));
}

TEST(ConvShape, RefusesContradictions) {
  const auto nothing = [](NodeRef) {};
  EXPECT_THAT(Conv({1, 3, 8, 8}, {4, 2, 3, 3}, nothing).Invalid(),
              AllOf(HasSubstr("node 'n' (Conv, opset 13)"), HasSubstr("[1,3,8,8]"),
                    HasSubstr("[4,2,3,3]")));
  EXPECT_THAT(Conv({1, 4, 8, 8}, {4, 2, 3, 3}, [](NodeRef n) { n.Int("group", 0); }).Invalid(),
              HasSubstr("0 groups"));
  EXPECT_THAT(
      Conv({1, 4, 8, 8}, {4, 2, 3, 3}, [](NodeRef n) { n.Int("group", INT64_MIN); }).Invalid(),
      HasSubstr("groups"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("kernel_shape", {3, 2});
                   })
                  .Invalid(),
              HasSubstr("kernel_shape [3,2]"));
  EXPECT_THAT(Conv({1, 2, 2, 8}, {4, 2, 3, 3}, nothing).Invalid(), HasSubstr("does not fit"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("strides", {0, 1});
                   })
                  .Invalid(),
              HasSubstr("strides [0,1]"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("pads", {0, -1, 0, 0});
                   })
                  .Invalid(),
              HasSubstr("pads [0,-1,0,0]"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("pads", {1, 1});
                   })
                  .Invalid(),
              HasSubstr("2 pads"));
  EXPECT_THAT(Conv({1, 2, 8, 8}, {4, 2, 3, 3},
                   [](NodeRef n) {
                     n.Ints("pads", {1, 1, 1, 1}).Text("auto_pad", "VALID");
                   })
                  .Invalid(),
              HasSubstr("both auto_pad"));
}

TEST(ConvShape, RefusesWhatIsNotSupported) {
  const auto nothing = [](NodeRef) {};
  EXPECT_EQ(Conv({1, 3, 8}, {4, 3, 3}, nothing).OutputDims(), (Dims{1, 4, 6}));
  EXPECT_THAT(Conv({1, 3, 8}, {4, 3, 3, 3}, nothing).Invalid(), HasSubstr("[4,3,3,3]"));
  EXPECT_THAT(Conv({1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, nothing).Unimplemented(),
              HasSubstr("1 to 3 spatial axes"));
  EXPECT_THAT(Conv({1, 3, 8, 8}, {4, 3, 3, 3}, [](NodeRef n) { n.Text("auto_pad", "SAME"); })
                  .Unimplemented(),
              HasSubstr("auto_pad 'SAME'"));
}

TEST(ConvShape, IsPackedWhereTheWeightsAreConstantsOfFp32) {
  EXPECT_TRUE(Conv({1, 1, 3, 3}, {1, 1, 1, 1}, [](NodeRef) {}).Imported().packed);
  EXPECT_TRUE(Conv({1, 1, 3}, {1, 1, 1}, [](NodeRef) {}).Imported().packed);
  EXPECT_TRUE(Conv({1, 1, 3, 3, 3}, {1, 1, 1, 1, 1}, [](NodeRef) {}).Imported().packed);
  EXPECT_FALSE((OneNode{"Conv", {1, 1, 3, 3}, {"x"}}).Imported().packed);
  ModelBuilder half;
  half.Input("x", {1, 1, 3, 3}, onnx::TensorProto::FLOAT16).Output("y");
  *half.graph().add_initializer() =
      testing::RawTensor<std::uint16_t>("w", onnx::TensorProto::FLOAT16, {1, 1, 1, 1}, {0x3c00});
  half.Add("Conv", {"x", "w"}, {"y"});
  const Result<Graph> graph = half.Import();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_FALSE(graph->nodes[0].packed);
}

TEST(ConvTransposeShape, InvertsConv) {
  OneNode node{"ConvTranspose", {1, 2, 5, 5}, {"w"}, [](ModelBuilder& m) {
                 m.Weights("w", {2, 3, 3, 3});
               }};
  EXPECT_EQ(node.OutputDims(), (Dims{1, 3, 7, 7}));
  node.configure = [](NodeRef n) {
    n.Ints("strides", {2, 2}).Ints("pads", {1, 1, 1, 1}).Ints("output_padding", {1, 0});
  };
  EXPECT_EQ(node.OutputDims(), (Dims{1, 3, 10, 9}));
  node.configure = [](NodeRef n) { n.Ints("strides", {2, 2}).Ints("output_shape", {10, 12}); };
  EXPECT_EQ(node.OutputDims(), (Dims{1, 3, 10, 12}));
  EXPECT_THAT(node.Imported().Ints("pads", {}), ElementsAre(1, 0, 0, -1));
  node.configure = [](NodeRef n) {
    n.Ints("strides", {2, 2}).Ints("output_shape", {10, 12}).Text("auto_pad", "SAME_UPPER");
  };
  EXPECT_THAT(node.Imported().Ints("pads", {}), ElementsAre(0, 0, 1, -1));
}

TEST(ConvShape, ChecksTheBias) {
  OneNode conv = Conv({1, 1, 3, 3}, {4, 1, 1, 1}, [](NodeRef) {});
  conv.parameters = {"w", "b"};
  conv.prepare = [](ModelBuilder& m) { m.Weights("w", {4, 1, 1, 1}).Weights("b", {3}); };
  EXPECT_THAT(conv.Invalid(), AllOf(HasSubstr("bias 'b'"), HasSubstr("[3]"), HasSubstr("[4]")));
}

// Matrices.

OneNode Gemm(const Dims& x, const Dims& b, const Dims& c, std::function<void(NodeRef)> configure) {
  return {"Gemm",
          x,
          {"b", "c"},
          [=](ModelBuilder& m) { m.Weights("b", b).Weights("c", c); },
          std::move(configure)};
}

TEST(GemmShape, FollowsTransB) {
  const auto nothing = [](NodeRef) {};
  const auto transposed = [](NodeRef n) { n.Int("transB", 1); };
  EXPECT_EQ(Gemm({2, 3}, {3, 5}, {5}, nothing).OutputDims(), (Dims{2, 5}));
  EXPECT_EQ(Gemm({2, 3}, {5, 3}, {1, 5}, transposed).OutputDims(), (Dims{2, 5}));
  EXPECT_EQ(Gemm({2, 3}, {5, 3}, {}, transposed).OutputDims(), (Dims{2, 5}));
  EXPECT_THAT(Gemm({2, 3}, {3, 5}, {5}, transposed).Invalid(),
              AllOf(HasSubstr("[2,3]"), HasSubstr("[3,5]")));
  EXPECT_THAT(Gemm({2, 3, 1}, {3, 5}, {5}, nothing).Invalid(), HasSubstr("matrices"));
}

TEST(GemmShape, IsPackedWhereCIsOneRow) {
  const auto nothing = [](NodeRef) {};
  const OneNode flipped = Gemm({3, 2}, {3, 5}, {5}, [](NodeRef n) { n.Int("transA", 1); });
  EXPECT_EQ(flipped.OutputDims(), (Dims{2, 5}));
  EXPECT_FALSE(flipped.Imported().packed);
  EXPECT_TRUE(Gemm({2, 3}, {3, 5}, {1, 5}, nothing).Imported().packed);
  EXPECT_FALSE(Gemm({2, 3}, {3, 5}, {2, 5}, nothing).Imported().packed);
  EXPECT_THAT(Gemm({2, 3}, {3, 5}, {4}, nothing).Invalid(), HasSubstr("[4]"));
  EXPECT_THAT(Gemm({2, 3}, {3, 5}, {7, 2, 5}, nothing).Invalid(), HasSubstr("C [7,2,5]"));
}

TEST(MatMulShape, TakesBatchesOnTheLeft) {
  const auto matmul = [](const Dims& x, const Dims& w) {
    return OneNode{"MatMul", x, {"w"}, [=](ModelBuilder& m) { m.Weights("w", w); }};
  };
  EXPECT_EQ(matmul({2, 3}, {3, 5}).OutputDims(), (Dims{2, 5}));
  EXPECT_EQ(matmul({4, 7, 2, 3}, {3, 5}).OutputDims(), (Dims{4, 7, 2, 5}));
  EXPECT_THAT(matmul({2, 3}, {4, 5}).Invalid(), HasSubstr("does not match"));
  EXPECT_EQ(matmul({2, 3}, {2, 3, 5}).OutputDims(), (Dims{2, 2, 5}));
  EXPECT_EQ(matmul({4, 1, 2, 3}, {7, 3, 5}).OutputDims(), (Dims{4, 7, 2, 5}));
  EXPECT_EQ(matmul({3}, {3, 5}).OutputDims(), Dims{5});
  EXPECT_EQ(matmul({2, 3}, {3}).OutputDims(), Dims{2});
  EXPECT_EQ(matmul({3}, {3}).OutputDims(), Dims{});
  EXPECT_TRUE(matmul({2, 3}, {3, 5}).Imported().packed);
  EXPECT_FALSE(matmul({2, 3}, {2, 3, 5}).Imported().packed);
  EXPECT_FALSE((OneNode{"MatMul", {3, 3}, {"x"}}).Imported().packed);
}

OneNode BatchNorm(const Dims& x, std::int64_t channels, std::int64_t opset = 13) {
  OneNode node{"BatchNormalization", x, {"s", "b", "m", "v"}, [=](ModelBuilder& m) {
                 for (const char* name : {"s", "b", "m", "v"}) m.Weights(name, {channels});
               }};
  node.opset = opset;
  return node;
}

TEST(BatchNormalizationShape, KeepsTheInput) {
  EXPECT_EQ(BatchNorm({2, 3, 4, 5}, 3).OutputDims(), (Dims{2, 3, 4, 5}));
  EXPECT_FLOAT_EQ(BatchNorm({2, 3}, 3).Imported().Float("epsilon", 0), 1e-5f);
  EXPECT_THAT(BatchNorm({2, 3, 4, 5}, 4).Invalid(),
              AllOf(HasSubstr("scale 's'"), HasSubstr("[4]")));
  EXPECT_THAT(BatchNorm({3}, 3).Invalid(), HasSubstr("no channels"));
}

TEST(BatchNormalizationShape, RefusesTraining) {
  OneNode node = BatchNorm({2, 3, 4, 5}, 3, 15);
  node.configure = [](NodeRef n) { n.Int("training_mode", 1); };
  EXPECT_THAT(node.Unimplemented(), HasSubstr("training_mode"));
  OneNode outputs = BatchNorm({2, 3, 4, 5}, 3, 9);
  outputs.outputs = 5;
  EXPECT_THAT(outputs.Unimplemented(), HasSubstr("has 5 outputs"));
}

// Pooling.

OneNode Pool(const std::string& op, const Dims& x, std::function<void(NodeRef)> configure) {
  return {op, x, {}, [](ModelBuilder&) {}, std::move(configure)};
}

TEST(PoolShape, RoundsDownByDefault) {
  const auto three_by_two = [](NodeRef n) {
    n.Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Ints("pads", {1, 1, 1, 1});
  };
  EXPECT_EQ(Pool("MaxPool", {1, 8, 112, 112}, three_by_two).OutputDims(), (Dims{1, 8, 56, 56}));
  EXPECT_EQ(Pool("AveragePool", {1, 8, 7, 8}, three_by_two).OutputDims(), (Dims{1, 8, 4, 4}));
}

TEST(PoolShape, ResolvesCeilModeIntoPads) {
  const OneNode pool = Pool("MaxPool", {1, 2, 55, 54}, [](NodeRef n) {
    n.Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Int("ceil_mode", 1);
  });
  EXPECT_EQ(pool.OutputDims(), (Dims{1, 2, 27, 27}));
  const Node node = pool.Imported();
  EXPECT_THAT(node.Ints("pads", {}), ElementsAre(0, 0, 0, 1));
  EXPECT_FALSE(node.attributes.contains("ceil_mode"));
}

TEST(PoolShape, DropsAWindowThatHoldsOnlyPadding) {
  // Without padding, windows start at 0 and 3; 3 is behind the image.
  const OneNode pool = Pool("MaxPool", {1, 1, 3, 3}, [](NodeRef n) {
    n.Ints("kernel_shape", {1, 1}).Ints("strides", {3, 3}).Int("ceil_mode", 1);
  });
  EXPECT_EQ(pool.OutputDims(), (Dims{1, 1, 1, 1}));
}

TEST(PoolShape, CountsDilatedExtents) {
  EXPECT_EQ(Pool("MaxPool", {1, 1, 9, 9},
                 [](NodeRef n) {
                   n.Ints("kernel_shape", {3, 3}).Ints("dilations", {2, 3});
                 })
                .OutputDims(),
            (Dims{1, 1, 5, 3}));
}

TEST(PoolShape, RefusesWhatIsNotSupported) {
  EXPECT_EQ(Pool("MaxPool", {1, 1, 9}, [](NodeRef n) { n.Ints("kernel_shape", {3}); }).OutputDims(),
            (Dims{1, 1, 7}));
  EXPECT_THAT(Pool("MaxPool", {1, 9}, [](NodeRef n) { n.Ints("kernel_shape", {3}); }).Invalid(),
              HasSubstr("[1,9]"));
  EXPECT_THAT(Pool("MaxPool", {1, 1, 9, 9}, [](NodeRef) {}).Invalid(),
              HasSubstr("no kernel_shape"));
  EXPECT_THAT(Pool("MaxPool", {1, 1, 9, 9},
                   [](NodeRef n) {
                     n.Ints("kernel_shape", {2, 2}).Ints("pads", {2, 0, 0, 0});
                   })
                  .Invalid(),
              HasSubstr("as large as the window"));
  OneNode old = Pool("MaxPool", {1, 1, 6, 6}, [](NodeRef n) {
    n.Ints("kernel_shape", {3, 3}).Int("ceil_mode", 1);
  });
  old.opset = 9;
  EXPECT_THAT(old.Invalid(), HasSubstr("opset 10"));
}

TEST(PoolShape, PaddingThatCeilModeAddsDoesNotCount) {
  const Node node = Pool("AveragePool", {1, 1, 6, 6}, [](NodeRef n) {
                      n.Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2}).Int("ceil_mode", 1);
                      n.Ints("pads", {0, 1, 0, 0}).Int("count_include_pad", 1);
                    }).Imported();
  EXPECT_THAT(node.Ints("pads", {}), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(node.Ints("counted_pads", {}), ElementsAre(0, 1, 0, 0));
}

TEST(PoolShape, OfGlobalPoolingIsOnePixel) {
  EXPECT_EQ(Pool("GlobalAveragePool", {2, 5, 7, 7}, [](NodeRef) {}).OutputDims(),
            (Dims{2, 5, 1, 1}));
  EXPECT_EQ(Pool("GlobalMaxPool", {2, 5, 7, 7}, [](NodeRef) {}).OutputDims(), (Dims{2, 5, 1, 1}));
  EXPECT_EQ(Pool("GlobalAveragePool", {2, 5, 7}, [](NodeRef) {}).OutputDims(), (Dims{2, 5, 1}));
  EXPECT_THAT(Pool("GlobalAveragePool", {2, 5}, [](NodeRef) {}).Invalid(), HasSubstr("[2,5]"));
}

}  // namespace
}  // namespace lagoon
