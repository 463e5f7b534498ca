#pragma once

#include <fmt/format.h>
#include <grpcpp/support/status.h>

#include <climits>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/grpc/grpc_call.h"

namespace lagoon {

/// How a method ends: with its response, if the status is OK.
struct GrpcEnd {
  GrpcEnd(grpc::Status of, GrpcTrailers with = {})  // NOLINT: methods return a status
      : status(std::move(of)), trailers(std::move(with)) {}

  grpc::Status status;
  GrpcTrailers trailers;
};

/// Gives a method of one request its message, once.
template <typename Request>
class GrpcUnaryCall : public GrpcMethod,
                      public std::enable_shared_from_this<GrpcUnaryCall<Request>> {
 public:
  explicit GrpcUnaryCall(std::shared_ptr<GrpcCall> call) : call_(std::move(call)) {}

  GrpcReading Read(GrpcArrived message) override {
    auto request = std::make_shared<Request>();
    const bool parsed =
        message.bytes.size() <= INT_MAX &&
        request->ParseFromArray(message.bytes.data(), static_cast<int>(message.bytes.size()));
    return {[this, request, parsed] {
      if (std::exchange(arrived_, true)) return;
      if (parsed) return Handle(*request);
      call_->Finish({grpc::StatusCode::INVALID_ARGUMENT,
                     fmt::format("the message is not a {}", Request::descriptor()->name())});
    }};
  }
  void OnEnd() override {
    if (!arrived_) call_->Finish({grpc::StatusCode::INVALID_ARGUMENT, "the call has no message"});
  }
  void OnGone() override {}

 protected:
  /// On the strand.
  virtual void Handle(const Request& request) = 0;
  GrpcCall& call() { return *call_; }
  std::shared_ptr<GrpcCall> shared_call() { return call_; }

 private:
  const std::shared_ptr<GrpcCall> call_;
  bool arrived_ = false;
};

/// A method that answers at once.
template <typename Request, typename Response>
class GrpcSimpleCall final : public GrpcUnaryCall<Request> {
 public:
  using Work = std::function<GrpcEnd(const Request&, Response&)>;

  GrpcSimpleCall(std::shared_ptr<GrpcCall> call, Work work)
      : GrpcUnaryCall<Request>(std::move(call)), work_(std::move(work)) {}

 private:
  void Handle(const Request& request) override {
    Response response;
    const GrpcEnd end = work_(request, response);
    if (end.status.ok()) this->call().Write({{{response.SerializeAsString()}}}, {});
    this->call().Finish(end.status, end.trailers);
  }

  const Work work_;
};

}  // namespace lagoon
