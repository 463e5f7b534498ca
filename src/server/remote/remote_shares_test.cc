#include "server/remote/remote_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "server/remote/testing/http_stub.h"
#include "server/shares/share_json.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr const char* kId = "00000000000000aa";

/// RemoteShares of a server whose answers the test writes.
class RemoteSharesTest : public ::testing::Test {
 protected:
  RemoteSharesTest() { link_->SetTarget({static_cast<std::uint16_t>(stub_.port()), kId}); }
  ~RemoteSharesTest() override {
    shares_.reset();
    link_->Close();
    const MutexLock lock(mutex_);
    for (auto& [text, reply] : held_) reply->Send(HttpResponse::Json("{}"));
    held_.clear();  // a stub waits for the ends of its replies
  }

  /// "GET /v2/shares", or "POST ...: body". Waits for the next request.
  std::string Next() {
    const TimePoint until = Now() + 20s;
    while (Now() < until && Held() == 0) std::this_thread::yield();
    const MutexLock lock(mutex_);
    return held_.empty() ? "nothing" : held_.front().first;
  }
  std::size_t Held() {
    const MutexLock lock(mutex_);
    return held_.size();
  }
  void Answer(HttpResponse response) {
    Next();
    const MutexLock lock(mutex_);
    held_.front().second->Send(std::move(response));
    held_.pop_front();
  }
  /// With a report of this share of "m".
  void AnswerWith(double share) {
    SharesReport report;
    ModelShare& model = report.models.emplace_back();
    model.model = "m";
    model.version = "1";
    model.share = share;
    Answer(HttpResponse::Json(SharesJson(report, {})));
  }
  bool HasShare(std::optional<double> share) const {
    const TimePoint until = Now() + 20s;
    const auto has = [&] {
      const auto report = shares_->Report();
      return (report ? report->models[0].share : std::nullopt) == share;
    };
    while (Now() < until && !has()) std::this_thread::yield();
    return has();
  }

  Mutex mutex_;
  std::deque<std::pair<std::string, std::shared_ptr<HttpReply>>> held_ GUARDED_BY(mutex_);
  HttpStub stub_{[] { return std::string(kId); },
                 [this](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
                   const std::string body(reinterpret_cast<const char*>(request.body.data()),
                                          request.body.size());
                   const MutexLock lock(mutex_);
                   held_.emplace_back(
                       std::string(request.target) + (body.empty() ? "" : ": " + body), reply);
                 }};
  IoPool pool_{1};
  const std::shared_ptr<HttpLink> link_ = HttpLink::Make(pool_, {.host = "127.0.0.1"});
  std::unique_ptr<RemoteShares> shares_ =
      std::make_unique<RemoteShares>(link_, RemoteShares::Options{"member a", 1ms, 1h});
};

TEST_F(RemoteSharesTest, ResizesGoOneByOneInTheirOrderAndThenTheReport) {
  shares_->Resize("m", "1", {.part = 0.5});
  std::atomic<bool> after{false};
  shares_->Resize("n", "", {.part = 0.25});
  shares_->Resize("o", "", {.none = true});
  shares_->Ask();
  shares_->Resize("n", "", {.automatic = true, .rows = 4});
  shares_->Then([&] { after = true; });
  EXPECT_EQ(Next(), R"(/v2/models/m/versions/1/resize: {"percent":50.0})");
  EXPECT_TRUE(shares_->Resizing());
  EXPECT_FALSE(shares_->Report());
  AnswerWith(0.5);
  EXPECT_EQ(Next(), R"(/v2/models/o/resize: {"share":"none"})") << "n's waits with its last word";
  EXPECT_TRUE(HasShare(0.5));
  AnswerWith(0.5);
  EXPECT_EQ(Next(), R"(/v2/models/n/resize: {"share":"auto","rows":4})");
  EXPECT_EQ(Held(), 1U);
  EXPECT_FALSE(after);
  AnswerWith(0.4);
  EXPECT_EQ(Next(), "/v2/shares");
  EXPECT_TRUE(after);
  EXPECT_FALSE(shares_->Resizing());
  AnswerWith(0.3);
  EXPECT_TRUE(HasShare(0.3));
}

