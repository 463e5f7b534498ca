#pragma once

// Which replica of a model gets a request.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"

namespace lagoon {

enum class RequestHandle : std::uint64_t;  // serving/core/inference.h

/// A replica that takes requests.
struct FleetRoute {
  std::size_t member = 0;
  double fraction = 1;  // above 0; requests are split in proportion

  bool operator==(const FleetRoute&) const = default;
};

/// The replicas of each model, and the requests in flight on them. A request goes to one of two
/// replicas, drawn with the weights of their fractions: to the one with fewer requests in flight
/// for its fraction, or the first of both. Draws are seeded. Any thread may call any method.
class FleetRoutes {
 public:
  explicit FleetRoutes(std::uint32_t seed = 1) : random_(seed) {}

  /// From now on the model's requests go to these replicas. Requests in flight stay where they are.
  void Set(const std::string& model, std::vector<FleetRoute> routes);
  /// Empty: the model has no replica.
  std::vector<FleetRoute> Of(const std::string& model) const;
  std::map<std::string, std::vector<FleetRoute>> All() const;

  struct Begun {
    RequestHandle handle{};  // the fleet's
    std::size_t member = 0;
  };
  /// Chooses a replica for a request and counts it there. Empty: the model has no replica.
  std::optional<Begun> Begin(const std::string& model);
  /// The member has taken the request under its own handle. True: the request was cancelled before,
  /// and the caller must cancel it.
  bool Taken(RequestHandle handle, RequestHandle of_member);
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

 private:
  struct Model {
    std::vector<FleetRoute> routes;
    std::map<std::size_t, Load> loads;  // by member; entries stay
  };
  struct Flight {
    Load* load = nullptr;
    std::size_t member = 0;
    RequestHandle of_member{};  // 0: not known yet
    bool cancelled = false;
  };

  const FleetRoute& Draw(const Model& model) REQUIRES(mutex_);

  mutable Mutex mutex_;
  Random random_ GUARDED_BY(mutex_);
  std::map<std::string, Model> models_ GUARDED_BY(mutex_);
  std::unordered_map<RequestHandle, Flight> flights_ GUARDED_BY(mutex_);
  std::uint64_t next_ GUARDED_BY(mutex_) = 1;
};

}  // namespace lagoon
