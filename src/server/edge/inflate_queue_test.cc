#include "server/edge/inflate_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "base/testing/deflate.h"

namespace lagoon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class InflateQueueTest : public testing::Test {
 protected:
  using Message = InflateQueue::Message;

  InflateQueue::Work Work(const std::string& packed) {
    InflateQueue::Work work;
    work.input.body = NewBody();
    EXPECT_TRUE(work.input.body->Reserve(std::max(packed.size(), std::size_t{1}), 0));
    std::memcpy(work.input.body->data(), packed.data(), packed.size());
    work.input.bytes = packed.size();
    work.output = NewBody();
    work.most = std::size_t{32} << 20;
    work.name = "the message";
    work.wanted = wanted_;
    return work;
  }
  std::shared_ptr<RequestBody> NewBody() const {
    return std::make_shared<RequestBody>(memory_, std::weak_ptr<MemoryHolder>(), Now());
  }
  Result<Message> Inflate(InflateQueue::Work work) {
    std::promise<Result<Message>> promise;
    work.done = [&](Result<Message> result) { promise.set_value(std::move(result)); };
    queue_->Post(std::move(work));
    return promise.get_future().get();
  }
  /// The names of the messages, in the order in which they are inflated when all are there at
  /// once. A message of SIZE bytes has the name SIZE.
  std::vector<std::size_t> Order(const std::vector<std::size_t>& sizes) {
    std::promise<void> go;
    boost::asio::post(pool_.one_by_one(), [&] { go.get_future().wait(); });
    std::vector<std::size_t> order;
    std::promise<void> all;
    for (const std::size_t size : sizes) {
      InflateQueue::Work work = Work(Deflated(std::string(size, 'x')));
      work.done = [&, size](const Result<Message>& result) {
        EXPECT_TRUE(result && result->bytes == size);
        order.push_back(size);
        if (order.size() == sizes.size()) all.set_value();
      };
      queue_->Post(std::move(work));
    }
    go.set_value();
    all.get_future().wait();
    return order;
  }
  IoPool pool_{2};
  const EdgeMemory memory_{BufferPool::Create(0),
                           std::make_shared<MemoryBudget>(MemoryBudget::Limits{})};
  const std::shared_ptr<int> wanted_ = std::make_shared<int>();
  const std::shared_ptr<InflateQueue> queue_ = std::make_shared<InflateQueue>(pool_);
};

TEST_F(InflateQueueTest, InflatesWhatIsSound) {
  std::string text;
  while (text.size() < 700'000) text += std::to_string(text.size());
  for (const bool gzip : {true, false}) {
    const auto inflated = Inflate(Work(Deflated(text, gzip)));
    ASSERT_TRUE(inflated) << inflated.error().message;
    EXPECT_EQ(
        std::string_view(reinterpret_cast<const char*>(inflated->body->data()), inflated->bytes),
        text);
  }
  EXPECT_EQ(Inflate(Work(Deflated("")))->bytes, 0u);
}

TEST_F(InflateQueueTest, SaysWhyAMessageIsNotInflated) {
  const auto damaged = Inflate(Work("no such data"));
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(damaged.error().message, HasSubstr("the message cannot be inflated"));
  for (const std::size_t most : {1000u, 128u << 10, 200u << 10, 1u << 20}) {
    InflateQueue::Work work = Work(Deflated(std::string(most, 'x')));
    work.most = most;
    EXPECT_TRUE(Inflate(std::move(work)));
    work = Work(Deflated(std::string(most + 1, 'x')));
    work.most = most;
    const auto too_long = Inflate(std::move(work));
    ASSERT_FALSE(too_long);
    EXPECT_EQ(too_long.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(too_long.error().message, HasSubstr(std::to_string(most)));
  }
  const auto no_room = Inflate([&] {
    InflateQueue::Work work = Work(Deflated(std::string(2 << 20, 'x')));
    const EdgeMemory small{BufferPool::Create(0), std::make_shared<MemoryBudget>(
                                                      MemoryBudget::Limits{1 << 20, 1, 1 << 10})};
    work.output = std::make_shared<RequestBody>(small, std::weak_ptr<MemoryHolder>(), Now());
    return work;
  }());
  ASSERT_FALSE(no_room);
  EXPECT_EQ(no_room.error().code, ErrorCode::kUnavailable);
}

TEST_F(InflateQueueTest, SmallMessagesDoNotWaitForLargeOnes) {
  EXPECT_THAT(Order({3 << 20, 2 << 20, 100, 500'000, 200}),
              ElementsAre(100, 200, 500'000, 3 << 20, 2 << 20));
}

TEST_F(InflateQueueTest, ALargeMessageIsInflatedAlthoughSmallOnesKeepComing) {
  constexpr int kMost = 10'000;
  std::atomic<bool> inflated = false;
  std::atomic<int> others = 0;
  std::promise<void> end;
  const std::string small = Deflated("small");
  const std::function<void()> post = [&] {
    InflateQueue::Work work = Work(small);
    work.done = [&](const Result<Message>&) {
      if (inflated || ++others == kMost) return end.set_value();
      post();
    };
    queue_->Post(std::move(work));
  };
  InflateQueue::Work large = Work(Deflated(std::string(4 << 20, 'x')));
  large.done = [&](const Result<Message>&) { inflated = true; };
  queue_->Post(std::move(large));
  post();
  end.get_future().wait();
  EXPECT_LT(others, kMost);
}

TEST_F(InflateQueueTest, AMessageWhoseClientHasLeftIsNotInflated) {
  std::promise<void> go;
  boost::asio::post(pool_.one_by_one(), [&] { go.get_future().wait(); });
  auto client = std::make_shared<int>();
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> watch = held;
  InflateQueue::Work work = Work(Deflated(std::string(1 << 20, 'x')));
  work.wanted = client;
  work.done = [held = std::move(held)](const Result<Message>&) { ADD_FAILURE(); };
  queue_->Post(std::move(work));
  client.reset();
  go.set_value();
  EXPECT_TRUE(Inflate(Work(Deflated("another"))));
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace lagoon
