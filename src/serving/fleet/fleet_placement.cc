// What FleetCore does on the keeper's thread: what the placer sees, and the moves that it decides.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "serving/config/model_config.pb.h"
#include "serving/config/sequence_settings.h"
#include "serving/core/repository_control.h"
#include "serving/fleet/fleet_core.h"
#include "serving/fleet/fleet_sums.h"

namespace lagoon {
namespace {

// Limits what a server tells: a sequence may have no request for a day at most.
constexpr std::uint64_t kMostIdleMicroseconds = 86'400'000'000;
// Members that are asked to load a model where the placer's choice cannot.
constexpr int kMostOtherLoads = 4;

/// The part of the device that a replica has now. Models without a share count as if they had even
/// parts of what the others leave.
double PartOf(const SharesReport& report, const std::string& model) {
  double part = 0, given = 0;
  int without = 0;
  for (const ModelShare& row : report.models) {
    given += row.share.value_or(0);
    without += row.share ? 0 : 1;
    if (row.model == model) part += row.share.value_or(0);
  }
  return part > 0 ? part : std::max(0.0, 1 - given) / std::max(1, without);
}

/// The granules of the device and the rows of a batch that a replica has now.
std::pair<std::uint32_t, std::int64_t> HasNow(const SharesReport& report, const std::string& model,
                                              std::uint32_t granules) {
  std::int64_t rows = 1;
  for (const ModelShare& row : report.models) {
    if (row.model == model) rows = std::max(rows, row.most_rows);
  }
  const double part = PartOf(report, model) * granules;
  return {static_cast<std::uint32_t>(std::clamp(part, 1.0, 1.0 * granules)), rows};
}

/// Sets `slowest` to `surface` if a row takes longer by that on the whole device.
void TakeSlower(const std::shared_ptr<const Surface>& surface,
                std::shared_ptr<const Surface>& slowest) {
  if (surface == nullptr) return;
  if (slowest == nullptr || surface->LatencyMs(1, 1) > slowest->LatencyMs(1, 1)) slowest = surface;
}

bool Contains(const std::vector<FleetRoute>& routes, std::size_t member) {
  return std::ranges::find(routes, member, &FleetRoute::member) != routes.end();
}

/// A number of milliseconds; 0: the config does not have it.
Nanoseconds MillisecondsOf(const inference::ModelConfig& config, const std::string& key) {
  const auto found = config.parameters().find(key);
  if (found == config.parameters().end()) return Nanoseconds(0);
  const std::string& text = found->second.string_value();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value > 0 && value <= 3.6e6)) return Nanoseconds(0);
  return Nanoseconds(static_cast<std::int64_t>(value * 1e6));
}

/// How long a sequence of the model may have no request; 0: it has no sequences.
Nanoseconds SequenceIdleOf(const inference::ModelConfig& config) {
  if (!config.has_sequence_batching()) return Nanoseconds(0);
  const auto micros = static_cast<std::int64_t>(
      std::min(config.sequence_batching().max_sequence_idle_microseconds(), kMostIdleMicroseconds));
  return micros > 0 ? std::chrono::microseconds(micros) : SequenceSettings().idle;
}

}  // namespace

void FleetCore::Learn(Known& known, const Inference& core, const ModelStatus& status) {
  if (const Result<inference::ModelConfig> config = core.Config(status.name, status.version)) {
    known.most_rows = config->max_batch_size();
    known.sequence_idle = SequenceIdleOf(*config).count();
    Nanoseconds slo = MillisecondsOf(*config, "lagoon.slo_ms");
    if (slo == Nanoseconds(0)) slo = MillisecondsOf(*config, "lagoon.deadline_ms");
    known.slo = slo.count();
    const auto share = config->parameters().find("lagoon.share");
    known.tuned = share != config->parameters().end() && share->second.string_value() == "auto";
  }
}

