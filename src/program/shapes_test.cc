// Plans of one model for several input shapes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

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

/// A compiler of the model, whose file is gone: large weights are read from a file that is open.
std::unique_ptr<ModelCompiler> CompilerOf(const ModelBuilder& model, Device& device,
                                          const ImportOptions& import = {}) {
  const TempFolder folder;
  CompileOptions options;
  options.model = "m";
  options.import = import;
  options.many_shapes = true;
  auto compiler = ModelCompiler::Read(model.Save(folder), device, options);
  EXPECT_TRUE(compiler) << compiler.error().message;
  return compiler ? *std::move(compiler) : nullptr;
}

std::shared_ptr<LoadedPlan> CompileRows(ModelCompiler& compiler, std::int64_t rows) {
  const auto inputs = compiler.model().BatchInputs(rows);
  EXPECT_TRUE(inputs) << inputs.error().message;
  auto part = compiler.Compile(*inputs);
  EXPECT_TRUE(part) << part.error().message;
  return part ? part->loaded : nullptr;
}

std::string RefusalOfRows(const ModelBuilder& model, std::int64_t rows,
                          const ImportOptions& import = {}) {
  const auto device = MakeDevice(1);
  const auto compiler = CompilerOf(model, *device, import);
  const auto inputs = compiler->model().BatchInputs(rows);
  EXPECT_FALSE(inputs);
  return inputs ? "" : inputs.error().message;
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
  const auto compiler = CompilerOf(model, *device);
  const auto instance = Instance::Create(*device);
  std::vector<std::unique_ptr<PlanBinding>> plans;  // by rows - 1
  for (std::int64_t rows = 1; rows <= max_batch; ++rows) {
    auto binding = instance->Bind(CompileRows(*compiler, rows));
    ASSERT_TRUE(binding) << binding.error().message;
    plans.push_back(*std::move(binding));
  }
  const TensorSpec row = plans[0]->plan().inputs[0].spec;
  const std::vector<std::byte> rows = MakeRows(row, static_cast<std::size_t>(max_batch));

  std::vector<float> alone;
  for (std::int64_t i = 0; i < max_batch; ++i) {
    instance->Select(*plans[0]);
    const auto offset = static_cast<std::size_t>(i) * row.bytes();
    const std::vector<float> y = RunRows(*instance, *device, rows.data() + offset);
    alone.insert(alone.end(), y.begin(), y.end());
  }
  EXPECT_NE(std::vector(alone.begin(), alone.begin() + 17),
            std::vector(alone.end() - 17, alone.end()));
  for (std::int64_t i = 0; i < max_batch; ++i) {
    const std::int64_t batch = i % 2 == 0 ? max_batch - i / 2 : 1 + i / 2;
    instance->Select(*plans[static_cast<std::size_t>(batch - 1)]);
    const std::vector<float> y = RunRows(*instance, *device, rows.data());
    ASSERT_EQ(y.size() * static_cast<std::size_t>(max_batch),
              alone.size() * static_cast<std::size_t>(batch));
    EXPECT_EQ(std::memcmp(y.data(), alone.data(), y.size() * sizeof(float)), 0) << batch;
  }
}

TEST(Shapes, RowsOfACnnAreWhatTheyAreAlone) { ExpectRowsAsAlone(SmallCnn(), 9); }

TEST(Shapes, RowsOfARecurrentModelAreWhatTheyAreAlone) { ExpectRowsAsAlone(SmallTranslator(), 5); }

TEST(Shapes, PlansShareTheWeights) {
  const auto device = MakeDevice(1);
  for (const ModelBuilder& model : {SmallCnn(), SmallTranslator()}) {
    const auto compiler = CompilerOf(model, *device);
    const auto one = CompileRows(*compiler, 1);
    std::size_t more = 0;
    for (const std::int64_t rows : {5, 8}) {
      const auto loaded = CompileRows(*compiler, rows);
      EXPECT_EQ(loaded->plan.inputs[0].spec.dims[0], rows);
      EXPECT_EQ(loaded->plan.outputs[0].spec.dims[0], rows);
      EXPECT_EQ(loaded->weights.front(), one->weights.front());
      if (loaded->weights.size() > 1) more += loaded->weights.back()->memory.size();
    }
    // Only first states and similar constants grow with the batch.
    if (kArgsImagesCompare) {
      EXPECT_LE(more, one->weights.front()->memory.size() * 3 / 100);
    }
  }
}

