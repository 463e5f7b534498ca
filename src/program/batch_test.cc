// One loaded plan that serves several batch sizes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "graph/testing/model_builder.h"
#include "program/compile.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using testing::MakeDevice;
using testing::ModelBuilder;
using testing::TempFolder;

/// Names the first dimension of an input "rows".
void OpenBatch(ModelBuilder& model, int input = 0) {
  model.graph()
      .mutable_input(input)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("rows");
}

/// A small CNN as exporters write it: with separate batch-norms, and a flattening that reads the
/// shape.
ModelBuilder SmallCnn() {
  ModelBuilder model;
  model.Input("x", {1, 3, 9, 9}).Output("y");
  OpenBatch(model);
  model.Weights("w1", {32, 3, 3, 3}).Weights("w2", {32, 1, 3, 3}).Weights("w3", {40, 32, 1, 1});
  for (const char* parameter : {"gamma", "beta", "mean"}) model.Weights(parameter, {32});
  model.Floats("var", {32}, std::vector<float>(32, 0.7F));
  model.Add("Conv", {"x", "w1"}, {"c1"}).Ints("kernel_shape", {3, 3}).Ints("strides", {2, 2});
  model.Add("BatchNormalization", {"c1", "gamma", "beta", "mean", "var"}, {"b1"});
  model.Add("Relu", {"b1"}, {"r1"});
  model.Add("Conv", {"r1", "w2"}, {"c2"}).Ints("kernel_shape", {3, 3}).Int("group", 32);
  model.Add("Conv", {"c2", "w3"}, {"c3"}).Ints("kernel_shape", {1, 1});
  model.Add("Shape", {"c3"}, {"shape"});
  model.Ints("first", {0}).Ints("rest", {-1});
  model.Add("Gather", {"shape", "first"}, {"rows"}).Int("axis", 0);
  model.Add("Concat", {"rows", "rest"}, {"flat_shape"}).Int("axis", 0);
  model.Add("Reshape", {"c3", "flat_shape"}, {"flat"});
  model.Weights("w4", {160, 48}).Weights("bias", {48});
  model.Add("Gemm", {"flat", "w4", "bias"}, {"scores"});
  model.Add("Softmax", {"scores"}, {"y"}).Int("axis", 1);
  return model;
}

/// A recurrent model. Its first states have the size of the batch, and its row axis is not always
/// the first axis.
ModelBuilder SmallTranslator() {
  ModelBuilder model;
  model.Input("ids", {1, 5}, onnx::TensorProto::INT64).Output("y");
  OpenBatch(model);
  model.Weights("table", {17, 64}).Weights("w", {2, 192, 64}).Weights("r", {2, 192, 48});
  model.Add("Gather", {"table", "ids"}, {"words"}).Int("axis", 0);
  model.Add("Transpose", {"words"}, {"steps"}).Ints("perm", {1, 0, 2});
  model.Add("LSTM", {"steps", "w", "r"}, {"all"})
      .Int("hidden_size", 48)
      .Text("direction", "bidirectional");
  model.Ints("as_is", {0, 0, -1});
  model.Add("Transpose", {"all"}, {"by_row"}).Ints("perm", {2, 0, 1, 3});
  model.Add("Reshape", {"by_row", "as_is"}, {"joined"});
  model.Weights("out", {96, 17});
  model.Add("MatMul", {"joined", "out"}, {"y"});
  return model;
}

Result<std::shared_ptr<LoadedPlan>> CompileFor(const ModelBuilder& model, Device& device,
                                               std::vector<std::int64_t> batches,
                                               const ImportOptions& import = {}) {
  const TempFolder folder;
  CompileOptions options;
  options.model = "m";
  options.import = import;
  options.batches = std::move(batches);
  return CompileModel(model.Save(folder), device, options);
}

std::vector<std::int64_t> UpTo(std::int64_t max) {
  std::vector<std::int64_t> batches(static_cast<std::size_t>(max));
  std::iota(batches.begin(), batches.end(), 1);
  return batches;
}

/// `rows` different rows for the one input.
std::vector<std::byte> MakeRows(const TensorSpec& row, std::size_t rows) {
  std::vector<std::byte> bytes(row.bytes() * rows);
  for (std::size_t i = 0; i < bytes.size() / SizeOf(row.type); ++i) {
    const auto number = static_cast<std::int64_t>((i * 29 + i / 7) % 17);
    const float real = static_cast<float>(number) / 8 - 1;
    if (row.type == DataType::kInt64) {
      std::memcpy(bytes.data() + i * sizeof(number), &number, sizeof(number));
    } else {
      std::memcpy(bytes.data() + i * sizeof(real), &real, sizeof(real));
    }
  }
  return bytes;
}

std::vector<float> RunRows(Instance& instance, Device& device, const std::byte* rows) {
  std::vector<float> y(instance.plan().outputs[0].spec.bytes() / sizeof(float), -1.0F);
  const void* const inputs[] = {rows};
  void* const outputs[] = {y.data()};
  const Status run = RunOnce(instance, device, inputs, outputs);
  EXPECT_TRUE(run) << run.error().message;
  return y;
}

