#pragma once

// Which replica of a model gets a request.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "serving/fleet/routes/replica_choice.h"

namespace lagoon {

enum class RequestHandle : std::uint64_t;  // serving/core/inference.h

/// A replica that takes requests.
struct FleetRoute {
  std::size_t member = 0;
  double fraction = 1;  // above 0; requests are split in proportion

  bool operator==(const FleetRoute&) const = default;
};

/// The replicas of each model, and the requests in flight on them. PickReplica() chooses the
/// replica of a request. Draws are seeded. Any thread may call any method.
class FleetRoutes {
 public:
  explicit FleetRoutes(std::uint32_t seed = 1) : random_(seed) {}

  /// From now on the model's requests go to these replicas. Requests in flight stay where they are.
  void Set(const std::string& model, std::vector<FleetRoute> routes);
  /// Empty: the model has no replica.
  std::vector<FleetRoute> Of(const std::string& model) const;
  std::map<std::string, std::vector<FleetRoute>> All() const;

  /// What a member says of itself when a replica is chosen.
  struct Seen {
    bool ready = true;
    std::uint64_t queue = 0;  // requests for the model there, also those of other clients
    /// The highest version there, if the request takes the highest one. Replicas of a lower version
    /// than a ready one has do not get the request. Empty: that of all members.
    std::string latest = {};
  };
  /// Called without a lock. Null: all members are ready.
  using Look = std::function<Seen(std::size_t member)>;

  struct Begun {
    RequestHandle handle{};  // the fleet's
    std::size_t member = 0;
    bool alone = false;  // the model has no other replica
  };
  /// Chooses a replica for a request and counts it there. If none is ready it is the first one,
  /// whose answer says why. Empty: the model has no replica.
  std::optional<Begun> Begin(const std::string& model, const Look& look = {});
  /// Counts a request at this member, which its sequence needs. Empty: no route leads there.
  std::optional<Begun> BeginAt(const std::string& model, std::size_t member);
  /// Chooses another replica for a request that its member has not answered, and counts it there.
  /// Empty: the request was cancelled, has been to two members, or no other replica is ready.
  std::optional<std::size_t> Again(RequestHandle handle, const Look& look = {});
  /// `member` has taken the request under its own handle. True: the request was cancelled before,
  /// and the caller must cancel it.
  bool Taken(RequestHandle handle, std::size_t member, RequestHandle of_member);
  /// The request is answered, or the member has not taken it.
  void End(RequestHandle handle);
  /// The member and the handle to cancel. Empty: the request is not in flight, or the member has
  /// not taken it yet; in the second case Taken() will return true.
  std::optional<std::pair<std::size_t, RequestHandle>> Cancel(RequestHandle handle);

  struct Load {
    std::size_t in_flight = 0;
    std::uint64_t requests = 0;  // since the start
  };
  /// By model and member: all replicas that have got a request, also those without a route now.
  std::map<std::string, std::map<std::size_t, Load>> Loads() const;
  /// The replica's requests in flight, for Cancel().
  std::vector<RequestHandle> InFlight(const std::string& model, std::size_t member) const;
  /// Drops a model without routes and its counts. False: it has requests in flight, or routes, and
  /// stays.
  bool Forget(const std::string& model);
  /// A member leaves: no route leads to it from now on, and its counts are dropped. False: it has
  /// requests in flight, and its counts stay.
  bool Leave(std::size_t member);

 private:
  struct Model {
    std::vector<FleetRoute> routes;
    std::map<std::size_t, Load> loads;  // by member; entries with requests in flight stay
  };
  struct Flight {
    Model* model = nullptr;  // stays as long as the request is in flight
    Load* load = nullptr;
    std::size_t member = 0;
    bool again = false;         // this member is its second
    RequestHandle of_member{};  // 0: not known yet
    bool cancelled = false;
  };

  struct Candidates {
    std::vector<std::size_t> members;
    std::vector<ReplicaState> states;  // as long as `members`
    std::array<double, 2> draws{};
  };
  Candidates CandidatesOf(Model& model) REQUIRES(mutex_);
  /// Counts a request at the replica.
  Begun Count(Model& model, std::size_t member, bool alone) REQUIRES(mutex_);
  /// `avoid`: a member. Empty: no other replica is ready.
  static std::optional<std::size_t> Choose(Candidates& among, const Look& look,
                                           std::optional<std::size_t> avoid);
  /// `member`, which was chosen without the lock, if it has a route still; else it may be unloaded
  /// by now, and the first member that has one is right. Empty: there is none besides `avoid`.
  static std::optional<std::size_t> Routed(const Model& model, std::size_t member,
                                           std::optional<std::size_t> avoid);

  mutable Mutex mutex_;
  Random random_ GUARDED_BY(mutex_);
  std::map<std::string, Model> models_ GUARDED_BY(mutex_);
  std::unordered_map<RequestHandle, Flight> flights_ GUARDED_BY(mutex_);
  std::uint64_t next_ GUARDED_BY(mutex_) = 1;
};

}  // namespace lagoon
