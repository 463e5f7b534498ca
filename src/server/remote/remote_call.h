#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <memory>
#include <string>

#include "server/remote/remote_core.h"

namespace lagoon {

/// The time `duration` from now on gRPC's clock.
std::chrono::system_clock::time_point DeadlineIn(Nanoseconds duration);

/// One ModelInfer call to a member. Deletes itself when it has given its answer.
class RemoteCore::Call final {
 public:
  /// `left`: time until the deadline; 0: none.
  Call(RemoteCore& owner, const InferRequest& request, SentCallback callback, Nanoseconds left);

  /// Sends the request. Once, with the owner's lock: what the call's fields hold must be visible to
  /// the thread that ends the call. The call has `handle` among the owner's calls, and
  /// is one of `counts`, of so many rows.
  void Start(std::uint64_t handle, std::shared_ptr<Counts> counts, std::size_t rows);
  /// Answers without having sent the request. In place of Start().
  void Refuse(Error error);
  // End the call early; Done() follows. With the owner's lock, so that the call is not deleted.
  void Cancel() {
    cancelled_ = true;
    context_.TryCancel();
  }
  /// The time of the drain is over: no client has cancelled.
  void CutOff() {
    cut_off_ = true;
    Cancel();
  }
  void Lose() {
    if (lost_) return;
    lost_ = true;
    had_connection_ = HasConnection();  // before the end, which makes gRPC forget the connection
    context_.TryCancel();
  }

 private:
  void Done(grpc::Status status);
  /// What the member has answered, checked against the request.
  Result<InferResponse> Answer();
  Error Cancelled(bool cancelled, bool lost) const;
  /// Whether the connection or the member has ended while the request was there. A request that
  /// waited for a connection was not.
  bool EndedBefore(bool cancelled, bool had_connection) const;
  /// Whether the request has been given to a connection, and does not wait for one.
  bool HasConnection() const;

  RemoteCore& owner_;
  std::uint64_t handle_ = 0;
  std::size_t rows_ = 1;
  std::shared_ptr<Counts> counts_;  // also of the owner
  const std::string model_, version_, id_;
  const std::vector<std::string> outputs_;
  std::vector<std::string> classified_;  // those of which it asks for classes
  const std::vector<OutputForm> forms_;
  const OutputForm form_;
  SentCallback callback_;
  grpc::ByteBuffer request_, answer_;
  grpc::ClientContext context_;
  grpc::Status status_;
  const TimePoint arrival_, deadline_;
  TimePoint sent_;
  // Guarded by the owner's lock, which the annotations cannot name.
  bool cancelled_ = false;
  bool cut_off_ = false;
  bool lost_ = false;
  bool had_connection_ = false;  // when the member was found lost
};

}  // namespace lagoon
