#include "engine/opaque_kernel.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace lagoon
