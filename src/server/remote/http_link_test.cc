#include "server/remote/http_link.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "server/remote/testing/raw_server.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;
using Kind = LinkEnd::Kind;
using namespace std::chrono_literals;

constexpr std::string_view kId = "00000000000000aa";

std::string Reply(std::string_view body, std::string_view fields = "") {
  return fmt::format("HTTP/1.1 200 OK\r\n{}Content-Length: {}\r\n\r\n{}", fields, body.size(),
                     body);
}

/// Answers the question who is there. False: the connection has ended.
bool Introduce(RawServer::Connection& connection, std::string_view id = kId) {
  if (!connection.Receive().starts_with("GET /v2 HTTP/1.1\r\n")) return false;
  connection.Send(Reply("{}", fmt::format("Lagoon-Server: {}\r\n", id)));
  return true;
}

class Ask final : public LinkRequest {
 public:
  explicit Ask(Nanoseconds left = 1h, std::string_view tensor = "", bool urgent = false) {
    urgent_ = urgent;
    head_ = "POST / HTTP/1.1\r\n\r\n";
    if (!tensor.empty()) tensors_.push_back(std::as_bytes(std::span(tensor)));
    ends_at_ = Now() + left;
  }
  LinkEnd Get() { return end_.get_future().get(); }

 private:
  void OnEnd(LinkEnd end) override { end_.set_value(std::move(end)); }
  std::promise<LinkEnd> end_;
};

std::string BodyOf(const LinkEnd& end) {
  return {reinterpret_cast<const char*>(end.body.data()), end.body.size()};
}

class HttpLinkTest : public ::testing::Test {
 protected:
  void Open(std::function<void(RawServer::Connection&)> serve) {
    server_ = std::make_unique<RawServer>(std::move(serve));
    link_->SetTarget({server_->port(), std::string(kId)});
  }
  void TearDown() override { End(); }  // what the server calls is still there
  void End() {
    link_->Close();
    server_.reset();
  }
  /// Stops the server at the end of a test, before the variables go that the server uses. Declared
  /// after these variables.
  struct Ender {
    HttpLinkTest* test = nullptr;
    ~Ender() { test->End(); }
  };
  LinkEnd Send(Nanoseconds left = 1h, std::string_view tensor = "") {
    Ask ask(left, tensor);
    link_->Send(ask);
    return ask.Get();
  }

  IoPool pool_{1};
  std::unique_ptr<RawServer> server_;
  std::shared_ptr<HttpLink> link_ = HttpLink::Make(
      pool_,
      {.host = "127.0.0.1", .connect_timeout = 300ms, .silence = 500ms, .most_connections = 2});
};

TEST_F(HttpLinkTest, RequestsFollowOneAnotherOnAConnection) {
  Open([](RawServer::Connection& connection) {
    if (!Introduce(connection)) return;
    for (int i = 0; !connection.Receive().empty(); ++i) {
      connection.Send(Reply(std::to_string(i), "Inference-Header-Content-Length: 1\r\n"));
    }
  });
  for (int i = 0; i < 20; ++i) {
    const LinkEnd end = Send();
    ASSERT_EQ(end.kind, Kind::kAnswered) << end.why;
    EXPECT_EQ(end.status, 200U);
    EXPECT_EQ(end.json_bytes, 1U);
    EXPECT_EQ(BodyOf(end), std::to_string(i));
  }
  EXPECT_EQ(server_->Connections(), 1U);
  EXPECT_TRUE(link_->Connected());
}

TEST_F(HttpLinkTest, LargeMessagesGoThroughInPieces) {
  const std::string large(8 << 20, 'x');
  const Ender ender{this};
  Open([&](RawServer::Connection& connection) {
    if (!Introduce(connection)) return;
    const std::string got = connection.Receive(large.size());
    connection.Send(Reply(got.substr(got.find("\r\n\r\n") + 4)));
    connection.AwaitEnd();
  });
  const LinkEnd end = Send(1h, large);
  ASSERT_EQ(end.kind, Kind::kAnswered) << end.why;
  EXPECT_TRUE(BodyOf(end) == large);
}

