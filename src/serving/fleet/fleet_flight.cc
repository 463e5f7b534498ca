// What FleetCore does with a request.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/text.h"
#include "serving/core/server_id.h"
#include "serving/fleet/fleet_core.h"

namespace lagoon {

namespace {

/// Notes that an answer was given: a request that has one is not sent again.
class WatchedStream final : public AnswerStream {
 public:
  WatchedStream(std::shared_ptr<AnswerStream> stream, std::shared_ptr<std::atomic<bool>> given)
      : stream_(std::move(stream)), given_(std::move(given)) {}
  void MayGive() override { stream_->MayGive(); }
  void Give(Result<InferResponse> answer, std::function<void()> taken) override {
    given_->store(true);
    stream_->Give(std::move(answer), std::move(taken));
  }

 private:
  const std::shared_ptr<AnswerStream> stream_;
  const std::shared_ptr<std::atomic<bool>> given_;
};

/// Whether no other member should be asked: a newer request has taken the place of this one.
bool IsFinal(const Error& error) { return error.message.ends_with(kSuperseded); }

}  // namespace

/// A request that the fleet has taken and not answered. It belongs to the thread that sends or ends
/// it: there is one at a time, because a member answers each request once.
struct FleetCore::Flight {
  InferRequest request;
  InferCallback callback;
  RequestHandle handle{};
  bool kept = false;  // `request` is whole, so that it can be sent again
  /// What is kept of a request that belongs to a sequence.
  struct Sequence {
    SequenceName name;
    SequencePins::Beginning beginning{};
    bool end = false;
  };
  std::optional<Sequence> sequence = std::nullopt;
  /// Whether an answer before the last one was given.
  std::shared_ptr<std::atomic<bool>> given = std::make_shared<std::atomic<bool>>(false);
};

FleetRoutes::Look FleetCore::LookAt(const InferRequest& request) const {
  return [this, &request](std::size_t index) {
    const std::shared_ptr<Member> member = MemberAt(index);
    FleetRoutes::Seen seen;
    if (member == nullptr || member->out()) {
      seen.ready = false;
    } else if (member->link != nullptr) {
      seen.ready = member->link->Serves(request.model, request.version);
      seen.queue = member->link->QueueOf(request.model);
      if (request.version.empty()) seen.latest = member->link->Latest(request.model);
    } else {
      seen.ready = member->core->Ready();
    }
    return seen;
  };
}

/// Why no member gets the request.
std::optional<Error> FleetCore::Refusal(const InferRequest& request) {
  const auto refused = [&request](const std::string& why) {
    return Error{ErrorCode::kUnavailable, fmt::format("model {}: {}", Quoted(request.model), why)};
  };
  if (draining_.load()) return refused("the server is shutting down");
  if (!request.via.empty()) {
    if (request.via.find(id_) != std::string::npos) {
      const std::string last = request.via.substr(request.via.rfind(',') + 1);
      return refused(
          fmt::format("server {} has sent back to this server, {}, a request that has "
                      "been here: a member of one's fleet leads to the other",
                      Shown(last), id_));
    }
    const std::size_t fronts = 1 + std::ranges::count(request.via, ',');
    if (fronts >= kMostFronts) {
      return refused(fmt::format("the request has come through {} fronts, the limit", fronts));
    }
  }
  if (!suspects_.empty() && !suspects_.MaySend(DigestOf(request), Now())) {
    return refused(
        fmt::format("members were lost while they ran a request with these inputs, so "
                    "that it is sent at most once in {} s",
                    Suspects::kPause / std::chrono::seconds(1)));
  }
  return std::nullopt;
}

void FleetCore::CountArrival(const InferRequest& request) {
  const KnownPtr known = Find(request.model);
  if (known == nullptr) return;
  const bool has_rows = known->most_rows.load() > 0 && !request.inputs.empty() &&
                        !request.inputs.front().dims.empty();
  known->load.Arrived(has_rows ? std::max<std::int64_t>(1, request.inputs.front().dims[0]) : 1,
                      Now());
}

Result<FleetRoutes::Begun> FleetCore::Choose(const InferRequest& request, Flight& flight) {
  if (std::optional<Error> refusal = Refusal(request)) {
    return tl::unexpected<Error>(*std::move(refusal));
  }
  LAGOON_RETURN_IF_ERROR(CheckVersion(request.model, request.version));
  if (request.sequence.has_id()) {
    const KnownPtr known = Find(request.model);
    const Nanoseconds idle(known == nullptr ? 0 : known->sequence_idle.load());
    if (idle > Nanoseconds(0)) return ChooseFor(request, idle, flight);
  }
  const auto begun = routes_.Begin(request.model, LookAt(request));
  if (!begun) return tl::unexpected<Error>(NoReplica(request.model));
  flight.kept = !begun->alone;
  return *begun;
}

Result<FleetRoutes::Begun> FleetCore::ChooseFor(const InferRequest& request, Nanoseconds idle,
                                                Flight& flight) {
  SequenceName name = SequenceOf(request);
  const std::string shown = name.text.empty() ? std::to_string(name.number) : Quoted(name.text);
  std::optional<FleetRoutes::Begun> begun;
  std::optional<SequencePins::Pin> pin;
  if (request.sequence.start) {
    begun = routes_.Begin(request.model, LookAt(request));
    if (!begun) return tl::unexpected<Error>(NoReplica(request.model));
    SequencePins::Place place{.member = begun->member, .joined = 0, .name = {}};
    if (const auto member = MemberAt(begun->member)) {
      place.joined = member->joined;
      place.name = member->name;
    }
    Result<SequencePins::Pin> pinned = sequences_.Begin(name, place, idle, Now());
    if (!pinned) {
      routes_.End(begun->handle);
      return tl::unexpected<Error>(std::move(pinned).error());
    }
    pin = *std::move(pinned);
  } else {
    pin = sequences_.Continue(name);
    if (!pin) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("inference request for sequence {} to model {} must specify the "
                              "START flag on the first request of the sequence",
                              shown, Quoted(request.model)));
    }
    const auto member = MemberAt(pin->place.member);
    const bool is_there = member != nullptr && member->joined == pin->place.joined;
    if (is_there && !member->out()) begun = routes_.BeginAt(request.model, pin->place.member);
    if (!begun) {
      sequences_.Answered(name, pin->beginning, /*last=*/false, Now());
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("model {}: sequence {} began at member {}, which is lost or does not "
                              "serve the model now: begin the sequence anew",
                              Quoted(request.model), shown, Quoted(pin->place.name)));
    }
  }
  flight.sequence = {std::move(name), pin->beginning, request.sequence.end};
  return *begun;
}

