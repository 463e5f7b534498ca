// The members of a fleet: those that join and leave, and what they serve.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "serving/core/share_control.h"
#include "serving/fleet/fleet_core.h"
#include "serving/fleet/fleet_sums.h"
#include "serving/fleet/join.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostMembers = 1024;
// Models that a fleet learns from its members; it ignores more.
constexpr std::size_t kMostModels = 4096;

bool Leads(const std::vector<FleetRoute>& routes, std::size_t member) {
  return std::ranges::find(routes, member, &FleetRoute::member) != routes.end();
}

std::string TextOf(const std::vector<TensorSpec>& tensors) {
  std::string text;
  for (const TensorSpec& tensor : tensors) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", tensor.name, OipName(tensor.type),
                        ShownShape(tensor.dims));
  }
  return text;
}

/// What clients see of a model's tensors.
std::string ShapesOf(const ModelMetadata& metadata) {
  return fmt::format("{} -> {}", TextOf(metadata.inputs), TextOf(metadata.outputs));
}

}  // namespace

void FleetCore::Member::SetProblem(const std::string& text) {
  refused.store(!text.empty());
  const MutexLock lock(mutex);
  if (problem == text) return;
  problem = text;
  if (text.empty()) {
    spdlog::info("fleet: member '{}' is accepted", name);
  } else {
    spdlog::warn("fleet: member '{}' gets no requests: {}", name, text);
  }
}

void FleetCore::Member::Tell(const std::vector<ModelStatus>& models) {
  for (const ModelStatus& status : models) {
    const Status ready = core->ModelReady(status.name, status.version);
    const MutexLock lock(mutex);
    if (told.size() >= kMostModels && !told.contains(status.name)) return;
    told[status.name] = ready ? Error{ErrorCode::kNotFound, ""} : ready.error();
  }
}

std::optional<Error> FleetCore::Member::Told(const std::string& model) const {
  const MutexLock lock(mutex);
  const auto found = told.find(model);
  if (found == told.end()) return std::nullopt;
  if (found->second.code != ErrorCode::kNotFound) return found->second;
  const std::string why =
      problem.empty() ? "it has unloaded the model or does not answer" : problem;
  return Error{ErrorCode::kUnavailable, fmt::format("model {} is not served now: of member {}: {}",
                                                    Quoted(model), Quoted(name), why)};
}

FleetCore::Slots FleetCore::AllSlots() const {
  const MutexLock lock(members_mutex_);
  return members_;
}

FleetCore::Slots FleetCore::Members() const {
  Slots slots = AllSlots();
  std::erase(slots, nullptr);
  return slots;
}

FleetCore::Slots FleetCore::Devices() const {
  Slots slots = Members();
  std::erase_if(slots, [](const auto& member) { return member->link != nullptr; });
  return slots;
}

std::shared_ptr<FleetCore::Member> FleetCore::MemberAt(std::size_t index) const {
  const MutexLock lock(members_mutex_);
  return index < members_.size() ? members_[index] : nullptr;
}

FleetCore::KnownPtr FleetCore::Find(const std::string& model) const {
  const MutexLock lock(known_mutex_);
  const auto found = known_.find(model);
  return found == known_.end() ? nullptr : found->second;
}

std::vector<FleetCore::KnownPtr> FleetCore::AllKnown() const {
  const MutexLock lock(known_mutex_);
  std::vector<KnownPtr> all;
  for (const auto& [name, known] : known_) all.push_back(known);
  return all;
}

Status FleetCore::MayJoin(const FleetJoin& join) const {
  for (const auto& member : members_) {
    if (member == nullptr || member->leaves.load()) continue;
    if (member->name == join.name) {
      return Fail(ErrorCode::kAlreadyExists,
                  fmt::format("member {} is of the fleet already, at {}", Quoted(join.name),
                              Quoted(member->address)));
    }
    if (member->address == join.address) {
      return Fail(ErrorCode::kAlreadyExists,
                  fmt::format("member {} has the address {} of member {}", Quoted(join.name),
                              Quoted(join.address), Quoted(member->name)));
    }
  }
  if (std::ranges::count(members_, nullptr) == 0 && members_.size() >= kMostMembers) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("member {}: the fleet has {} members, the limit", Quoted(join.name),
                            kMostMembers));
  }
  return {};
}

Status FleetCore::Join(const FleetJoin& join) {
  if (!options_.connect) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("member {}: no server can join this fleet", Quoted(join.name)));
  }
  LAGOON_RETURN_IF_ERROR(CheckJoin(join));
  const MutexLock lock(members_mutex_);
  LAGOON_RETURN_IF_ERROR(MayJoin(join));
  auto member = std::make_shared<Member>(options_.connect(join, id_));
  member->joined = ++joins_;
  const auto free = std::ranges::find(members_, nullptr);
  if (free == members_.end()) {
    members_.push_back(std::move(member));
  } else {
    *free = std::move(member);
  }
  spdlog::info("fleet: member '{}' joins from {}", join.name, join.address);
  return {};
}