TEST_F(HttpLinkTest, AnotherServerGetsNoRequest) {
  std::atomic<int> requests{0};
  const Ender ender{this};
  Open([&](RawServer::Connection& connection) {
    if (Introduce(connection, "00000000000000bb") && !connection.Receive().empty()) ++requests;
  });
  const LinkEnd end = Send();
  EXPECT_EQ(end.kind, Kind::kNotSent);
  EXPECT_FALSE(end.begun);
  EXPECT_THAT(end.why, HasSubstr("the server 00000000000000bb answers there"));
  EXPECT_THAT(link_->WhyNot(), HasSubstr("00000000000000bb"));
  EXPECT_FALSE(link_->Connected());
  EXPECT_EQ(requests, 0);
}

TEST_F(HttpLinkTest, WhatIsNoServerOfLagoonGetsNoRequest) {
  Open([](RawServer::Connection& connection) {
    connection.Receive();
    connection.Send(Reply("{}"));
    connection.AwaitEnd();
  });
  EXPECT_THAT(Send().why, HasSubstr("no server of Lagoon"));
}

TEST_F(HttpLinkTest, AServerThatDoesNotAnswerIsNotWaitedForLong) {
  Open([](RawServer::Connection& connection) { connection.AwaitEnd(); });
  const LinkEnd end = Send();
  EXPECT_EQ(end.kind, Kind::kNotSent);
  EXPECT_THAT(end.why, HasSubstr("no answer came in time"));
}

// The server has closed the connection while nothing was asked.
TEST_F(HttpLinkTest, AConnectionThatHasEndedIsReplaced) {
  Open([](RawServer::Connection& connection) {
    if (Introduce(connection) && !connection.Receive().empty()) connection.Send(Reply("once"));
  });
  for (int i = 0; i < 50; ++i) {
    const LinkEnd end = Send();
    // The end may come when the request is on its way.
    ASSERT_TRUE(end.kind == Kind::kAnswered || (end.kind == Kind::kLost && end.begun)) << end.why;
  }
}

TEST_F(HttpLinkTest, AServerThatEndsEachConnectionIsNotAskedForEver) {
  std::atomic<int> connections{0};
  const Ender ender{this};
  Open([&](RawServer::Connection& connection) {
    if (++connections > 10 || connection.Receive().empty()) return;
    // The link's thread reads the answer when the connection has ended.
    const auto held = std::make_shared<std::promise<void>>();
    std::promise<void> ended;
    boost::asio::post(pool_.context(), [held, until = ended.get_future()] {
      held->set_value();
      until.wait();
    });
    held->get_future().wait();
    connection.Send(Reply("{}", fmt::format("Lagoon-Server: {}\r\n", kId)));
    connection.Reset();
    ended.set_value();
  });
  const LinkEnd end = Send();
  EXPECT_EQ(end.kind, Kind::kNotSent);
  EXPECT_FALSE(end.begun);
  EXPECT_EQ(connections, 3);
}