TEST(Shapes, WeightsOfAPlanGoWithIt) {
  const auto device = MakeDevice(1);
  const auto compiler = CompilerOf(SmallTranslator(), *device);
  const auto one = CompileRows(*compiler, 1);
  auto five = CompileRows(*compiler, 5);
  ASSERT_GT(five->weights.size(), 1U);
  const std::weak_ptr<const WeightChunk> own = five->weights.back();
  five.reset();
  EXPECT_TRUE(own.expired());
  five = CompileRows(*compiler, 5);  // packs them again
  EXPECT_GT(five->weights.size(), 1U);
}

TEST(Shapes, RefusesABatchForAnInputWithAFixedFirstDimension) {
  ModelBuilder model;
  model.Input("x", {1, 4}).Input("z", {1, 4}).Output("y");
  OpenBatch(model);
  model.Add("Add", {"x", "z"}, {"y"});
  EXPECT_THAT(RefusalOfRows(model, 2),
              HasSubstr("input 'z' has shape [1,4], whose first dimension is fixed: the model "
                        "cannot take a batch of 2"));
}

TEST(Shapes, RefusesABatchDimensionThatTheOptionsFix) {
  ImportOptions import;
  import.dimensions = {{ "rows", 4 }};
  EXPECT_THAT(RefusalOfRows(SmallCnn(), 2, import), HasSubstr("input 'x' has shape [4,3,9,9]"));
}

TEST(Shapes, ScalesAProfileToAnotherShape) {
  const auto device = MakeDevice(1);
  const auto compiler = CompilerOf(SmallCnn(), *device);
  const auto one = CompileRows(*compiler, 1), four = CompileRows(*compiler, 4);
  ASSERT_TRUE(ProfilePlan(*one, *device, 1));
  EXPECT_GT(one->plan.standalone, Nanoseconds(0));
  ScaleProfile(one->plan, four->plan, 1);
  for (std::size_t i = 0; i < one->plan.ops.size(); ++i) {
    const PlanOp& small = one->plan.ops[i];
    const PlanOp& large = four->plan.ops[i];
    ASSERT_EQ(small.name, large.name);
    if (small.flops == 0 || small.kernel_name != large.kernel_name) continue;
    const double ratio = large.flops / small.flops;
    EXPECT_NEAR(static_cast<double>(large.cost.kernel.count()),
                static_cast<double>(small.cost.kernel.count()) * ratio,
                static_cast<double>(small.cost.kernel.count()) * 0.01 + 2)
        << small.name;
  }
  EXPECT_GT(four->plan.standalone, one->plan.standalone);
}

/// Any height and width, with weights that are read from the file again.
ModelBuilder Detector() {
  ModelBuilder model;
  model.Input("x", {1, 3, 16, 16}).Output("y");
  auto* dims =
      model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  dims->mutable_dim(2)->set_dim_param("height");
  dims->mutable_dim(3)->set_dim_param("width");
  model.Weights("w", {64, 3, 3, 3}).Weights("w2", {64, 64, 3, 3});
  model.Add("Conv", {"x", "w"}, {"a"}).Ints("pads", {1, 1, 1, 1});
  model.Add("Relu", {"a"}, {"b"});
  model.Add("Conv", {"b", "w2"}, {"c"}).Ints("pads", {1, 1, 1, 1}).Ints("strides", {2, 2});
  // Its size comes out of shape arithmetic on open dimensions.
  model.Add("Shape", {"b"}, {"shape"});
  model.Ints("hw", {2, 3});
  model.Add("Gather", {"shape", "hw"}, {"size"});
  model.Ints("nc", {1, 64});
  model.Add("Concat", {"nc", "size"}, {"target"}).Int("axis", 0);
  model.Add("Resize", {"c", "", "", "target"}, {"d"}).Text("mode", "nearest");
  model.Add("Add", {"b", "d"}, {"y"});
  return model;
}

