#include "server/remote/ingress_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/thread.h"

namespace lagoon {
namespace {

// How often members that leave are looked at.
constexpr std::chrono::milliseconds kReapPeriod{20};
// How often the destructor looks whether others still hold a member. They do not for long.
constexpr std::chrono::milliseconds kLastReference{1};

}  // namespace

const std::vector<IngressReplica>* RouteTable::Replicas(const std::string& model) const {
  if (!routes.models) return &members;
  const auto found = models.find(model);
  return found == models.end() ? nullptr : &found->second;
}

IngressMembers::IngressMembers(RemoteQueue& queue, const RemoteOptions& options)
    : queue_(queue), options_(options), table_(std::make_shared<RouteTable>()) {
  reaper_ = std::jthread([this](const std::stop_token& stop) { Reap(stop); });
}

IngressMembers::~IngressMembers() {
  {
    MutexLock lock(mutex_);
    reaper_.request_stop();
    changed_.NotifyAll();
  }
  reaper_.join();
  std::vector<std::shared_ptr<IngressMember>> left;
  {
    MutexLock lock(mutex_);
    left = std::move(leaving_);
    for (const IngressReplica& replica : table_->members) left.push_back(replica.member);
    table_.reset();
  }
  // A thread of the queue that has just answered a request may still hold the request's member.
  for (const auto& member : left) {
    while (member.use_count() > 1) std::this_thread::sleep_for(kLastReference);
  }
}

std::shared_ptr<const RouteTable> IngressMembers::Table() const {
  MutexLock lock(mutex_);
  return table_;
}

// The member with this name and address of the table before, or a new one.
IngressReplica IngressMembers::Keep(const RouteTable& before, const RouteMember& wanted) const {
  for (const IngressReplica& old : before.members) {
    if (old.member->name == wanted.name && old.member->core.address() == wanted.address) return old;
  }
  RemoteOptions options = options_;
  options.address = wanted.address;
  return {std::make_shared<IngressMember>(queue_, wanted.name, options), 1};
}

std::shared_ptr<RouteTable> IngressMembers::Build(const RouteTable& before,
                                                  const Routes& routes) const {
  auto table = std::make_shared<RouteTable>();
  table->routes = routes;
  std::map<std::string_view, std::shared_ptr<IngressMember>> by_name;
  for (const RouteMember& wanted : routes.members) {
    table->members.push_back(Keep(before, wanted));
    by_name[wanted.name] = table->members.back().member;
  }
  if (!routes.models) return table;
  for (const auto& [model, replicas] : *routes.models) {
    std::vector<IngressReplica>& found = table->models[model];  // also without any replica
    for (const RouteReplica& replica : replicas) {
      found.push_back({by_name.at(replica.member), replica.fraction});
    }
  }
  return table;
}

Status IngressMembers::Set(const Routes& routes) {
  MutexLock one(set_mutex_);
  const std::shared_ptr<const RouteTable> before = Table();
  if (!IsLater(routes.epoch, before->routes.epoch) && routes.epoch != before->routes.epoch) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("routes: those of epoch {} are in use; the sender of epoch {} does not "
                            "lead any more",
                            before->routes.epoch, routes.epoch));
  }
  std::shared_ptr<const RouteTable> table = Build(*before, routes);
  MutexLock lock(mutex_);
  for (const IngressReplica& old : before->members) {
    const auto same = [&](const IngressReplica& kept) { return kept.member == old.member; };
    if (std::ranges::none_of(table->members, same)) leaving_.push_back(old.member);
  }
  table_ = std::move(table);
  changed_.NotifyAll();
  return {};
}

void IngressMembers::Reap(const std::stop_token& stop) {
  NameThisThread("lagoon-members");
  while (true) {
    // Declared before the lock: the members are destroyed without it.
    std::vector<std::shared_ptr<IngressMember>> unused;
    MutexLock lock(mutex_);
    if (stop.stop_requested()) return;
    const auto used = [](const auto& member) { return member.use_count() > 1; };
    const auto first = std::stable_partition(leaving_.begin(), leaving_.end(), used);
    std::move(first, leaving_.end(), std::back_inserter(unused));
    leaving_.erase(first, leaving_.end());
    if (!unused.empty()) continue;
    if (leaving_.empty()) {
      changed_.Wait(mutex_);
    } else {
      changed_.WaitUntil(mutex_, Now() + kReapPeriod);
    }
  }
}

}  // namespace lagoon