TEST_F(HttpLinkTest, AnAnswerThatClosesTheConnectionIsTheLast) {
  Open([](RawServer::Connection& connection) {
    if (!Introduce(connection) || connection.Receive().empty()) return;
    connection.Send(Reply("last", "Connection: close\r\n"));
    connection.AwaitEnd();
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(BodyOf(Send()), "last");
  EXPECT_EQ(server_->Connections(), 5U);
}

TEST_F(HttpLinkTest, HostileAnswersEndTheConnection) {
  const std::vector<std::string> answers = {
      "nonsense\r\n\r\n",
      std::string(100'000, 'x'),
      "HTTP/1.1 200 OK\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nX: " + std::string(20'000, 'x') + "\r\nContent-Length: 0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n"};
  std::atomic<std::size_t> next{0};
  const Ender ender{this};
  Open([&](RawServer::Connection& connection) {
    if (!Introduce(connection) || connection.Receive().empty()) return;
    connection.Send(answers[next]);
    connection.AwaitEnd();
  });
  for (; next < answers.size(); ++next) {
    const LinkEnd end = Send();
    EXPECT_EQ(end.kind, Kind::kLost) << answers[next].substr(0, 80);
    EXPECT_TRUE(end.begun);
    EXPECT_NE(end.why, "");
  }
}

TEST_F(HttpLinkTest, HalfAHeaderIsNotWaitedForLong) {
  Open([](RawServer::Connection& connection) {
    if (!Introduce(connection) || connection.Receive().empty()) return;
    connection.Send("HTTP/1.1 200 OK\r\nContent-Le");
    connection.AwaitEnd();
  });
  const LinkEnd end = Send();
  EXPECT_EQ(end.kind, Kind::kLost);
  EXPECT_TRUE(end.begun);
  EXPECT_THAT(end.why, HasSubstr("nothing has come"));
}

TEST_F(HttpLinkTest, BeatsWithoutAnEndDoNotOutlastTheDeadline) {
  Open([](RawServer::Connection& connection) {
    if (!Introduce(connection) || connection.Receive().empty()) return;
    while (connection.Send("HTTP/1.1 102 Processing\r\n\r\n")) continue;
  });
  EXPECT_EQ(Send(300ms).kind, Kind::kDeadline);
}

TEST_F(HttpLinkTest, AnAnswerThatEndsEarlyIsLost) {
  Open([](RawServer::Connection& connection) {
    if (Introduce(connection) && !connection.Receive().empty()) {
      connection.Send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour");
    }
  });
  EXPECT_EQ(Send().kind, Kind::kLost);
}

// A refusal before the server has read the request.
TEST_F(HttpLinkTest, AnAnswerMayComeBeforeTheRequestIsWritten) {
  const std::string large(64 << 20, 'x');
  Open([](RawServer::Connection& connection) {
    if (!Introduce(connection) || connection.Receive().empty()) return;
    connection.Send("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
    connection.AwaitEnd();
  });
  const LinkEnd end = Send(1h, large);
  ASSERT_EQ(end.kind, Kind::kAnswered) << end.why;
  EXPECT_EQ(end.status, 413U);
  EXPECT_EQ(BodyOf(end), "no");
}

TEST_F(HttpLinkTest, BeatsKeepAConnectionAndSilenceEndsIt) {
  std::atomic<bool> silent{false};
  const Ender ender{this};
  Open([&](RawServer::Connection& connection) {
    if (!Introduce(connection)) return;
    while (!connection.Receive().empty()) {
      for (int i = 0; i < 10 && !silent; ++i) {
        connection.Send("HTTP/1.1 102 Processing\r\n\r\n");
        std::this_thread::sleep_for(100ms);  // the time that the server takes
      }
      if (silent) return connection.AwaitEnd();
      connection.Send(Reply("at last"));
    }
  });
  EXPECT_EQ(BodyOf(Send()), "at last");
  silent = true;
  const LinkEnd end = Send();
  EXPECT_EQ(end.kind, Kind::kLost);
  EXPECT_TRUE(end.begun);
  EXPECT_THAT(end.why, HasSubstr("nothing has come"));
}

class HeldTest : public HttpLinkTest {
 protected:
  /// Keeps each request until its connection ends; `held_` are there, `ended_` are gone.
  void OpenHolding() {
    Open([this](RawServer::Connection& connection) {
      if (!Introduce(connection) || connection.Receive().empty()) return;
      ++held_;
      connection.AwaitEnd();
      ++ended_;
    });
  }
  static void AwaitCount(const std::atomic<int>& count, int wanted) {
    const TimePoint until = Now() + 10s;
    while (count < wanted && Now() < until) std::this_thread::yield();
    EXPECT_EQ(count, wanted);
  }
  std::atomic<int> held_{0}, ended_{0};
};

TEST_F(HeldTest, ACutRequestEndsItsConnectionAndADeadlineToo) {
  OpenHolding();
  Ask cut;
  link_->Send(cut);
  AwaitCount(held_, 1);
  link_->Cut(cut);
  const LinkEnd end = cut.Get();
  EXPECT_EQ(end.kind, Kind::kCut);
  EXPECT_TRUE(end.begun);
  AwaitCount(ended_, 1);
  EXPECT_EQ(Send(50ms).kind, Kind::kDeadline);
  AwaitCount(ended_, 2);
}

TEST_F(HeldTest, RequestsBeyondTheLimitWaitForAConnection) {
  OpenHolding();
  Ask first, second, third, fourth(50ms);
  link_->Send(first);
  link_->Send(second);
  AwaitCount(held_, 2);
  link_->Send(third);
  link_->Send(fourth);
  EXPECT_EQ(fourth.Get().kind, Kind::kDeadline) << "while it waits";
  Ask fifth;
  link_->Send(fifth);
  link_->Cut(fifth);
  const LinkEnd waited = fifth.Get();
  EXPECT_EQ(waited.kind, Kind::kCut);
  EXPECT_FALSE(waited.begun);
  EXPECT_EQ(server_->Connections(), 2U);
  link_->Cut(first);
  EXPECT_EQ(first.Get().kind, Kind::kCut);
  AwaitCount(held_, 3);
  link_->Close();
  EXPECT_EQ(second.Get().kind, Kind::kLost);
  EXPECT_EQ(third.Get().kind, Kind::kLost);
  EXPECT_EQ(Send().kind, Kind::kNotSent);
}

TEST_F(HeldTest, UrgentRequestsHaveConnectionsOfTheirOwn) {
  OpenHolding();
  link_->Close();
  link_ = HttpLink::Make(pool_, {.host = "127.0.0.1", .most_connections = 8});
  link_->SetTarget({server_->port(), std::string(kId)});
  std::deque<Ask> others(8);
  for (Ask& ask : others) link_->Send(ask);
  AwaitCount(held_, 6);
  Ask urgent(1h, "", true);
  link_->Send(urgent);
  AwaitCount(held_, 7);
  link_->Cut(urgent);
  EXPECT_TRUE(urgent.Get().begun);
  AwaitCount(ended_, 1);
  Ask last(50ms);  // the place of the urgent one is not for it
  link_->Send(last);
  EXPECT_EQ(last.Get().kind, Kind::kDeadline);
  EXPECT_EQ(held_, 7);
  link_->Cut(others[0]);
  AwaitCount(held_, 8);
  link_->Close();
  int begun = 0;
  for (Ask& ask : others) begun += ask.Get().begun ? 1 : 0;
  EXPECT_EQ(begun, 7);
}

TEST_F(HttpLinkTest, AServerThatTakesFewConnectionsIsUsedOverThose) {
  std::atomic<int> connections{0};
  std::atomic<int> refused{0};
  const Ender ender{this};
  Open([&](RawServer::Connection& connection) {
    if (++connections > 2) {
      connection.Receive();
      ++refused;
      connection.Send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
      return connection.AwaitEnd();
    }
    if (!Introduce(connection)) return;
    while (!connection.Receive().empty()) {
      std::this_thread::sleep_for(1ms);  // the time that the server takes
      connection.Send(Reply("done"));
    }
  });
  const auto link = HttpLink::Make(pool_, {.host = "127.0.0.1", .most_connections = 64});
  link->SetTarget({server_->port(), std::string(kId)});
  std::deque<Ask> asks(200);
  for (Ask& ask : asks) link->Send(ask);
  for (Ask& ask : asks) {
    const LinkEnd end = ask.Get();
    ASSERT_EQ(end.kind, Kind::kAnswered) << end.why;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LE(refused, 62);
  link->Close();
}

TEST_F(HttpLinkTest, RequestsDoNotWaitForAServerThatRefusesAllConnections) {
  Open([](RawServer::Connection& connection) {
    connection.Receive();
    connection.Send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    connection.AwaitEnd();
  });
  std::deque<Ask> asks(20);
  for (Ask& ask : asks) link_->Send(ask);
  for (Ask& ask : asks) {
    const LinkEnd end = ask.Get();
    EXPECT_EQ(end.kind, Kind::kNotSent);
    EXPECT_FALSE(end.begun);
    EXPECT_THAT(end.why, HasSubstr("no more connections"));
  }
}

TEST_F(HeldTest, ARequestThatIsCutBeforeItIsSentIsNotSent) {
  OpenHolding();
  Ask ask;
  link_->Cut(ask);
  link_->Send(ask);
  EXPECT_EQ(ask.Get().kind, Kind::kCut);
  EXPECT_EQ(server_->Connections(), 0U);
}

}  // namespace
}  // namespace lagoon