RequestHandle FleetCore::Infer(InferRequest request, InferCallback callback) {
  CountArrival(request);
  const auto flight = std::make_shared<Flight>();
  Result<FleetRoutes::Begun> begun = Choose(request, *flight);
  if (!begun) {
    request.payload.reset();
    callback(tl::unexpected<Error>(std::move(begun).error()));
    return RequestHandle{};
  }
  const RequestHandle handle = begun->handle;
  flight->request = std::move(request);
  flight->callback = std::move(callback);
  flight->handle = handle;
  if (flight->request.stream != nullptr) {
    flight->request.stream =
        std::make_shared<WatchedStream>(std::move(flight->request.stream), flight->given);
  }
  SendTo(flight, begun->member);
  return handle;
}

void FleetCore::SendTo(const std::shared_ptr<Flight>& flight, std::size_t index) {
  const std::shared_ptr<Member> member = MemberAt(index);
  if (member == nullptr) {
    return Answered(
        flight, index,
        Fail(ErrorCode::kUnavailable, fmt::format("model {}: its member has just left the fleet",
                                                  Quoted(flight->request.model))),
        /*lost=*/false);
  }
  const RequestHandle handle = flight->handle;
  RequestHandle of_member{};
  if (member->link != nullptr) {
    flight->kept = true;
    of_member = member->link->Send(flight->request,
                                   [this, flight, index](Result<InferResponse> result, bool lost) {
                                     Answered(flight, index, std::move(result), lost);
                                   });
  } else {
    InferRequest own = flight->kept ? flight->request : std::move(flight->request);
    of_member =
        member->core->Infer(std::move(own), [this, flight, index](Result<InferResponse> result) {
          const bool unavailable = !result && result.error().code == ErrorCode::kUnavailable;
          const std::shared_ptr<Member> from = unavailable ? MemberAt(index) : nullptr;
          Answered(flight, index, std::move(result), from != nullptr && !from->core->Ready());
        });
  }
  if (of_member == RequestHandle{}) return;
  // The answer may have come already, and the request may be on its way to another member.
  if (routes_.Taken(handle, index, of_member)) member->core->Cancel(of_member);
}

void FleetCore::Answered(const std::shared_ptr<Flight>& flight, std::size_t index,
                         Result<InferResponse> result, bool lost) {
  if (flight->kept) {
    if (result && !suspects_.empty()) suspects_.Answered(DigestOf(flight->request));
    if (!result && result.error().code == ErrorCode::kNotFound && flight->request.version.empty()) {
      // The fleet has the model. It has left this member, and the routes do not say so yet.
      result.error().code = ErrorCode::kUnavailable;
    }
    if (!result && result.error().code == ErrorCode::kUnavailable && !IsFinal(result.error())) {
      if (const auto next = Again(*flight, index, lost)) {
        retries_.fetch_add(1);
        return SendTo(flight, *next);
      }
    }
  }
  if (const auto& part = flight->sequence) {
    sequences_.Answered(part->name, part->beginning, result && part->end, Now());
  }
  flight->request.payload.reset();
  const InferCallback callback = std::move(flight->callback);
  routes_.End(flight->handle);  // the last use of the fleet
  callback(std::move(result));
}

std::optional<std::size_t> FleetCore::Again(const Flight& flight, std::size_t index, bool lost) {
  const std::shared_ptr<Member> member = MemberAt(index);
  if (lost && member != nullptr && !suspects_.Lost(DigestOf(flight.request), member->name, Now())) {
    return std::nullopt;
  }
  if (draining_.load()) return std::nullopt;
  if (flight.given->load()) return std::nullopt;
  if (flight.sequence) return std::nullopt;
  return routes_.Again(flight.handle, LookAt(flight.request));
}

void FleetCore::Cancel(RequestHandle handle) {
  const auto of_member = routes_.Cancel(handle);
  if (!of_member) return;
  const std::shared_ptr<Member> member = MemberAt(of_member->first);
  if (member != nullptr) member->core->Cancel(of_member->second);
}

}  // namespace lagoon
