#include "engine/opaque_kernel.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "plan/strings.h"

namespace lagoon {
namespace {

class SomeEngine final : public Engine {
 public:
  const std::string& name() const override { return name_; }
  Result<std::unique_ptr<EngineModel>> Load(const EngineSource&) override {
    return Fail(ErrorCode::kUnimplemented, "loads nothing");
  }

 private:
  const std::string name_ = "an engine";
};

/// Every run fails and tells its input, one float.
class FailingModel final : public EngineModel {
 public:
  const EngineSignature& Describe() const override { return signature_; }
  Result<std::unique_ptr<EngineBinding>> Bind(std::span<const EngineTensor> inputs,
                                              std::span<const EngineTensor>) override {
    return std::make_unique<Binding>(static_cast<const float*>(inputs[0].data));
  }

 private:
  class Binding final : public EngineBinding {
   public:
    explicit Binding(const float* x) : x_(x) {}
    Status Run() override {
      return Fail(ErrorCode::kInternal, "no " + std::to_string(static_cast<int>(*x_)));
    }
    void Stop() override {}
    const std::vector<EngineTensor>& outputs() const override { return none_; }

   private:
    const float* x_;
    std::vector<EngineTensor> none_;
  };

  EngineSignature signature_;
};

TEST(OpaqueKernel, EveryRunHasItsOwnError) {
  const EngineTensor tensor{DataType::kFloat32, {1}, nullptr};
  OpaqueKernel kernel(std::make_shared<FailingModel>(), {tensor}, {tensor},
                      {.ops = {"Op"},
                       .why = "",
                       .engine = std::make_shared<EngineHost>(std::make_shared<SomeEngine>())});
  float x[2] = {1, 2}, y[2] = {};
  std::int64_t status[2] = {};
  for (int i = 0; i < 2; ++i) {
    void* in[] = {&x[i]};
    void* out[] = {&y[i]};
    EXPECT_FALSE(kernel.Run(in, out, &status[i]));
  }
  // Both have failed before anybody asks for the first one's error.
  for (int i = 0; i < 2; ++i) {
    const auto error = kernel.TakeError(&status[i]);
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->message, "an engine, which runs Op: no " + std::to_string(i + 1));
    EXPECT_EQ(kernel.TakeError(&status[i])->message, "out of memory");  // none is left
  }
}

/// y is x with "!" behind each string. Without a shape, or with another one, as the test says.
class ShoutingModel final : public EngineModel {
 public:
  const EngineSignature& Describe() const override { return signature_; }
  Result<std::unique_ptr<EngineBinding>> Bind(std::span<const EngineTensor> inputs,
                                              std::span<const EngineTensor> outputs) override {
    EXPECT_EQ(outputs[0].data, nullptr);  // the engine makes room for strings
    return std::make_unique<Binding>(inputs[0], dims);
  }

  Dims dims = {2};  // of y

 private:
  class Binding final : public EngineBinding {
   public:
    Binding(const EngineTensor& x, Dims dims) : x_(x), dims_(std::move(dims)) {}
    Status Run() override {
      texts_.clear();
      elements_.clear();
      for (std::size_t i = 0; i < static_cast<std::size_t>(ElementCount(dims_)); ++i) {
        texts_.push_back(std::string(StringAt(x_.data, i).text()) + "!");
      }
      for (const std::string& text : texts_) elements_.push_back({text.data(), text.size()});
      outputs_ = {{DataType::kString, dims_, elements_.data()}};
      return {};
    }
    void Stop() override {}
    const std::vector<EngineTensor>& outputs() const override { return outputs_; }

   private:
    const EngineTensor x_;
    const Dims dims_;
    std::vector<std::string> texts_;
    std::vector<StringElement> elements_;
    std::vector<EngineTensor> outputs_;
  };

  EngineSignature signature_;
};

class StringKernel : public ::testing::Test {
 protected:
  Status Run(std::vector<StringElement> x, std::vector<StringElement>& y, const void* status) {
    void* in[] = {x.data()};
    void* out[] = {y.data()};
    return kernel_.Run(in, out, status);
  }
  static std::vector<std::string> Texts(const std::vector<StringElement>& elements) {
    std::vector<std::string> texts;
    for (const StringElement& element : elements) texts.emplace_back(element.text());
    return texts;
  }

  const std::shared_ptr<ShoutingModel> model_ = std::make_shared<ShoutingModel>();
  OpaqueKernel kernel_{model_,
                       {{DataType::kString, {2}, nullptr}},
                       {{DataType::kString, {2}, nullptr}},
                       {.ops = {"Shout"},
                        .why = "",
                        .engine = std::make_shared<EngineHost>(std::make_shared<SomeEngine>()),
                        .strings = {0}}};
};

TEST_F(StringKernel, WritesATableWhoseStringsAreTaken) {
  std::vector<StringElement> y(2), z(2);
  const int status[2] = {};
  ASSERT_TRUE(Run({{"a", 1}, {"bc", 2}}, y, &status[0]));
  ASSERT_TRUE(Run({{"", 0}, {}}, z, &status[1]));  // an empty string, and one that is made up
  std::vector<std::shared_ptr<const MadeTensor>> taken;
  kernel_.TakeStrings(&status[0], taken);
  kernel_.TakeStrings(&status[1], taken);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(Texts(y), (std::vector<std::string>{"a!", "bc!"}));
  EXPECT_EQ(Texts(z), (std::vector<std::string>{"!", "0!"}));
  for (const StringElement& element : y) {
    EXPECT_GE(element.data, taken[0]->text.data());
    EXPECT_LE(element.data + element.size, taken[0]->text.data() + taken[0]->text.size());
  }
  kernel_.TakeStrings(&status[0], taken);
  EXPECT_EQ(taken.size(), 2U);  // once
}

TEST_F(StringKernel, FailsIfTheEngineMakesAnotherShape) {
  model_->dims = {1};
  std::vector<StringElement> y(2);
  const Status ran = Run({{"a", 1}, {"b", 1}}, y, this);
  ASSERT_FALSE(ran);
  EXPECT_NE(ran.error().message.find("BYTES [1], expected was BYTES [2]"), std::string::npos);
  EXPECT_EQ(y[0].data, nullptr);
}

}  // namespace
}  // namespace lagoon