Status FleetCore::Leave(const std::string& name) {
  bool leaves = false;
  for (const auto& member : Members()) {
    if (member->name != name) continue;
    leaves = leaves || member->leaves.load();
    if (member->leaves.load()) continue;
    if (member->link == nullptr) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("member {} is a device of this server and stays", Quoted(name)));
    }
    member->leaves.store(true);
    spdlog::info("fleet: member '{}' leaves", name);
    return {};
  }
  if (leaves) return {};
  return Fail(ErrorCode::kNotFound, fmt::format("the fleet has no member {}", Quoted(name)));
}

/// Frees the slots of members that leave, when their requests are answered. A member ends on this
/// thread, when no other one uses it.
void FleetCore::LetGo() {
  slots_.clear();
  std::erase_if(gone_, [](const auto& member) {
    return member.use_count() == 1 && !member->link->Resizing();
  });
  const Slots slots = AllSlots();
  for (std::size_t index = 0; index < slots.size(); ++index) {
    if (slots[index] == nullptr || !slots[index]->leaves.load()) continue;
    if (!routes_.Leave(index)) continue;
    {
      const MutexLock lock(share_mutex_);
      GiveBack(index, *slots[index]);
    }
    std::erase_if(leaving_, [index](const auto& entry) { return entry.first.second == index; });
    for (const KnownPtr& known : AllKnown()) known->holders.erase(index);
    auto counts = slots[index]->core->Statistics("", "");
    if (counts) {
      std::erase_if(*counts, [this](const auto& row) { return Find(row.name) == nullptr; });
    }
    {
      const MutexLock lock(mutex_);
      if (counts) AddStatistics(former_, *counts);
      const MutexLock members(members_mutex_);
      members_[index] = nullptr;
    }
    gone_.push_back(slots[index]);
  }
}

/// In which shapes the member has the model, where those are not the fleet's; else empty.
std::string FleetCore::OtherShapes(std::size_t index, const std::string& model,
                                   const Known& known) const {
  if (known.shapes.empty() || known.holders == std::set{index}) return "";
  const Result<ModelMetadata> metadata = slots_[index]->core->Metadata(model, "");
  if (!metadata) return "";
  const std::string shapes = ShapesOf(*metadata);
  if (shapes == known.shapes) return "";
  return fmt::format("it has model {} as {}, and the fleet as {}{}", Quoted(model), shapes,
                     known.shapes, HolderOf(known));
}

/// Why the fleet has the model in its shapes, for messages.
std::string FleetCore::HolderOf(const Known& known) const {
  for (const std::size_t holder : known.holders) {
    if (holder >= slots_.size() || slots_[holder] == nullptr) continue;
    return fmt::format(" (of member {}{})", Quoted(slots_[holder]->name),
                       slots_[holder]->core->Ready() ? "" : ", which is not there now");
  }
  return "";
}

/// Which member the same server is already, under another address; else empty.
std::string FleetCore::OtherAddress(const Member& member) const {
  const std::string server = member.link->Server();
  for (const auto& other : slots_) {
    if (server.empty() || other == nullptr || other->link == nullptr) continue;
    if (other->joined >= member.joined || other->leaves.load()) continue;
    if (other->link->Server() != server) continue;
    return fmt::format("{} is the server of member {}, {}, which is of the fleet already",
                       member.address, Quoted(other->name), other->address);
  }
  return "";
}

std::string FleetCore::ProblemOf(std::size_t index, const std::vector<ModelStatus>& models) const {
  const Member& member = *slots_[index];
  if (member.link == nullptr) return "";
  if (std::string problem = member.link->Problem(); !problem.empty()) return problem;
  if (std::string other = OtherAddress(member); !other.empty()) return other;
  for (const ModelStatus& status : models) {
    const KnownPtr known = Find(status.name);
    if (known == nullptr || status.state != ModelState::kReady) continue;
    if (std::string other = OtherShapes(index, status.name, *known); !other.empty()) return other;
  }
  return "";
}

/// Null: the fleet does not take the model.
FleetCore::KnownPtr FleetCore::FindOrAdd(const std::string& model, const Member& member) {
  const MutexLock lock(known_mutex_);
  const auto found = known_.find(model);
  if (found != known_.end()) return found->second;
  if (!options_.models.empty()) return nullptr;
  if (known_.size() >= kMostModels) {
    if (!std::exchange(told_full_, true)) {
      spdlog::warn(
          "fleet: model '{}' of member '{}' is not served: the fleet has {} models, the "
          "limit",
          model, member.name, kMostModels);
    }
    return nullptr;
  }
  return known_[model] = std::make_shared<Known>(FleetModel{model, 0});
}

/// The model is there in the fleet's shapes, or in those of this member if no other one has it.
void FleetCore::TakeShapes(std::size_t index, const std::string& model, Known& known) const {
  known.holders.insert(index);
  if (!known.shapes.empty() && known.holders.size() > 1) return;
  if (const auto metadata = slots_[index]->core->Metadata(model, "")) {
    known.shapes = ShapesOf(*metadata);
  }
}