/// Learns how long the batches took that have run lately on this member, and beside what load.
void FleetCore::LearnTimes(std::size_t index) {
  const SharesReport& report = shares_[index];
  std::map<std::string, double> loads;  // by model, of all its versions
  double all = 0;
  for (const ModelShare& row : report.models) {
    const KnownPtr known = Find(row.model);
    if (known == nullptr) continue;
    TakeSlower(row.surface, known->stored);
    known->latency.CanServe(row.load.rows_per_s.value_or(0));
    const double load = known->latency.LoadAt(row.load.arrivals_per_s.value_or(0));
    loads[row.model] += load;
    all += load;
  }
  for (const ModelShare& row : report.models) {
    const KnownPtr known = Find(row.model);
    const bool ran = row.load.bottleneck != Bottleneck::kNone;
    if (known == nullptr || !ran || !row.load.batch_ms || !row.load.rows_per_s) continue;
    const ServedBatches batches{
        .rows = std::max(1.0, *row.load.rows_per_s * *row.load.batch_ms / 1000),
        .share = row.share ? *row.share : PartOf(report, row.model),
        .ms = *row.load.batch_ms,
        .beside = std::max(0.0, all - loads[row.model])};
    const bool learned = known->latency.learned();
    const double expected = known->latency.ExpectedMs(batches);
    if (!known->latency.Observe(batches) || !learned) continue;
    const MutexLock lock(mutex_);
    times_[{row.model, index}] = {.measured_ms = batches.ms, .expected_ms = expected};
  }
}

PlacementView FleetCore::View(TimePoint now) {
  FollowMembers(now);
  PlacementView view;
  gpus_.clear();
  names_.clear();
  for (std::size_t member = 0; member < slots_.size(); ++member) {
    if (!ready_[member] || slots_[member]->core->repository() == nullptr) continue;
    gpus_.push_back(member);
    view.gpus.push_back(slots_[member]->room);
  }
  for (const KnownPtr& known : AllKnown()) AddModel(*known, now, view);
  SortReplicas(view.current);
  KeepRoomForLeaving(view);
  return view;
}

/// A replica that still answers requests keeps its memory. What serves now fits nevertheless.
void FleetCore::KeepRoomForLeaving(PlacementView& view) const {
  std::vector<std::int64_t> used(view.gpus.size());
  for (const PlacedReplica& replica : view.current.replicas) {
    used[replica.gpu] += view.models[replica.model].memory_bytes;
  }
  for (const auto& [replica, since] : leaving_) {
    const auto gpu = std::ranges::find(gpus_, replica.second);
    if (gpu == gpus_.end()) continue;
    const auto index = static_cast<std::size_t>(gpu - gpus_.begin());
    std::int64_t& room = view.gpus[index].memory_bytes;
    const std::int64_t left = room - Find(replica.first)->model.memory_bytes;
    room = std::min(room, std::max(left, used[index]));
  }
}

/// Adds the model and its replicas. A model that could not be loaded lately stays as it is: only
/// the memory of its replicas counts.
void FleetCore::AddModel(Known& known, TimePoint now, PlacementView& view) {
  std::vector<FleetRoute> routes = routes_.Of(known.model.name);
  double sum = 0;
  for (FleetRoute& route : routes) {
    const auto gpu = std::ranges::find(gpus_, route.member);
    if (gpu == gpus_.end()) route.fraction = 0;
    sum += route.fraction;
  }
  std::erase_if(routes, [](const FleetRoute& route) { return route.fraction == 0; });
  const auto gpu_of = [this](const FleetRoute& route) {
    return static_cast<std::size_t>(std::ranges::find(gpus_, route.member) - gpus_.begin());
  };
  if (known.failed_loads > 0 && now < known.retry_at) {
    for (const FleetRoute& route : routes) {
      std::int64_t& room = view.gpus[gpu_of(route)].memory_bytes;
      room = std::max<std::int64_t>(0, room - known.model.memory_bytes);
    }
    return;
  }
  const double rate = known.load.Read(now).arrivals_per_s.value_or(0);
  const Nanoseconds slo(known.slo.load());
  ModelView model;
  model.name = known.model.name;
  model.slo = slo > Nanoseconds(0) ? slo : options_.default_slo;
  model.rate = rate;
  model.rate_error = std::sqrt(rate * 0.3 / 1.7);  // of a Poisson process, averaged as LoadMonitor
  model.memory_bytes = known.model.memory_bytes;
  model.most_rows = std::clamp<std::int64_t>(known.most_rows.load(), 1, 1024);
  model.latency = view.latencies.emplace_back(known.latency.Model(model.most_rows)).get();
  const auto loads = routes_.Loads();
  if (const auto load = loads.find(model.name); load != loads.end()) {
    for (const auto& [member, counts] : load->second) {
      model.queued += static_cast<double>(counts.in_flight);
    }
  }
  for (const FleetRoute& route : routes) {
    const auto [granules, rows] =
        HasNow(shares_[route.member], model.name, slots_[route.member]->room.granules);
    view.current.replicas.push_back({view.models.size(), gpu_of(route), granules,
                                     std::min(rows, model.most_rows), route.fraction / sum});
  }
  view.models.push_back(std::move(model));
  names_.push_back(known.model.name);
}

