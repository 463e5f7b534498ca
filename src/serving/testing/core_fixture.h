#pragma once

// For tests: a core over a repository of the test's own, and requests for its models.

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "program/testing/held_device.h"
#include "serving/core/scheduler_control.h"
#include "serving/core/share_control.h"
#include "serving/open_core.h"
#include "serving/testing/model_files.h"

namespace lagoon::testing {

inline constexpr char kRealTime[] = "optimization { priority: PRIORITY_MAX }\n";

inline std::string Parameter(const std::string& key, const std::string& value) {
  return "parameters { key: \"" + key + "\" value { string_value: \"" + value + "\" } }\n";
}

/// A request that owns its tensor.
inline InferRequest RequestFor(const std::string& model, const Dims& dims,
                               std::vector<float> values) {
  auto payload = std::make_shared<std::vector<float>>(std::move(values));
  InferRequest request;
  request.model = model;
  request.arrival = Now();
  request.inputs = {{"x", DataType::kFloat32, dims, std::as_bytes(std::span(*payload))}};
  request.payload = payload;
  return request;
}

/// Rows that begin with `first`, `first` + 1, ...
inline InferRequest SmallRequest(const std::string& model = "small", float first = 1,
                                 std::int64_t rows = 1) {
  std::vector<float> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const float value : {first + static_cast<float>(row), 2.F, 3.F, -40.F}) {
      values.push_back(value);
    }
  }
  return RequestFor(model, {rows, 4}, std::move(values));
}

inline InferRequest SlowRequest(const std::string& model = "slow") {
  std::vector<float> values(kSlowRows * kSlowColumns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  return RequestFor(model, {kSlowRows, kSlowColumns}, values);
}

template <typename T>
std::vector<T> Values(const OutputTensor& output) {
  std::vector<T> values(output.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), output.data.data(), output.data.size());
  return values;
}

inline std::vector<float> Floats(const OutputTensor& output) { return Values<float>(output); }

using Answer = Result<InferResponse>;

/// The error's code; nullopt for a good answer.
inline std::optional<ErrorCode> CodeOf(const Answer& answer) {
  if (answer) return std::nullopt;
  return answer.error().code;
}

class CoreTest : public ::testing::Test {
 protected:
  void Open(const std::string& scheduler = "reset") {
    CoreOptions options;
    options.repository = repository_.path();
    options.scheduler = scheduler;
    options.device = Cpu(2);
    options.profile.runs = 1;
    options.max_wait = max_wait_;
    options.split_long = split_long_;
    options.tenants = tenants_;
    options.engine = engine_ == nullptr ? "none" : "";
    options.engine_host = engine_;
    options.late = late_;
    auto core = OpenCore(options);
    ASSERT_TRUE(core.has_value()) << core.error().message;
    core_ = *std::move(core);
  }

  /// Call it before the core is opened: kernels and plans wait at gates, which are open at first.
  Gates& UseGates() {
    if (gates_ == nullptr) gates_ = std::make_shared<Gates>();
    return *gates_;
  }
  /// Adds the model "slow". From SendRunning() on its requests run until LetGo().
  void AddHeld(const std::string& config = "") {
    UseGates();
    repository_.AddModel("slow", HeldModel(), config);
  }
  /// The device of the tests; with gates, where there are some.
  DeviceChoice Cpu(std::uint32_t workers) const {
    if (gates_ != nullptr) return HeldDevice(gates_, workers);
    DeviceChoice choice;
    choice.workers = workers;
    return choice;
  }

  struct Sent {
    RequestHandle handle;
    std::future<Answer> answer;
    bool Answered() const {
      return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
  };
  Sent Send(InferRequest request) {
    auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    const RequestHandle handle = core_->Infer(
        std::move(request), [promise](Answer result) { promise->set_value(std::move(result)); });
    return {handle, std::move(answer)};
  }
  Answer Ask(InferRequest request) { return Send(std::move(request)).answer.get(); }

  /// Sends a request of the model of AddHeld(), and returns when it runs. It keeps the device until
  /// LetGo(), or until it is revoked.
  Sent SendRunning() {
    gates_->blocks.Close();
    Sent sent = Send(SlowRequest());
    AwaitRunning(sent);
    return sent;
  }
  void AwaitRunning(const Sent& sent) const {
    while (!gates_->blocks.HasWaiting() && !sent.Answered()) std::this_thread::yield();
  }
  void LetGo() { gates_->blocks.Open(); }
  /// The reason why the model is not served, as in ModelStatus.
  std::string ReasonOf(const std::string& model) {
    for (const ModelStatus& status : core_->Models()) {
      if (status.name == model) return status.reason;
    }
    ADD_FAILURE() << model << " is not listed";
    return "";
  }
  ModelStatistics StatisticsOf(const std::string& model) {
    auto statistics = core_->Statistics(model, "");
    EXPECT_TRUE(statistics.has_value()) << statistics.error().message;
    EXPECT_EQ(statistics->size(), 1u);
    return statistics->front();
  }

  TestRepository repository_;
  std::shared_ptr<Gates> gates_;                // UseGates()
  std::shared_ptr<EngineHost> engine_;          // before Open(); null: there is none
  LateLog* late_ = nullptr;                     // before Open()
  Nanoseconds max_wait_{0};                     // before Open(); no limit, as machines may be slow
  Nanoseconds split_long_{0};                   // before Open()
  TenantSource tenants_ = TenantSource::kNone;  // before Open()
  std::unique_ptr<Inference> core_;
};

}  // namespace lagoon::testing
