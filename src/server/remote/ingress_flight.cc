#include "server/remote/ingress_flight.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/text.h"

namespace lagoon {
namespace {

constexpr int kMostAttempts = 2;

TimePoint DeadlineOf(const InferRequest& request) {
  return request.timeout > Nanoseconds::zero() ? request.arrival + request.timeout : kNoDeadline;
}

}  // namespace

RequestHandle IngressCore::Infer(InferRequest request, InferCallback callback) {
  auto flight = std::make_shared<Flight>();
  flight->request = std::move(request);
  flight->callback = std::move(callback);
  const auto refuse = [&](Error error) {
    flight->request.payload.reset();
    flight->callback(tl::unexpected<Error>(std::move(error)));
    return RequestHandle{};
  };
  const InferRequest& sent = flight->request;
  Result<Member> member = Choose(sent.model, sent.version, nullptr);
  if (!member) return refuse(std::move(member).error());
  if (!suspects_.empty() && !suspects_.MaySend(DigestOf(sent), Now())) {
    return refuse({ErrorCode::kUnavailable,
                   fmt::format("model {}: members were lost while they ran a request with these "
                               "inputs, so that it is sent at most once in {} s",
                               Quoted(sent.model), Suspects::kPause / std::chrono::seconds(1))});
  }
  Status admitted = Admit(flight);
  if (!admitted) return refuse(std::move(admitted).error());
  const RequestHandle handle{flight->handle};  // the flight may have ended when it has been sent
  Send(flight, *member);
  return handle;
}

Status IngressCore::Admit(const std::shared_ptr<Flight>& flight) {
  MutexLock lock(mutex_);
  if (draining_) {
    return Fail(ErrorCode::kUnavailable, "the ingress takes no new requests: it is draining");
  }
  if (flights_.size() >= options_.most_in_flight) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{} requests are in flight, the limit", options_.most_in_flight));
  }
  flight->handle = ++last_handle_;
  flight->counts = CountsOf(flight->request.model);
  flight->counts->in_flight.fetch_add(1, std::memory_order_relaxed);
  flights_.emplace(flight->handle, flight);
  return {};
}

void IngressCore::Send(const std::shared_ptr<Flight>& flight, const Member& member) {
  int attempt = 0;
  {
    MutexLock lock(flight->mutex);
    attempt = ++flight->attempts;
    flight->member = member;
    flight->at_member = {};
  }
  const RequestHandle handle =
      member->core.Send(flight->request, [this, flight](Result<InferResponse> result, bool lost) {
        Answered(flight, std::move(result), lost);
      });
  // The answer may have come already, and the flight may be on its way to another member.
  MutexLock lock(flight->mutex);
  if (flight->attempts != attempt) return;
  flight->at_member = handle;
  if (flight->cancelled) member->core.Cancel(handle);
}

void IngressCore::Answered(const std::shared_ptr<Flight>& flight, Result<InferResponse> result,
                           bool lost) {
  if (result && !suspects_.empty()) suspects_.Answered(DigestOf(flight->request));
  if (!result && result.error().code == ErrorCode::kNotFound) {
    const auto table = members_.Table();
    if (table->routes.models && table->Replicas(flight->request.model) != nullptr) {
      // The fleet has the model. It has left this member, and the routes do not say so yet.
      result.error().code = ErrorCode::kUnavailable;
    }
  }
  const bool unavailable = !result && result.error().code == ErrorCode::kUnavailable;
  const Member next = unavailable ? Again(*flight, lost) : nullptr;
  if (next == nullptr) return End(flight, std::move(result));
  retries_.fetch_add(1, std::memory_order_relaxed);
  Send(flight, next);
}

IngressCore::Member IngressCore::Again(Flight& flight, bool lost) {
  Member failed;
  bool again = false;
  {
    MutexLock lock(flight.mutex);
    again = !flight.cancelled && flight.attempts < kMostAttempts;
    failed = flight.member;
  }
  if (lost && !suspects_.Lost(DigestOf(flight.request), failed->name, Now())) return nullptr;
  if (!again) return nullptr;
  Result<Member> next = Choose(flight.request.model, flight.request.version, failed.get());
  return next ? *std::move(next) : nullptr;
}

void IngressCore::End(const std::shared_ptr<Flight>& flight, Result<InferResponse> result) {
  InferRequest& request = flight->request;
  if (result) {
    flight->counts->recorder.RecordFinished(
        result->job, {request.arrival, DeadlineOf(request), /*rows=*/1, std::nullopt});
  } else {
    flight->counts->recorder.RecordRefused(result.error().code, Now() - request.arrival);
  }
  flight->counts->in_flight.fetch_sub(1, std::memory_order_relaxed);
  {
    MutexLock lock(flight->mutex);
    flight->member = nullptr;
  }
  request.payload.reset();
  flight->callback(std::move(result));
  flight->callback = nullptr;
  MutexLock lock(mutex_);
  flights_.erase(flight->handle);
  changed_.NotifyAll();  // under the lock: afterwards this object may be gone
}

void IngressCore::Cancel(RequestHandle handle) {
  std::shared_ptr<Flight> flight;
  {
    MutexLock lock(mutex_);
    const auto found = flights_.find(static_cast<std::uint64_t>(handle));
    if (found == flights_.end()) return;
    flight = found->second;
  }
  CancelFlight(*flight);
}

void IngressCore::CancelFlight(Flight& flight) {
  MutexLock lock(flight.mutex);
  flight.cancelled = true;
  if (flight.member != nullptr) flight.member->core.Cancel(flight.at_member);
}

void IngressCore::Drain(TimePoint until) {
  std::vector<std::shared_ptr<Flight>> left;
  {
    MutexLock lock(mutex_);
    draining_ = true;
    while (!flights_.empty() && Now() < until) changed_.WaitUntil(mutex_, until);
    for (const auto& [handle, flight] : flights_) left.push_back(flight);
  }
  for (const auto& flight : left) CancelFlight(*flight);
  left.clear();
  MutexLock lock(mutex_);
  while (!flights_.empty()) changed_.Wait(mutex_);
}

}  // namespace lagoon