FleetCore::Places FleetCore::PlacesOf(const Assignment& assignment) const {
  Places places;
  for (const PlacedReplica& replica : assignment.replicas) {
    places[names_[replica.model]].push_back({gpus_[replica.gpu], replica.fraction});
  }
  return places;
}

/// Loads the replicas that are not there yet, on all devices at once. Returns those that could not
/// be loaded.
std::set<FleetCore::Replica> FleetCore::Load(const Places& wanted) {
  std::vector<std::pair<Replica, std::future<Status>>> loading;
  for (const auto& [model, routes] : wanted) {
    const std::vector<FleetRoute> present = routes_.Of(model);
    for (const FleetRoute& route : routes) {
      if (Contains(present, route.member)) continue;
      if (leaving_.erase({model, route.member}) > 0) continue;  // it is still there
      auto promise = std::make_shared<std::promise<Status>>();
      loading.emplace_back(Replica(model, route.member), promise->get_future());
      slots_[route.member]->core->repository()->LoadModel(
          model, [promise](Status status) { promise->set_value(std::move(status)); });
    }
  }
  std::set<Replica> failed;
  for (auto& [replica, done] : loading) {
    const Status loaded = done.get();
    Note(replica.first, loaded);
    const std::string& device = slots_[replica.second]->name;
    if (loaded) {
      ++loads_;
      ModelStatus status;
      status.name = replica.first;
      Learn(*Find(replica.first), *slots_[replica.second]->core, status);
      spdlog::info("fleet: model '{}' is loaded on '{}'", replica.first, device);
      continue;
    }
    ++failed_loads_;
    failed.insert(replica);
    spdlog::error("fleet: model '{}' cannot be loaded on '{}': {}", replica.first, device,
                  loaded.error().message);
  }
  return failed;
}

void FleetCore::Note(const std::string& model, const Status& loaded) {
  Known& known = *Find(model);
  if (loaded) {
    known.failed_loads = 0;
    return;
  }
  const int doublings = std::min(known.failed_loads++, PlacementRules::kMostDoublings);
  known.retry_at = Now() + (1 << doublings) * options_.rules.retry;
}

/// What the replicas on a member need together, those of `wanted` included.
std::int64_t FleetCore::MemoryUsed(std::size_t member, const Places& wanted) {
  std::int64_t used = 0;
  for (const KnownPtr& known : AllKnown()) {
    const std::string& name = known->model.name;
    const auto placed = wanted.find(name);
    const bool there = Contains(routes_.Of(name), member) ||
                       leaving_.contains(Replica(name, member)) ||
                       (placed != wanted.end() && Contains(placed->second, member));
    if (there) used += known->model.memory_bytes;
  }
  return used;
}

/// Another member for a model that cannot be loaded where it was placed, and serves nowhere.
std::vector<FleetRoute> FleetCore::LoadElsewhere(const std::string& model, const Places& wanted,
                                                 const std::set<Replica>& failed) {
  int tries = 0;
  for (const std::size_t member : gpus_) {
    const bool fits = MemoryUsed(member, wanted) + Find(model)->model.memory_bytes <=
                      slots_[member]->room.memory_bytes;
    if (!fits || failed.contains({model, member}) || ++tries > kMostOtherLoads) continue;
    std::vector<FleetRoute> routes{{member, 1}};
    if (Load({{model, routes}}).empty()) return routes;
  }
  return {};
}

