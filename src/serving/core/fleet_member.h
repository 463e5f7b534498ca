#pragma once

// A member of a fleet: a device of this process, or another server.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serving/core/fleet_control.h"
#include "serving/core/inference.h"
#include "serving/core/share_control.h"

namespace lagoon {

/// The end of the message of a request (kUnavailable) whose place a newer request has taken
/// (newest_wins).
inline constexpr std::string_view kSuperseded = "superseded by a newer request";

/// How a fleet sends to another server, which may be lost while it computes. Any thread may call
/// any method.
class FleetLink {
 public:
  virtual ~FleetLink() = default;

  /// `lost`: the connection or the member ended while the request was there, so that the member may
  /// have begun it.
  using SentCallback = std::function<void(Result<InferResponse> result, bool lost)>;
  /// Infer() for a caller that keeps the request, to send it again elsewhere. Tensors are sent from
  /// where they are: their payload may be held until the callback has returned.
  virtual RequestHandle Send(const InferRequest& request, SentCallback callback) = 0;
  /// The requests for `model` that wait or run there, also those of other clients, as far as known.
  virtual std::uint64_t QueueOf(const std::string& model) const = 0;
  /// Whether the member can take requests for this version of the model; empty: for any.
  virtual bool Serves(const std::string& model, const std::string& version) const = 0;
  /// Whether it is known what the member has, or that it does not tell: false for a moment when it
  /// has just joined.
  virtual bool Asked() const = 0;
  /// The highest version of the model that the member has told of. Empty: it has told of none.
  virtual std::string Latest(const std::string& model) const = 0;
  /// Why the member may not be of the fleet, whatever it serves. Empty: it may.
  virtual std::string Problem() const = 0;
  /// Why the member takes no requests now, as far as it is not Problem(). Empty: it takes some.
  virtual std::string Absence() const = 0;
  /// The id (server_id.h) of the member's server. Empty: not known now.
  virtual std::string Server() const = 0;
  /// FleetControl::Fronts() of the member; none of a member with a Problem().
  virtual std::vector<std::string> Fronts() const = 0;
  /// The shares of the member's models, as it told them last. Empty: it has told of none.
  virtual std::optional<SharesReport> Shares() const = 0;
  /// ShareControl::ResizeShare() at the member, soon and in the order of the calls. The log has
  /// what it refuses.
  virtual void ResizeShare(const std::string& model, const std::string& version,
                           const ShareWanted& wanted) = 0;
  /// A resize has not ended, so that Shares() does not show it.
  virtual bool Resizing() const = 0;
};

/// A device of this process has a repository, shares and a scheduler. Another server has a link,
/// and a repository if the fleet's placer may load models and set shares there. Ready() says
/// whether the member is there.
struct FleetMember {
  std::string name;  // unique in the fleet, for people
  std::unique_ptr<Inference> core;
  std::int64_t memory_bytes = 0;  // that a placer may use of it
  FleetLink* link = nullptr;      // of `core`; null: a device of this process
  std::string address = {};       // of a server: host:port of its gRPC
};

/// The member for a server that joins the fleet of the server `front` (its id); returns at once,
/// whether the server is there or not.
using ConnectMember = std::function<FleetMember(const FleetJoin& join, const std::string& front)>;

}  // namespace lagoon
