// Requests with a size of 0, which are answered with as little, and what counts as a row.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Opens all dims of all inputs and outputs.
onnx::ModelProto WithOpenDims(onnx::ModelProto model) {
  for (auto* values :
       {model.mutable_graph()->mutable_input(), model.mutable_graph()->mutable_output()}) {
    for (onnx::ValueInfoProto& value : *values) {
      auto& type = *value.mutable_type()->mutable_tensor_type();
      for (auto& dim : *type.mutable_shape()->mutable_dim()) dim.clear_value();
    }
  }
  return model;
}

onnx::ModelProto OpenRelu(std::size_t rank) {
  const Dims dims(rank, 1);
  return WithOpenDims(
      OnnxBuilder().Input("x", dims).Node("Relu", {"x"}, "y").Output("y", dims).Build());
}

std::size_t Elements(const Dims& dims) {
  std::size_t elements = 1;
  for (const std::int64_t dim : dims) elements *= static_cast<std::size_t>(dim);
  return elements;
}

class ZeroSizesTest : public CoreTest, public ::testing::WithParamInterface<std::string> {
 protected:
  /// Asks the model for `dims` of ones and expects as many, of the shape `expected`.
  void ExpectOnes(const std::string& model, const Dims& dims, const Dims& expected) {
    SCOPED_TRACE(model + " " + ToString(dims));
    const Answer answer = Ask(RequestFor(model, dims, std::vector<float>(Elements(dims), 1)));
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_EQ(answer->outputs[0].dims, expected);
    EXPECT_EQ(Floats(answer->outputs[0]), std::vector<float>(Elements(expected), 1));
  }
};

TEST_P(ZeroSizesTest, AreAnsweredAsAnyOther) {
  repository_.AddModel("vector", OpenRelu(1));
  repository_.AddModel("matrix", OpenRelu(2), kRealTime);
  repository_.AddModel("images", OpenRelu(4));
  repository_.AddModel("product",
                       WithOpenDims(OnnxBuilder()
                                        .Input("x", {1, 1})
                                        .Constant("w", {2, 3}, std::vector<float>(6, 0.5))
                                        .Node("MatMul", {"x", "w"}, "y")
                                        .Output("y", {1, 1})
                                        .Build()));
  Open(GetParam());
  for (int again = 0; again < 2; ++again) {
    for (const Dims& dims : {Dims{0}, {3}}) ExpectOnes("vector", dims, dims);
    for (const Dims& dims : {Dims{0, 5}, {0, 0}, {1, 0}, {3, 0}, {2, 3}}) {
      ExpectOnes("matrix", dims, dims);
    }
    for (const Dims& dims : {Dims{0, 3, 8, 8}, {1, 3, 0, 8}}) ExpectOnes("images", dims, dims);
    for (const std::int64_t rows : {0, 4}) ExpectOnes("product", {rows, 2}, {rows, 3});
  }
  EXPECT_EQ(StatisticsOf("matrix").success.count, 10u);
}

INSTANTIATE_TEST_SUITE_P(Schedulers, ZeroSizesTest, ::testing::Values("reset", "lagoon", "edf"),
                         [](const auto& of) { return of.param; });

class RowsTest : public CoreTest {};

TEST_F(RowsTest, AnEmptyBatchIsRefused) {
  repository_.AddModel("batch", SmallBatchModel(), "max_batch_size: 5");
  Open();
  const Answer refused = Ask(RequestFor("batch", {0, 4}, {}));
  ASSERT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("a batch of 0; the model takes 1 to 5"));
}

TEST_F(RowsTest, ASizeOf0DoesNotExcuseOneThatNothingCanHold) {
  repository_.AddModel("images", OpenRelu(4));
  Open();
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  for (const Dims& dims : {Dims{0, kHuge, kHuge, 1}, {kHuge, 1, kHuge, 0}, {kHuge, kHuge, 0, 0}}) {
    const Answer refused = Ask(RequestFor("images", dims, {}));
    ASSERT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("more than"));
  }
}

/// Whatever the answer is, the server must live on.
TEST_F(RowsTest, NoOpEndsTheServerWhereASizeIs0) {
  const char* const ops[] = {"ArgMax",          "Det",     "Flatten",   "LogSoftmax",
                             "LpNormalization", "NonZero", "ReduceMax", "ReduceMean",
                             "ReduceProd",      "Softmax", "Transpose", "Unique"};
  for (const char* op : ops) {
    onnx::ModelProto model =
        WithOpenDims(OnnxBuilder().Input("x", {1, 1}).Node(op, {"x"}, "y").Build());
    model.mutable_graph()->add_output()->set_name("y");
    repository_.AddModel(op, model);
  }
  repository_.AddModel("small", SmallModel());
  Open();
  int answered = 0;
  for (const char* op : ops) {
    for (const Dims& dims : {Dims{0, 3}, {2, 0}, {0, 0}}) {
      SCOPED_TRACE(std::string(op) + " " + ToString(dims));
      const Answer answer = Ask(RequestFor(op, dims, {}));
      if (answer) {
        ++answered;
      } else {
        EXPECT_NE(CodeOf(answer), ErrorCode::kInternal) << answer.error().message;
      }
    }
  }
  EXPECT_GT(answered, 12);
  EXPECT_EQ(CodeOf(Ask(SmallRequest())), std::nullopt);
}

TEST_F(RowsTest, WithoutABatchDimensionARequestIsOneRow) {
  // The first dim of an image in the form channels, height, width.
  repository_.AddModel(
      "fixed",
      OnnxBuilder().Input("x", {3, 4, 5}).Node("Relu", {"x"}, "y").Output("y", {3, 4, 5}).Build());
  repository_.AddModel("open", OpenRelu(3));
  repository_.AddModel("batch", SmallBatchModel(), "max_batch_size: 5");
  Open();
  for (const char* model : {"fixed", "open"}) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(Ask(RequestFor(model, {3, 4, 5}, std::vector<float>(60, 1))));
    }
    const ModelStatistics statistics = StatisticsOf(model);
    EXPECT_EQ(statistics.inference_count, 2u) << model;
    EXPECT_EQ(statistics.execution_count, 2u) << model;
    ASSERT_EQ(statistics.batches.size(), 1u) << model;
    EXPECT_EQ(statistics.batches[0].batch_size, 1u) << model;
  }
  ASSERT_TRUE(Ask(RequestFor("batch", {3, 4}, std::vector<float>(12, 1))));
  EXPECT_EQ(StatisticsOf("batch").inference_count, 3u);
}

TEST_F(RowsTest, ABatchDimensionNeedsAnInput) {
  repository_.AddModel("none",
                       OnnxBuilder()
                           .Constant("c", {1, 2}, {1, 2})
                           .Node("Relu", {"c"}, "y")
                           .Output("y", {1, 2})
                           .Build(),
                       "max_batch_size: 1");
  Open();
  EXPECT_THAT(ReasonOf("none"), HasSubstr("no input whose first dim could be the batch"));
}

}  // namespace
}  // namespace lagoon