void FleetCore::Apply(const Assignment& assignment) {
  Places wanted = PlacesOf(assignment);
  ReleaseShares(wanted);
  const std::set<Replica> failed = Load(wanted);
  for (const Replica& replica : failed) {
    const std::string& model = replica.first;
    const bool none = std::ranges::all_of(wanted[model], [&](const FleetRoute& route) {
      return failed.contains({model, route.member});
    });
    if (none && routes_.Of(model).empty()) wanted[model] = LoadElsewhere(model, wanted, failed);
  }
  std::set<Replica> gone;
  for (const auto& [model, replicas] : wanted) {
    std::vector<FleetRoute> routes = replicas;
    std::erase_if(routes, [&failed, &name = model](const FleetRoute& route) {
      return failed.contains({name, route.member});
    });
    if (routes.empty()) continue;  // the replicas before stay
    const std::vector<FleetRoute> before = routes_.Of(model);
    for (const FleetRoute& route : before) {
      if (!Contains(routes, route.member)) gone.insert({model, route.member});
    }
    routes_.Set(model, routes);
    for (const FleetRoute& route : routes) {
      if (!Contains(before, route.member)) ResizeAgain({model, route.member});
    }
  }
  Retire(gone, Now());
}

/// Where models are loaded, the shares that were given might leave them no room: the device tunes
/// them until SetShares().
void FleetCore::ReleaseShares(const Places& wanted) {
  std::set<std::size_t> members;
  for (const auto& [model, routes] : wanted) {
    const std::vector<FleetRoute> present = routes_.Of(model);
    for (const FleetRoute& route : routes) {
      if (!Contains(present, route.member)) members.insert(route.member);
    }
  }
  const MutexLock lock(share_mutex_);
  std::vector<ReplicaShare> tuned;
  for (const KnownPtr& known : AllKnown()) {
    if (PlacerDecidesShare(*known)) tuned.push_back({known->model.name, {}});
  }
  for (const std::size_t member : members) {
    if (slots_[member]->link == nullptr) {
      SetSharesOf(member, tuned);
    } else {
      GiveBack(member, *slots_[member]);  // also what the server has not told of yet
    }
  }
}

void FleetCore::SetShares(const Assignment& assignment, bool decided) {
  const MutexLock lock(share_mutex_);
  if (draining_.load()) return;  // Drain() has given them back

  std::map<std::size_t, std::vector<ReplicaShare>> wanted;  // by member
  for (const PlacedReplica& replica : assignment.replicas) {
    const std::string& name = names_[replica.model];
    const KnownPtr known = Find(name);
    if (!PlacerDecidesShare(*known)) continue;
    const std::size_t member = gpus_[replica.gpu];
    ReplicaShare& share = wanted[member].emplace_back(ReplicaShare{name, {}});
    if (!decided) continue;
    share.part = 1.0 * replica.granules / slots_[member]->room.granules;
    // A limit keeps an SLO, by times that were measured.
    const bool limits = options_.batch_limits && known->slo > 0 && known->latency.learned();
    if (limits) share.rows = replica.rows;
  }
  for (const auto& [member, shares] : wanted) {
    const FleetLink* const link = slots_[member]->link;
    // The next decision sees what has become of them.
    if (link == nullptr || !link->Resizing()) SetSharesOf(member, shares);
  }
}

/// A server tunes the shares again that the placer has given there.
void FleetCore::GiveBack(std::size_t index, const Member& member) {
  if (member.link == nullptr) return;
  const std::optional<SharesReport> report = SharesOf(member);
  for (const ModelShare& row : report.value_or(SharesReport()).models) {
    if (!given_.contains({row.model, index})) continue;
    member.link->ResizeShare(row.model, row.version, {.automatic = true});
  }
  std::erase_if(given_, [index](const Replica& replica) { return replica.second == index; });
}

bool FleetCore::PlacerDecidesShare(const Known& known) const {
  return known.resized ? known.resized->second.automatic : known.tuned.load();
}

/// What an operator has said of a model's share holds for its new replica too.
void FleetCore::ResizeAgain(const Replica& replica) {
  const MutexLock lock(share_mutex_);
  const KnownPtr known = Find(replica.first);
  const auto& resized = known->resized;
  if (!resized) return;
  ShareControl* const shares = slots_[replica.second]->core->shares();
  if (shares == nullptr) return;
  const Status again = shares->ResizeShare(replica.first, resized->first, resized->second);
  if (again) return;
  spdlog::warn("fleet: the share of model '{}' on '{}' is not what an operator has set: {}",
               replica.first, slots_[replica.second]->name, again.error().message);
}

/// As the member has them, or has told them last. Empty: the device is lost, or the server has told
/// of none.
std::optional<SharesReport> FleetCore::SharesOf(const Member& member) {
  if (member.link != nullptr) return member.link->Shares();
  Result<SharesReport> report = member.core->shares()->ReadShares();
  return report ? std::optional(*std::move(report)) : std::nullopt;
}

