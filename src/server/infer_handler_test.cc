#include "server/infer_handler.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>

#include "server/testing/fake_core.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

// Stands for a connection; keeps the answer.
class FakeReply final : public HttpReply {
 public:
  explicit FakeReply(IoPool& pool) : strand_(boost::asio::make_strand(pool.context())) {}

  void SendPart(HttpPart /*part*/) override { FAIL() << "an answer of an inference is whole"; }
  void Send(HttpResponse response) override { answer_.set_value(std::move(response)); }
  void OnClientGone(std::function<void()> cancel) override { cancel_ = std::move(cancel); }
  const Strand& executor() const override { return strand_; }

  std::future<HttpResponse> answer() { return answer_.get_future(); }
  void Leave() { cancel_(); }  // on the strand

 private:
  const Strand strand_;
  std::promise<HttpResponse> answer_;
  std::function<void()> cancel_;
};

class InferHandlerTest : public testing::Test {
 protected:
  ~InferHandlerTest() override {
    if (!released_) Release();
    lane_.Stop();
    pool_.Join();
  }

  // Blocks the lane until Release().
  void Plug() {
    released_ = false;
    std::promise<void> began;
    ASSERT_TRUE(lane_.Post(TimePoint{}, 0, [&began, go = go_.get_future().share()] {
      began.set_value();
      go.wait();
    }));
    began.get_future().wait();
  }
  void Release() {
    released_ = true;
    go_.set_value();
  }

  // Calls the handler as a connection does. Returns when Handle() has returned.
  std::shared_ptr<FakeReply> Ask(const std::string& model, const std::string& body) {
    auto reply = std::make_shared<FakeReply>(pool_);
    auto text = std::make_shared<const std::string>(body);
    OnStrand(*reply, [&] {
      const boost::beast::http::fields fields;
      const HttpRequest request{boost::beast::http::verb::post,
                                "",
                                fields,
                                std::as_bytes(std::span(*text)),
                                text,
                                Now(),
                                Now()};
      handler_.Handle({Route::Kind::kModelInfer, model}, request, reply);
    });
    return reply;
  }
  template <typename Work>
  static void OnStrand(const FakeReply& reply, Work work) {
    std::promise<void> done;
    boost::asio::post(reply.executor(), [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  static std::string Request(std::string_view name, std::string_view shape, std::size_t elements,
                             std::string_view more = "") {
    std::string data = "1";
    for (std::size_t i = 1; i < elements; ++i) data += ",1";
    return fmt::format(
        R"({{"inputs":[{{"name":"{}","datatype":"FP32","data":[{}]{},"shape":{}}}]}})", name, data,
        more, shape);
  }
  // 300 KB; the answer's first element is the number of pixels.
  static std::string Image() { return Request("pixels", "[1,3,224,224]", 3 * 224 * 224); }
  static std::string Small() { return Request("x", "[1,4]", 4); }
  static std::string Spaces() { return std::string(kMaxEdgeJsonBytes, ' '); }

  static bool Waits(const std::future<HttpResponse>& answer) {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  }

  FakeCore core_;
  IoPool pool_{1};
  JsonLane lane_{2};
  const SharedRegions regions_{false};
  InferHandler handler_{core_, pool_, lane_, regions_};
  std::promise<void> go_;
  bool released_ = true;
};

TEST_F(InferHandlerTest, LargeJsonWaitsForTheLaneAndHoldsNothingElseUp) {
  Plug();
  auto large = Ask("image", Image())->answer();
  EXPECT_EQ(Ask("twice", Small())->answer().get().status, 200u);
  EXPECT_TRUE(Waits(large));
  Release();
  const HttpResponse answer = large.get();
  ASSERT_EQ(answer.status, 200u) << answer.text;
  EXPECT_EQ(nlohmann::json::parse(answer.text)["outputs"][0]["data"][0], 3 * 224 * 224);
}

TEST_F(InferHandlerTest, RequestsAreSubmittedAtNormalPriority) {
  const int here = ::getpriority(PRIO_PROCESS, 0);
  EXPECT_EQ(Ask("image", Image())->answer().get().status, 200u);
  EXPECT_EQ(core_.SubmitNice(), here);
}

TEST_F(InferHandlerTest, LargeAnswersAreWrittenOnTheLane) {
  Plug();
  auto wide = Ask("wide", Small())->answer();
  // Both answers pass the one thread of the pool, the wide one first.
  EXPECT_EQ(Ask("twice", Small())->answer().get().status, 200u);
  EXPECT_TRUE(Waits(wide));
  Release();
  EXPECT_EQ(nlohmann::json::parse(wide.get().text)["outputs"][0]["data"].size(), 5000u);
}

TEST_F(InferHandlerTest, MoreElementsThanTheModelTakesAreRefused) {
  // The shape comes after the data, so that it cannot bound the data.
  HttpResponse answer = Ask("twice", Request("x", "[1,99999]", 99'999))->answer().get();
  EXPECT_EQ(answer.status, 400u);
  EXPECT_THAT(answer.text, HasSubstr("more elements than the 4 that the model takes"));
  answer = Ask("nobody", Request("x", "[1,99999]", 99'999))->answer().get();
  EXPECT_EQ(answer.status, 404u);
}

TEST_F(InferHandlerTest, LargeJsonMayHaveAnyShapeThatTheModelTakes) {
  // More than 16 KiB each. The shape comes after the data, so that it cannot bound the data.
  for (const auto& [model, shape] : {std::pair("vector", "[9000]"), {"pictures", "[2,3,30,50]"}}) {
    const HttpResponse answer = Ask(model, Request("x", shape, 9000))->answer().get();
    ASSERT_EQ(answer.status, 200u) << answer.text;
    EXPECT_EQ(nlohmann::json::parse(answer.text)["outputs"][0]["data"].size(), 9000u);
  }
  const HttpResponse answer = Ask("pictures", Request("x", "[2,3,30,49]", 9000))->answer().get();
  EXPECT_EQ(answer.status, 400u);
  EXPECT_THAT(answer.text,
              HasSubstr("'data': expected 8820 elements for shape [2,3,30,49], got 9000"));
}

TEST_F(InferHandlerTest, AFullLaneRefusesAndTheRestIsServed) {
  Plug();
  auto first = Ask("image", Image())->answer();
  auto second = Ask("twice", Spaces() + Small())->answer();
  const HttpResponse refused = Ask("image", Image())->answer().get();
  EXPECT_EQ(refused.status, 503u);
  EXPECT_THAT(refused.text, HasSubstr("binary data"));
  EXPECT_EQ(Ask("wide", Small())->answer().get().status, 503u);
  EXPECT_EQ(Ask("twice", Small())->answer().get().status, 200u);
  Release();
  EXPECT_EQ(first.get().status, 200u);
  EXPECT_EQ(second.get().status, 200u);
}

TEST_F(InferHandlerTest, AClientThatLeavesIsNotServed) {
  Plug();
  const auto leaving = Ask("image", Image());
  auto answer = leaving->answer();
  OnStrand(*leaving, [&] { leaving->Leave(); });
  Release();
  lane_.Stop();
  OnStrand(*leaving, [] {});
  EXPECT_TRUE(Waits(answer));
  EXPECT_EQ(core_.LastRequest().model, "");
}

}  // namespace
}  // namespace lagoon