TEST_F(RemoteSharesTest, AReportIsAskedForOnceInAPeriod) {
  shares_ = std::make_unique<RemoteShares>(link_, RemoteShares::Options{"member a", 1h, 1h});
  shares_->Ask();
  shares_->Ask();
  AnswerWith(0.5);
  EXPECT_TRUE(HasShare(0.5));
  shares_->Ask();
  shares_->Resize("m", "", {.part = 0.5});
  EXPECT_THAT(Next(), HasSubstr("resize")) << "no second report before";
  AnswerWith(0.6);
  EXPECT_TRUE(HasShare(0.6)) << "the answer to a resize is a report, too";
  EXPECT_EQ(Held(), 0U);
}

TEST_F(RemoteSharesTest, WhatIsRefusedHoldsNothingUp) {
  shares_->Resize("m", "", {.part = 0.5});
  shares_->Resize("n", "", {.part = 0.5});
  Answer(HttpResponse::Failure({ErrorCode::kInvalidArgument, "too much"}));
  EXPECT_THAT(Next(), HasSubstr("/n/"));
  AnswerWith(0.5);
  EXPECT_TRUE(HasShare(0.5));
}

TEST_F(RemoteSharesTest, NonsenseIsNoReport) {
  shares_->Ask();
  AnswerWith(0.5);
  EXPECT_TRUE(HasShare(0.5));
  for (const char* nonsense : {"{}", "nonsense", R"({"shares": "units", "models": [1]})"}) {
    std::this_thread::sleep_for(2ms);  // longer than the period of reports
    shares_->Ask();
    Answer(HttpResponse::Json(nonsense));
    EXPECT_TRUE(HasShare(std::nullopt)) << nonsense;
  }
  std::this_thread::sleep_for(2ms);  // longer than the period of reports
  shares_->Ask();
  Answer(HttpResponse::Failure({ErrorCode::kUnimplemented, "ask the members"}));
  EXPECT_TRUE(HasShare(std::nullopt));
}

// The member is lost while it has a resize: what waits is dropped, and what comes after the
// resizes happens.
TEST_F(RemoteSharesTest, ALostMemberIsForgotten) {
  shares_->Ask();
  AnswerWith(0.5);
  ASSERT_TRUE(HasShare(0.5));
  std::atomic<bool> after{false};
  shares_->Resize("m", "", {.part = 0.6});
  shares_->Resize("n", "", {.part = 0.4});
  shares_->Then([&] { after = true; });
  EXPECT_THAT(Next(), HasSubstr("/m/"));
  shares_->Forget();
  EXPECT_FALSE(shares_->Report());
  const TimePoint until = Now() + 20s;
  while (Now() < until && !after) std::this_thread::yield();
  EXPECT_TRUE(after);
  EXPECT_FALSE(shares_->Resizing());
  EXPECT_EQ(Held(), 1U) << "n's was not sent";
}

TEST_F(RemoteSharesTest, TheEndDoesNotWaitForASilentMember) {
  std::atomic<bool> after{false};
  shares_->Resize("m", "", {.part = 0.6});
  shares_->Then([&] { after = true; });
  Next();
  const TimePoint begin = Now();
  shares_.reset();
  EXPECT_LT(Now() - begin, 10s);
  EXPECT_TRUE(after);
}

TEST_F(RemoteSharesTest, NoMoreResizesThanTheLimitWait) {
  shares_->Resize("first", "", {.part = 0.6});
  Next();
  for (std::size_t i = 0; i < RemoteShares::kMostWaiting + 10; ++i) {
    shares_->Resize(std::to_string(i), "", {.part = 0.6});
  }
  std::atomic<bool> after{false};
  shares_->Then([&] { after = true; });
  std::size_t sent = 0;
  while (!after) {
    AnswerWith(0.5);
    if (++sent > RemoteShares::kMostWaiting + 5) break;
    while (!after && Held() == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(after);
  EXPECT_EQ(sent, RemoteShares::kMostWaiting + 1);
}

}  // namespace
}  // namespace lagoon