TEST(Shapes, ADetectorTakesAnyHeightAndWidth) {
  const auto device = MakeDevice(2);
  const auto compiler = CompilerOf(Detector(), *device);
  const auto instance = Instance::Create(*device);
  for (const Dims& dims : {Dims{1, 3, 16, 16}, Dims{1, 3, 7, 30}, Dims{1, 3, 33, 12}}) {
    const auto given =
        compiler->model().WithShapes(compiler->model().DefaultInputs(), {{"x", dims}});
    ASSERT_TRUE(given) << given.error().message;
    const auto part = compiler->Compile(*given);
    ASSERT_TRUE(part) << part.error().message;
    const Plan& plan = part->loaded->plan;
    const Dims expected{1, 64, dims[2], dims[3]};
    EXPECT_EQ(plan.outputs[0].spec.dims, expected);
    // The same as a compiler that has seen no other shape.
    const auto fresh = CompilerOf(Detector(), *device)->Compile(*given);
    ASSERT_TRUE(fresh);
    const auto binding = instance->Bind(part->loaded);
    ASSERT_TRUE(binding);
    instance->Select(**binding);
    const auto other = Instance::Create(fresh->loaded, *device);
    ASSERT_TRUE(other);
    const std::vector<std::byte> x = MakeRows(plan.inputs[0].spec, 1);
    EXPECT_EQ(RunRows(*instance, *device, x.data()), RunRows(**other, *device, x.data()));
  }
}

TEST(Shapes, RefusesShapesThatContradictTheModel) {
  const auto device = MakeDevice(1);
  const auto compiler = CompilerOf(Detector(), *device);
  for (const Dims& dims : {Dims{1, 4, 16, 16}, Dims{3, 16, 16}, Dims{1, 3, -1, 16}}) {
    const auto loaded = compiler->Compile({{dims}, {}});
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(loaded.error().message, HasSubstr("the model takes [1,3,'height','width']"));
  }
  const std::int64_t huge = std::int64_t{1} << 40;
  const auto loaded = compiler->Compile({{{1, 3, huge, huge}}, {}});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kResourceExhausted);
}

/// y = the first `count` numbers of x.
ModelBuilder TakesSome() {
  ModelBuilder model;
  model.Input("x", {8}).Input("count", {1}, onnx::TensorProto::INT64).Output("y");
  model.Ints("zero", {0});
  model.Add("Slice", {"x", "zero", "count"}, {"s"});
  model.Add("Neg", {"s"}, {"y"});
  return model;
}

TEST(Shapes, ContentsOfASmallInputMayDecide) {
  const auto device = MakeDevice(1);
  const auto compiler = CompilerOf(TakesSome(), *device);
  const GraphInputs unknown = compiler->model().DefaultInputs();
  std::vector<std::size_t> deciding;
  EXPECT_FALSE(compiler->Compile(unknown, &deciding));
  ASSERT_EQ(deciding, std::vector<std::size_t>{1});
  for (const std::int64_t count : {3, 5}) {
    GraphInputs given = unknown;
    auto bytes = std::make_shared<ConstantData::Bytes>(sizeof(count));
    std::memcpy(bytes->data(), &count, sizeof(count));
    given.values[1] = {DataType::kInt64, {1}, std::move(bytes)};
    const auto part = compiler->Compile(given);
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ(part->loaded->plan.inputs.size(), 1U);
    EXPECT_EQ(part->loaded->plan.outputs[0].spec.dims, Dims{count});
  }
}

}  // namespace
}  // namespace lagoon
