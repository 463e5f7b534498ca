#pragma once

// The devices of a fleet and what they serve, as /v2/fleet shows them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace lagoon {

struct FleetDeviceReport {
  std::string name;  // unique in the fleet
  std::string description;
  bool ready = false;             // false: lost, or draining
  std::uint32_t units = 0;        // compute units
  std::int64_t memory_bytes = 0;  // as the placer sees it
  std::string address = {};       // of a server: host:port of its gRPC
  std::string problem = {};       // why it gets no requests; empty: it does
  /// It is known what it has, or that it does not tell: false for a moment when it has just joined.
  bool told = true;
};

/// A server that is to be of the fleet.
struct FleetJoin {
  std::string name;     // unique in the fleet
  std::string address;  // host:port of its gRPC
  /// What the placer may fill with models. 0: it does not count.
  std::int64_t memory_bytes = 0;
};

/// Batches that a replica has run lately, in the mean.
struct BatchTimesReport {
  double measured_ms = 0;
  double expected_ms = 0;  // by what was known before they were measured
};

/// A copy of a model on a device.
struct FleetReplicaReport {
  enum class State : std::uint8_t {
    kServing,
    kRetiring,  // answers the requests that it has, and gets no more
  };
  std::string model;
  std::size_t device = 0;  // index in FleetReport::devices
  State state = State::kServing;
  double fraction = 0;                           // of the model's arrivals; 0 if it retires
  std::uint64_t requests = 0;                    // that it was given since the fleet began
  std::size_t in_flight = 0;                     // of those, not answered yet
  std::optional<BatchTimesReport> batches = {};  // empty: too few were measured
};

struct FleetModelReport {
  std::string model;
  std::optional<double> rows_per_s;  // that arrive, as measured; empty: not known yet
  Nanoseconds slo{0};                // as the placer sees it
  Nanoseconds standalone{0};         // of a batch of one row; 0: not known
  std::int64_t memory_bytes = 0;     // of a replica, an estimate
};

/// What the placer decided last, and what became of that.
struct FleetDecisionReport {
  std::string placer;
  bool applied = false;
  std::string reason;   // why it was applied or not
  Nanoseconds took{0};  // of the placer
  TimePoint at{};
};

struct FleetReport {
  std::string placer;
  std::vector<FleetDeviceReport> devices;
  std::vector<FleetModelReport> models;      // by name
  std::vector<FleetReplicaReport> replicas;  // by model, then device
  std::optional<FleetDecisionReport> last;   // empty: nothing was decided yet
  std::uint64_t decisions = 0;
  std::uint64_t loads = 0;         // replicas that were loaded since the fleet began
  std::uint64_t unloads = 0;       // replicas that were unloaded
  std::uint64_t failed_loads = 0;  // replicas that could not be loaded
  std::uint64_t retries = 0;       // requests that were sent to a second member
};

/// The placement of a fleet. Any thread may call any method.
class FleetControl {
 public:
  virtual ~FleetControl() = default;

  /// Ids (server_id.h) of the fronts that a request to this server may come to: this server's own
  /// first, then those of members that have fleets of their own. At most kMostFronts.
  virtual std::vector<std::string> Fronts() const = 0;
  virtual FleetReport ReadFleet() const = 0;
  /// The placer of the next decisions. kNotFound: unknown, with the list.
  virtual Status SetPlacer(const std::string& name) = 0;
  /// The server is a member from now on, whether it is there or not. kInvalidArgument: the name or
  /// HOST:PORT is wrong; kAlreadyExists: a member that stays has one of them; kResourceExhausted:
  /// there are too many members; kUnimplemented: none can join.
  virtual Status Join(const FleetJoin& join) = 0;
  /// The member gets no more requests, and is let go when it has answered those that it has.
  /// kNotFound; kInvalidArgument: it is a device of this process.
  virtual Status Leave(const std::string& name) = 0;
};

}  // namespace lagoon
