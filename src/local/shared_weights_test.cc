// Models of one device with equal weights have them in memory once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "local/testing/local_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;

/// Weights of 128 KiB, which differ with `seed`.
std::vector<float> WeightsOf(int seed) {
  std::vector<float> weights(128 * 256);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(seed)) % 101) / 64.0F;
  }
  return weights;
}

/// "y" = "x" [-1,rows] times `weights` [rows,columns].
ModelBuilder Multiplies(const std::vector<float>& weights, std::int64_t rows = 128) {
  const std::int64_t columns = static_cast<std::int64_t>(weights.size()) / rows;
  ModelBuilder model;
  model.Input("x", {-1, rows}).Floats("w", {rows, columns}, weights);
  model.Add("MatMul", {"x", "w"}, {"y"});
  model.Output("y", {-1, columns});
  return model;
}

/// Weights in memory of a program, by location.
class Borrowed final : public WeightSource {
 public:
  explicit Borrowed(std::vector<float> weights) : weights_(std::move(weights)) {}
  std::optional<std::size_t> SizeOf(std::string_view) const override {
    return weights_.size() * sizeof(float);
  }
  Status ReadAt(std::string_view, std::size_t offset, std::span<std::byte> to) const override {
    std::memcpy(to.data(), reinterpret_cast<const std::byte*>(weights_.data()) + offset, to.size());
    return {};
  }

 private:
  const std::vector<float> weights_;
};

class SharedWeightsTest : public LocalTest {
 protected:
  void SetUp() override { Open(); }

  /// The chunk with the model's weights.
  static std::shared_ptr<const WeightChunk> ChunkOf(LocalModel& model, std::int64_t rows = 128) {
    const std::vector<float> x(static_cast<std::size_t>(rows));
    const std::vector<std::span<const std::byte>> contents = {std::as_bytes(std::span(x))};
    const auto bound = model.PlanFor(nullptr, {{1, rows}}, contents, model.job_class());
    if (!bound || bound->plan->loaded->weights.empty()) {
      ADD_FAILURE() << (bound ? "no weights" : bound.error().message);
      return nullptr;
    }
    return bound->plan->loaded->weights.front();
  }

  /// Whether the answer to an input of ones is right, up to rounding.
  static bool AnswersWith(LocalModel& model, const std::vector<float>& weights,
                          std::size_t rows = 128) {
    ModelRun run(model);
    std::vector<float> x(rows, 1);
    const Dims dims = {1, static_cast<std::int64_t>(rows)};
    if (run.SetInput(0, TensorOf(x, dims, DataType::kFloat32)) != RunCode::kOk) return false;
    if (run.Sync() != RunCode::kOk) return false;
    const std::vector<float> y = ValuesOf<float>(run, 0);
    const std::size_t columns = weights.size() / rows;
    for (std::size_t column = 0; column < columns; ++column) {
      float sum = 0;
      for (std::size_t row = 0; row < rows; ++row) sum += weights[row * columns + column];
      if (y.size() != columns || std::abs(y[column] - sum) > 1e-3F * sum) return false;
    }
    return true;
  }

  std::unique_ptr<LocalModel> LoadBorrowed(const std::vector<float>& weights) {
    ModelBuilder model = Multiplies(weights);
    auto& tensor = *model.graph().mutable_initializer(0);
    tensor.clear_raw_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    auto& where = *tensor.add_external_data();
    where.set_key("location");
    where.set_value("0");
    const std::string bytes = model.Bytes();
    ModelBytes from;
    from.bytes = std::as_bytes(std::span(bytes));
    from.weights = std::make_shared<Borrowed>(weights);
    Result<std::unique_ptr<LocalModel>> loaded = LocalModel::LoadBytes(*device_, from, {});
    if (!loaded) ADD_FAILURE() << loaded.error().message;
    return loaded ? *std::move(loaded) : nullptr;
  }
};

TEST_F(SharedWeightsTest, AreInMemoryOnceAndLiveAsLongAsAModelNeedsThem) {
  const std::vector<float> weights = WeightsOf(0);
  auto first = Load(Multiplies(weights));
  LocalModelOptions options;
  options.job_class = JobClass::kRealTime;
  auto second = Load(Multiplies(weights), options);
  const std::weak_ptr<const WeightChunk> chunk = ChunkOf(*first);
  EXPECT_EQ(ChunkOf(*second), chunk.lock());
  EXPECT_TRUE(AnswersWith(*first, weights));
  EXPECT_TRUE(AnswersWith(*second, weights));
  first.reset();
  EXPECT_FALSE(chunk.expired());
  EXPECT_TRUE(AnswersWith(*second, weights));
  second.reset();
  EXPECT_TRUE(chunk.expired());
  EXPECT_TRUE(AnswersWith(*Load(Multiplies(weights)), weights));
}

TEST_F(SharedWeightsTest, OtherContentsUnderTheSameNameAreOthers) {
  const auto first = Load(Multiplies(WeightsOf(0)));
  const auto second = Load(Multiplies(WeightsOf(1)));
  EXPECT_NE(ChunkOf(*first), ChunkOf(*second));
  EXPECT_TRUE(AnswersWith(*first, WeightsOf(0)));
  EXPECT_TRUE(AnswersWith(*second, WeightsOf(1)));
}

TEST_F(SharedWeightsTest, TheSameBytesInAnotherShapeAreOthers) {
  const std::vector<float> weights = WeightsOf(0);
  const auto wide = Load(Multiplies(weights, 128));
  const auto high = Load(Multiplies(weights, 256));
  EXPECT_NE(ChunkOf(*wide, 128), ChunkOf(*high, 256));
  EXPECT_TRUE(AnswersWith(*wide, weights, 128));
  EXPECT_TRUE(AnswersWith(*high, weights, 256));
}

TEST_F(SharedWeightsTest, SmallConstantsInCommonDoNotKeepAModelsWeights) {
  auto first = Multiplies(WeightsOf(0)), second = Multiplies(WeightsOf(1));
  for (ModelBuilder* model : {&first, &second}) {
    model->Weights("bias", {256}).Add("Add", {"y", "bias"}, {"z"});
    model->Output("z", {-1, 256});
  }
  auto goes = Load(first);
  const auto stays = Load(second);
  const std::weak_ptr<const WeightChunk> chunk = ChunkOf(*goes);
  ASSERT_NE(ChunkOf(*stays), nullptr);
  goes.reset();
  EXPECT_TRUE(chunk.expired());
}

TEST_F(SharedWeightsTest, OfTheProgramAreComparedByTheirContents) {
  const auto first = LoadBorrowed(WeightsOf(0));
  const auto same = LoadBorrowed(WeightsOf(0));
  const auto other = LoadBorrowed(WeightsOf(1));
  EXPECT_EQ(ChunkOf(*same), ChunkOf(*first));
  EXPECT_NE(ChunkOf(*other), ChunkOf(*first));
  EXPECT_EQ(ChunkOf(*Load(Multiplies(WeightsOf(0)))), ChunkOf(*first)) << "wherever they come from";
  EXPECT_TRUE(AnswersWith(*other, WeightsOf(1)));
}

TEST_F(SharedWeightsTest, ManyThreadsMayLoadAtOnce) {
  std::atomic<int> wrong{0};
  const std::vector<float> weights[] = {WeightsOf(0), WeightsOf(1)};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int times = 0; times < 8; ++times) {
          const auto model = Load(Multiplies(weights[i % 2]));
          if (model == nullptr || !AnswersWith(*model, weights[i % 2])) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lagoon