/// A member that is there holds only what it tells of: `models`.
void FleetCore::HoldsOnly(std::size_t index, const std::vector<ModelStatus>& models) {
  for (const KnownPtr& known : AllKnown()) {
    const auto told = std::ranges::find(models, known->model.name, &ModelStatus::name);
    if (told == models.end()) known->holders.erase(index);
  }
}

/// Forgets what was known of models that no member has.
void FleetCore::Forget() {
  for (const KnownPtr& known : AllKnown()) {
    const std::string& name = known->model.name;
    if (!known->holders.empty()) continue;
    known->shapes.clear();  // the next replica tells them
    const bool leaves = std::ranges::any_of(
        leaving_, [&name](const auto& entry) { return entry.first.first == name; });
    if (!options_.models.empty() || leaves || !routes_.Forget(name)) continue;
    {
      const MutexLock lock(known_mutex_);
      known_.erase(name);
    }
    told_full_ = false;
    spdlog::info("fleet: model '{}' is of no member any more", name);
    const MutexLock lock(mutex_);
    std::erase_if(former_, [&name](const ModelStatistics& row) { return row.name == name; });
  }
}

/// Takes note of what a member serves. False: it serves nothing now.
bool FleetCore::Follow(std::size_t index) {
  Member& member = *slots_[index];
  Inference& core = *member.core;
  // Ready first: what a member tells that comes back meanwhile may be from before.
  const bool there = core.Ready();
  const std::vector<ModelStatus> models = core.Models();
  if (member.link != nullptr) member.Tell(models);
  const bool away = member.link != nullptr && !member.link->Absence().empty();
  if (!away) member.SetProblem(ProblemOf(index, models));
  const std::optional<SharesReport> shares = SharesOf(member);
  shares_[index] = shares.value_or(SharesReport());
  const bool ready = there && core.Ready() && !member.out();
  if (!ready) {
    member.followed.store(false);
    if (!away && member.out()) HoldsOnly(index, {});
    return false;
  }
  for (const ModelStatus& status : models) {
    if (status.state != ModelState::kReady) continue;
    const KnownPtr known = FindOrAdd(status.name, member);
    if (known == nullptr) continue;
    if (there_.insert({status.name, index}).second) Learn(*known, core, status);
    if (!shares) shares_[index].models.emplace_back().model = status.name;
    known->longest = std::max(known->longest, status.standalone);
    TakeShapes(index, status.name, *known);
  }
  LearnTimes(index);
  HoldsOnly(index, models);
  return true;
}

/// Takes note of what the members serve. Routes lead to replicas that are there; if a model has
/// none, to members that are lost, whose answers say so. Replicas that have no route get one if the
/// model has no other replica or if the member keeps what it has, else they go.
void FleetCore::FollowMembers(TimePoint now) {
  LetGo();
  slots_ = AllSlots();
  ready_.assign(slots_.size(), false);
  shares_.resize(slots_.size());
  there_.clear();
  for (const KnownPtr& known : AllKnown()) {
    known->longest = Nanoseconds(0);
    known->stored = nullptr;
  }
  std::vector<Member*> asked;
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index] == nullptr) continue;
    FleetLink* const link = slots_[index]->link;
    if (link == nullptr || link->Asked()) asked.push_back(slots_[index].get());
    ready_[index] = Follow(index);
  }
  std::set<Replica> strays;
  for (const KnownPtr& known : AllKnown()) FollowRoutes(*known, strays);
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    if (slots_[index] != nullptr) slots_[index]->followed.store(ready_[index]);
  }
  // Now its models have routes.
  for (Member* const member : asked) {
    member->asked.store(true);
    if (member->link == nullptr || member->link->Absence().empty()) member->heard.store(true);
  }
  Forget();
  {
    const MutexLock lock(mutex_);
    std::erase_if(times_, [this](const auto& entry) { return !there_.contains(entry.first); });
  }
  sequences_.Forget(now);
  Retire(strays, now);
}

void FleetCore::FollowRoutes(Known& known, std::set<Replica>& strays) {
  const std::string& name = known.model.name;
  const std::vector<FleetRoute> routes = routes_.Of(name);
  std::vector<FleetRoute> left = routes;
  std::erase_if(left, [&](const FleetRoute& route) {
    return !there_.contains({name, route.member});
  });
  const bool adopts = left.empty();
  bool any = false;
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    if (!there_.contains({name, index})) continue;
    any = true;
    if (Leads(left, index)) continue;
    if (adopts || slots_[index]->core->repository() == nullptr) {
      left.push_back({index, 1});
      leaving_.erase({name, index});
    } else {
      strays.insert({name, index});
    }
  }
  if (left.empty()) {
    left = routes;
    std::erase_if(left, [this](const FleetRoute& route) {
      const auto& member = slots_[route.member];
      return member == nullptr || member->out() || ready_[route.member];
    });
  }
  if (left != routes) routes_.Set(name, std::move(left));
  if (!any) return;
  known.standalone = known.longest.count();
  known.latency.Expect(ToMilliseconds(known.longest));
  known.latency.Measured(known.stored);
}

}  // namespace lagoon