/// `wanted` without what a server shall keep: it tunes a share again only if the placer has set it,
/// so that what an operator has set there stays.
std::vector<ReplicaShare> FleetCore::WithoutOthers(std::size_t index, const SharesReport& report,
                                                   const std::vector<ReplicaShare>& wanted) {
  const bool current = !slots_[index]->link->Resizing();
  std::vector<ReplicaShare> kept;
  for (const ReplicaShare& share : wanted) {
    const Replica replica(share.model, index);
    const bool tuned = std::ranges::none_of(report.models, [&](const ModelShare& row) {
      return row.model == share.model && (row.fixed || row.ceiling > 0);
    });
    if (share.part) {
      given_.insert(replica);
    } else if (current && tuned) {
      given_.erase(replica);
    }
    if (given_.contains(replica)) kept.push_back(share);
  }
  return kept;
}

void FleetCore::SetSharesOf(std::size_t index, const std::vector<ReplicaShare>& wanted) {
  const Member& member = *slots_[index];
  const std::optional<SharesReport> report = SharesOf(member);
  if (!report) return;
  const std::vector<ReplicaShare> own =
      member.link == nullptr ? wanted : WithoutOthers(index, *report, wanted);
  for (const ShareResize& resize : SharesToSet(*report, own)) {
    if (member.link != nullptr) {
      member.link->ResizeShare(resize.model, resize.version, resize.wanted);
      continue;
    }
    const Status resized =
        member.core->shares()->ResizeShare(resize.model, resize.version, resize.wanted);
    if (resized || resized.error().message == share_problem_) continue;
    share_problem_ = resized.error().message;
    spdlog::warn("fleet: a share on '{}' stays as it is: {}", member.name, share_problem_);
  }
}

/// Replicas that have no route any more go. Those that have no request in flight are unloaded now,
/// the others by a later decision.
void FleetCore::Retire(const std::set<Replica>& replicas, TimePoint now) {
  for (const Replica& replica : replicas) leaving_.emplace(replica, now);
  UnloadIdle(now);
}

void FleetCore::UnloadIdle(TimePoint now) {
  std::vector<Replica> idle;
  for (auto& [replica, since] : leaving_) {
    const std::vector<RequestHandle> left = routes_.InFlight(replica.first, replica.second);
    if (left.empty()) idle.push_back(replica);
    if (left.empty() || now - since < options_.rules.longest_drain) continue;
    since = now;  // those that do not end then are cancelled again after as long
    spdlog::warn("fleet: {} requests of model '{}' on '{}' are cancelled: the replica is to go",
                 left.size(), replica.first, slots_[replica.second]->name);
    for (const RequestHandle handle : left) Cancel(handle);
  }
  for (const Replica& replica : idle) leaving_.erase(replica);
  Unload(idle);
}

void FleetCore::Unload(const std::vector<Replica>& replicas) {
  std::vector<std::pair<Replica, std::future<Status>>> unloading;
  for (const Replica& replica : replicas) {
    const auto& [model, member] = replica;
    Inference& core = *slots_[member]->core;
    if (slots_[member]->link == nullptr) {  // a link keeps its counts
      const MutexLock lock(mutex_);
      if (auto counts = core.Statistics(model, "")) {
        for (ModelStatistics& row : *counts) {
          row.pending = 0;
          row.most_rows = 0;
          row.share = 0;
        }
        AddStatistics(former_, *counts);
      }
      retiring_.insert(replica);
    }
    auto promise = std::make_shared<std::promise<Status>>();
    unloading.emplace_back(replica, promise->get_future());
    core.repository()->UnloadModel(
        model, [promise](Status status) { promise->set_value(std::move(status)); });
  }
  for (auto& [replica, done] : unloading) {
    const Status unloaded = done.get();
    const std::string& device = slots_[replica.second]->name;
    if (unloaded) {
      ++unloads_;
      spdlog::info("fleet: model '{}' is unloaded on '{}'", replica.first, device);
    } else {
      spdlog::warn("fleet: model '{}' is not unloaded on '{}': {}", replica.first, device,
                   unloaded.error().message);
    }
    const MutexLock lock(mutex_);
    retiring_.erase(replica);
  }
}

}  // namespace lagoon
