// Requests that are cancelled while they move from one place to the next.

#include "serving/request/flight.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;

/// Calls a function when a request takes room for its answer: before the request is in a batch, or
/// has a job.
class CallingRoom final : public AnswerRoom {
 public:
  explicit CallingRoom(std::function<void()> call) : call_(std::move(call)) {}
  Status Take(std::size_t) override {
    if (call_) std::exchange(call_, nullptr)();
    return {};
  }

 private:
  std::function<void()> call_;
};

class FlightTest : public CoreTest {
 protected:
  /// Sends the request and cancels it before Infer() has returned. Requests are numbered in order.
  Answer CancelOnTheWay(InferRequest request) {
    const Sent before = Send(SmallRequest());
    const RequestHandle handle{static_cast<std::uint64_t>(before.handle) + 1};
    request.room = std::make_shared<CallingRoom>([this, handle] { core_->Cancel(handle); });
    Sent sent = Send(std::move(request));
    EXPECT_EQ(sent.handle, handle);
    return sent.answer.get();
  }
};

TEST_F(FlightTest, ACancelThatComesBeforeTheJobIsHeeded) {
  repository_.AddModel("small", SmallModel());
  AddHeld();
  Open();
  gates_->blocks.Close();
  EXPECT_EQ(CodeOf(CancelOnTheWay(SlowRequest())), ErrorCode::kCancelled);
}

TEST_F(FlightTest, ACancelThatComesBeforeTheBatchIsHeeded) {
  repository_.AddModel("small", SmallModel());
  repository_.AddModel(
      "batch", SmallBatchModel(),
      "max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 3600000000 }");
  Open();
  EXPECT_EQ(CodeOf(CancelOnTheWay(SmallRequest("batch"))), ErrorCode::kCancelled);
}

TEST_F(FlightTest, NoTwoRequestsHaveOneHandleEvenOfTwoCores) {
  repository_.AddModel("small", SmallModel());
  Open();
  Sent first = Send(SmallRequest());
  EXPECT_EQ(CodeOf(first.answer.get()), std::nullopt);
  Open();
  Sent second = Send(SmallRequest());
  EXPECT_NE(first.handle, second.handle);
  core_->Cancel(first.handle);
  EXPECT_EQ(CodeOf(second.answer.get()), std::nullopt);
}

}  // namespace
}  // namespace lagoon
