#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "server/remote/remote_core.h"
#include "server/remote/remote_queue.h"
#include "server/remote/routes.h"

namespace lagoon {

/// A member of the fleet, as long as routes or requests use it.
struct IngressMember {
  IngressMember(RemoteQueue& queue, std::string member, const RemoteOptions& options)
      : name(std::move(member)), core(queue, options) {}

  const std::string name;
  RemoteCore core;
};

struct IngressReplica {
  std::shared_ptr<IngressMember> member;
  double fraction = 1;
};

/// Routes with the members that they name. Immutable.
struct RouteTable {
  Routes routes;
  std::vector<IngressReplica> members;  // all of them, each with the fraction 1
  std::map<std::string, std::vector<IngressReplica>> models;

  /// The replicas of a model; nothing when the routes do not have the model. Valid as long as the
  /// table.
  const std::vector<IngressReplica>* Replicas(const std::string& model) const;
};

/// The members that the routes name, and those that are on their way out. Any thread, unless said
/// otherwise.
class IngressMembers {
 public:
  /// `options.address` is each member's own. `queue` is borrowed.
  IngressMembers(RemoteQueue& queue, const RemoteOptions& options);
  /// Not on a thread of the queue, and when no request is in flight. Waits until no other
  /// thread holds a member, so that none is destroyed on a thread of the queue.
  ~IngressMembers();

  std::shared_ptr<const RouteTable> Table() const;
  /// Connects to new members, keeps those with the same name and address, and lets go of the
  /// others when their requests are answered. kAlreadyExists when routes of a later epoch are in
  /// use; then nothing changes.
  Status Set(const Routes& routes);

 private:
  IngressReplica Keep(const RouteTable& before, const RouteMember& wanted) const;
  std::shared_ptr<RouteTable> Build(const RouteTable& before, const Routes& routes) const;
  /// Destroys members that nothing uses any more. On a thread of its own, because a RemoteCore
  /// must not be destroyed on a thread of the queue.
  void Reap(const std::stop_token& stop);

  RemoteQueue& queue_;
  const RemoteOptions options_;
  Mutex set_mutex_;  // one Set() at a time; taken before mutex_
  mutable Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<const RouteTable> table_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<IngressMember>> leaving_ GUARDED_BY(mutex_);
  std::jthread reaper_;
};

}  // namespace lagoon