/// Runs every batch size on one instance, in a mixed order, and compares every row with a run of
/// that row alone. The bits are equal, because every kernel sums a row in an order that does not
/// depend on the batch.
void ExpectRowsAsAlone(const ModelBuilder& model, std::int64_t max_batch) {
  const auto device = MakeDevice(2);
  auto loaded = CompileFor(model, *device, UpTo(max_batch));
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto instance = Instance::Create(*loaded, *device);
  ASSERT_TRUE(instance) << instance.error().message;
  const TensorSpec row = (*loaded)->plan.inputs[0].spec;
  const std::vector<std::byte> rows = MakeRows(row, static_cast<std::size_t>(max_batch));

  std::vector<float> alone;
  for (std::int64_t i = 0; i < max_batch; ++i) {
    (*instance)->Select(0);
    const auto offset = static_cast<std::size_t>(i) * row.bytes();
    const std::vector<float> y = RunRows(**instance, *device, rows.data() + offset);
    alone.insert(alone.end(), y.begin(), y.end());
  }
  EXPECT_NE(std::vector(alone.begin(), alone.begin() + 17),
            std::vector(alone.end() - 17, alone.end()));
  for (std::int64_t i = 0; i < max_batch; ++i) {
    const std::int64_t batch = i % 2 == 0 ? max_batch - i / 2 : 1 + i / 2;
    (*instance)->Select(*(*loaded)->SizeFor(batch));
    const std::vector<float> y = RunRows(**instance, *device, rows.data());
    ASSERT_EQ(y.size() * static_cast<std::size_t>(max_batch),
              alone.size() * static_cast<std::size_t>(batch));
    EXPECT_EQ(std::memcmp(y.data(), alone.data(), y.size() * sizeof(float)), 0) << batch;
  }
}

TEST(CompileBatches, RowsOfACnnAreWhatTheyAreAlone) { ExpectRowsAsAlone(SmallCnn(), 9); }

TEST(CompileBatches, RowsOfARecurrentModelAreWhatTheyAreAlone) {
  ExpectRowsAsAlone(SmallTranslator(), 5);
}

TEST(CompileBatches, SizesShareTheWeights) {
  const auto device = MakeDevice(1);
  for (const ModelBuilder& model : {SmallCnn(), SmallTranslator()}) {
    const auto one = CompileFor(model, *device, {1});
    const auto eight = CompileFor(model, *device, {1, 5, 8});
    ASSERT_TRUE(one && eight);
    // Only first states and similar constants grow with the batch.
    if (kArgsImagesCompare) {
      EXPECT_LE((*eight)->weights.size(), (*one)->weights.size() * 103 / 100);
    }
    ASSERT_EQ((*eight)->sizes(), 3U);
    for (std::size_t size = 0; size < 3; ++size) {
      const Plan& plan = (*eight)->at(size);
      EXPECT_EQ(plan.batch, (std::vector{1, 5, 8})[size]);
      EXPECT_EQ(plan.inputs[0].spec.dims[0], plan.batch);
      EXPECT_EQ(plan.outputs[0].spec.dims[0], plan.batch);
    }
  }
}

TEST(CompileBatches, AnInstanceHasOneArenaOfTheLargestSize) {
  const auto device = MakeDevice(1);
  const auto loaded = CompileFor(SmallCnn(), *device, {1, 3, 8});
  ASSERT_TRUE(loaded);
  const auto instance = Instance::Create(*loaded, *device);
  ASSERT_TRUE(instance);
  EXPECT_EQ((*loaded)->SizeFor(2), std::nullopt);
  EXPECT_EQ((*loaded)->SizeFor(8), 2U);
  const std::byte* const start = (*instance)->arena({Region::kArena, 0, 0});
  (*instance)->Select(2);
  EXPECT_EQ((*instance)->arena({Region::kArena, 0, 0}), start);
  EXPECT_GT((*loaded)->at(2).arena_bytes, (*loaded)->plan.arena_bytes);
}

TEST(CompileBatches, RefusesAnInputWithAFixedFirstDimension) {
  const auto device = MakeDevice(1);
  ModelBuilder model;
  model.Input("x", {1, 4}).Input("z", {1, 4}).Output("y");
  OpenBatch(model);
  model.Add("Add", {"x", "z"}, {"y"});
  const auto loaded = CompileFor(model, *device, {1, 2});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(loaded.error().message, HasSubstr("model 'm'"));
  EXPECT_THAT(loaded.error().message,
              HasSubstr("input 'z' has shape [1,4], whose first dimension is fixed: the model "
                        "cannot take a batch of 2"));
}

TEST(CompileBatches, RefusesABatchDimensionThatTheOptionsFix) {
  const auto device = MakeDevice(1);
  ImportOptions import;
  import.dimensions = {{ "rows", 4 }};
  const auto loaded = CompileFor(SmallCnn(), *device, {2}, import);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("input 'x' has shape [4,3,9,9]"));
}

TEST(CompileBatches, RefusesAnOutputThatMixesTheBatch) {
  const auto device = MakeDevice(1);
  ModelBuilder model;
  model.Input("x", {1, 4}).Output("y");
  OpenBatch(model);
  model.Add("ReduceSum", {"x"}, {"y"}).Int("keepdims", 1);
  const auto loaded = CompileFor(model, *device, {1, 2});
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message,
              HasSubstr("output 'y' has shape [1,1] for a batch of 2: its first dimension is not "
                        "the batch"));
}

TEST(CompileBatches, ProfilesTheSizeThatItIsAskedFor) {
  const auto device = MakeDevice(1);
  auto loaded = CompileFor(SmallCnn(), *device, {1, 4});
  ASSERT_TRUE(loaded);
  ASSERT_TRUE(ProfilePlan(**loaded, *device, 1, 1));
  EXPECT_EQ((*loaded)->at(0).standalone, Nanoseconds(0));
  EXPECT_GT((*loaded)->at(1).standalone, Nanoseconds(0));
}

}  // namespace
}  // namespace lagoon
