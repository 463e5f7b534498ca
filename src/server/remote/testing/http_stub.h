#pragma once

// For tests: the HTTP port of a member that is no server of Lagoon.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/http/http_listener.h"
#include "server/memory_budget.h"

namespace lagoon {

/// Answers GET /v2 with the id, and the rest as the test says.
class HttpStub final : public HttpHandler {
 public:
  using Answer = std::function<void(const HttpRequest&, const std::shared_ptr<HttpReply>&)>;

  HttpStub(std::function<std::string()> id, Answer answer)
      : id_(std::move(id)), answer_(std::move(answer)) {
    constexpr std::size_t kBytes = std::size_t{16} << 20;
    auto listener = HttpListener::Listen(
        pool_, *this,
        {BufferPool::Create(kBytes), std::make_shared<MemoryBudget>(MemoryBudget::Limits{
                                         kBytes, HttpLimits().max_connections})},
        {.port = {"HTTP", "127.0.0.1", 0}, .limits = {}});
    EXPECT_TRUE(listener) << listener.error().message;
    listener_ = *std::move(listener);
    listener_->Start();
  }
  ~HttpStub() override {
    listener_->Drain();
    listener_->Abort();
    listener_->WaitIdle(kNoDeadline);
    listener_->Close();
    pool_.Join();
  }

  int port() const { return listener_->port(); }
  void Handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) override {
    if (request.target != "/v2") return answer_(request, reply);
    HttpResponse server = HttpResponse::Json("{}");
    server.fields = fmt::format("{}: {}\r\n", kServerField, id_());
    reply->Send(std::move(server));
  }

 private:
  const std::function<std::string()> id_;
  const Answer answer_;
  IoPool pool_{1};
  std::shared_ptr<HttpListener> listener_;
};

}  // namespace lagoon
