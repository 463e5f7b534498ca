#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/remote/http_link.h"
#include "server/remote/remote_core.h"

namespace lagoon {

/// The time `duration` from now on gRPC's clock.
std::chrono::system_clock::time_point DeadlineIn(Nanoseconds duration);

/// One request for inference to a member. Deletes itself when it has given its answer.
class RemoteCore::Call final : public LinkRequest {
 public:
  /// `left`: time until the deadline; 0: none.
  Call(RemoteCore& owner, const InferRequest& request, SentCallback callback, Nanoseconds left);

  /// Before it is sent, with the owner's lock. The call has `handle` among the owner's calls, and
  /// is one of `counts`, of so many rows. `urgent`: it is a real-time request.
  void Register(std::uint64_t handle, std::shared_ptr<Counts> counts, std::size_t rows,
                bool urgent);
  /// Answers without having sent the request. In place of Register().
  void Refuse(Error error);
  // End the call early; OnEnd() follows. With the owner's lock, so that the call is not deleted.
  void Cancel() {
    cancelled_ = true;
    owner_.link_->Cut(*this);
  }
  /// The time of the drain is over: no client has cancelled.
  void CutOff() {
    cut_off_ = true;
    Cancel();
  }
  void Lose() {
    lost_ = true;
    owner_.link_->Cut(*this);
  }

 private:
  void TakeTensors(const InferRequest& request);
  void OnEnd(LinkEnd end) override;
  /// What the member has answered, checked against the request.
  Result<InferResponse> Answer(const LinkEnd& end) const;
  Error WithoutAnswer(const LinkEnd& end) const;

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
  std::shared_ptr<const void> payload_;  // of tensors_
  const TimePoint arrival_, deadline_;
  const TimePoint sent_;
  // Guarded by the owner's lock, which the annotations cannot name.
  bool cancelled_ = false;
  bool cut_off_ = false;
  bool lost_ = false;
};

}  // namespace lagoon
