#include "serving/fleet/fleet_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "base/text.h"
#include "policies/registry.h"
#include "serving/config/model_config.pb.h"
#include "serving/core/repository_control.h"
#include "serving/core/server_id.h"
#include "serving/fleet/fleet_sums.h"

namespace lagoon {
namespace {

/// What several members answer to one call: `done` is called when all have answered, with the first
/// error.
class AllAnswers {
 public:
  AllAnswers(std::size_t members, std::function<void(Status)> done)
      : left_(members), done_(std::move(done)) {}

  void Answer(Status status) {
    Status result;
    {
      const MutexLock lock(mutex_);
      if (!status && result_) result_ = std::move(status);
      if (--left_ > 0) return;
      result = std::move(result_);
    }
    done_(std::move(result));
  }

 private:
  Mutex mutex_;
  std::size_t left_ GUARDED_BY(mutex_);
  Status result_ GUARDED_BY(mutex_);
  const std::function<void(Status)> done_;
};

/// Whether a fleet can place replicas on the member.
Status CheckFacets(const FleetMember& member) {
  if (member.link != nullptr) return {};
  const auto lacks = [&](const char* what) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("device '{}' cannot be of a fleet: it has no {}", member.name, what));
  };
  if (member.core->repository() == nullptr) return lacks("repository");
  if (member.core->shares() == nullptr) return lacks("shares");
  if (member.core->schedulers() == nullptr) return lacks("scheduler");
  return {};
}

}  // namespace

FleetCore::FleetCore(FleetOptions options, std::vector<FleetMember> members)
    : options_(std::move(options)), id_(NewServerId()) {
  const MutexLock lock(members_mutex_);
  for (FleetMember& member : members) {
    has_devices_ = has_devices_ || member.link == nullptr;
    members_.push_back(std::make_shared<Member>(std::move(member)));
  }
}

Result<std::unique_ptr<FleetCore>> FleetCore::Make(FleetOptions options,
                                                   std::vector<FleetMember> members) {
  if (members.empty() && !options.connect) {
    return Fail(ErrorCode::kInvalidArgument, "a fleet needs a device, has none");
  }
  for (const FleetMember& member : members) LAGOON_RETURN_IF_ERROR(CheckFacets(member));
  std::unique_ptr<FleetCore> fleet(new FleetCore(std::move(options), std::move(members)));
  {
    const MutexLock lock(fleet->known_mutex_);
    for (const FleetModel& model : fleet->options_.models) {
      fleet->known_[model.name] = std::make_shared<Known>(model);
    }
  }
  fleet->FollowMembers(Now());
  LAGOON_ASSIGN_OR_RETURN(
      fleet->keeper_, PlacementKeeper::Start(*fleet, fleet->options_.placer,
                                             fleet->options_.make_placer, fleet->options_.rules));
  return fleet;
}

FleetCore::~FleetCore() {
  Drain(Now());  // so that the keeper does not wait for requests
  keeper_.reset();
  slots_.clear();
  for (auto& member : AllSlots()) {
    if (member != nullptr) gone_.push_back(std::move(member));
  }
  {
    const MutexLock lock(members_mutex_);
    members_.clear();
  }
  // A thread that has just answered a request may still hold its member, which must not end there.
  for (const auto& member : gone_) {
    while (member.use_count() > 1) std::this_thread::yield();
  }
}

bool FleetCore::Ready() const {
  if (draining_.load()) return false;
  return std::ranges::any_of(Members(), [](const auto& member) {
    return !member->out() && member->followed.load() && member->core->Ready();
  });
}

std::vector<ModelStatus> FleetCore::Models() const {
  std::vector<std::vector<ModelStatus>> all;
  for (const auto& member : Members()) {
    if (!member->out()) all.push_back(member->core->Models());
  }
  return JoinStatuses(all);
}

Status FleetCore::CheckVersion(const std::string& model, const std::string& version) const {
  const bool may_be = IsVersion(version) && version.find_first_not_of('0') != version.npos;
  if (version.empty() || may_be || Find(model) == nullptr) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("model {}: version {} is no whole number from 1", Quoted(model),
                          Quoted(version)));
}

/// The members to which requests for the model go, the first one first.
FleetCore::Slots FleetCore::RoutedTo(const std::string& model) const {
  Slots members;
  for (const FleetRoute& route : routes_.Of(model)) {
    if (auto member = MemberAt(route.member)) members.push_back(std::move(member));
  }
  return members;
}

Result<std::shared_ptr<FleetCore::Member>> FleetCore::Serving(const std::string& model,
                                                              const std::string& version) const {
  LAGOON_RETURN_IF_ERROR(CheckVersion(model, version));
  std::shared_ptr<Member> best;
  std::string latest;
  std::optional<Error> lacks;  // a member has the model, in other versions
  for (const auto& member : RoutedTo(model)) {
    if (const Status ready = member->core->ModelReady(model, version); !ready) {
      if (!lacks && member->core->ModelReady(model, "")) lacks = ready.error();
      continue;
    }
    std::string highest = member->link == nullptr ? "" : member->link->Latest(model);
    if (best != nullptr && (!version.empty() || !IsHigherVersion(highest, latest))) continue;
    best = member;
    latest = std::move(highest);
  }
  if (best != nullptr) return best;
  return tl::unexpected<Error>(lacks ? *std::move(lacks) : NoReplica(model));
}

Error FleetCore::NoReplica(const std::string& model) const {
  if (Find(model) == nullptr) {
    for (const auto& member : Members()) {
      if (member->leaves.load()) continue;
      if (std::optional<Error> told = member->Told(model)) return *std::move(told);
    }
    for (const auto& member : Members()) {
      const bool may_have = !member->leaves.load() && !member->heard.load();
      if (!may_have || !member->Problem().empty()) continue;
      const std::string absence = member->link == nullptr ? "" : member->link->Absence();
      return {
          ErrorCode::kUnavailable,
          fmt::format("model {} is not known yet: member {} has not told yet what it has{}{}",
                      Quoted(model), Quoted(member->name), absence.empty() ? "" : ": ", absence)};
    }
    return {ErrorCode::kNotFound,
            fmt::format("Request for unknown model: {} is not found", Quoted(model))};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("model {} has no replica now; the server's log and /v2/fleet say why",
                      Quoted(model))};
}

Status FleetCore::ModelReady(const std::string& model, const std::string& version) const {
  LAGOON_RETURN_IF_ERROR(Serving(model, version));
  return {};
}

Result<ModelMetadata> FleetCore::Metadata(const std::string& model,
                                          const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<Member> serving, Serving(model, version));
  LAGOON_ASSIGN_OR_RETURN(ModelMetadata metadata, serving->core->Metadata(model, version));
  for (const auto& member : RoutedTo(model)) {
    const Result<ModelMetadata> other = member->core->Metadata(model, "");
    if (!other) continue;
    for (const std::string& also : other->versions) {
      if (std::ranges::count(metadata.versions, also) == 0) metadata.versions.push_back(also);
    }
  }
  std::ranges::sort(metadata.versions, [](const std::string& a, const std::string& b) {
    return IsHigherVersion(b, a);
  });
  return metadata;
}

Result<inference::ModelConfig> FleetCore::Config(const std::string& model,
                                                 const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<Member> serving, Serving(model, version));
  return serving->core->Config(model, version);
}

Result<std::vector<ModelStatistics>> FleetCore::Statistics(const std::string& model,
                                                           const std::string& version) const {
  if (!model.empty()) LAGOON_RETURN_IF_ERROR(ModelReady(model, version));
  std::vector<ModelStatistics> sums;
  {
    // Held while the members are asked, so that a replica counts either there or in former_.
    const MutexLock lock(mutex_);
    AddStatistics(sums, former_);
    const Slots slots = AllSlots();
    for (std::size_t member = 0; member < slots.size(); ++member) {
      if (slots[member] == nullptr) continue;
      auto rows = slots[member]->core->Statistics("", "");
      if (!rows) continue;  // the member is lost
      std::vector<ModelStatistics> counted;
      for (ModelStatistics& row : *rows) {
        const bool known = slots[member]->link == nullptr || Find(row.name) != nullptr;
        if (known && !retiring_.contains({row.name, member})) counted.push_back(std::move(row));
      }
      AddStatistics(sums, counted);
    }
  }
  std::erase_if(sums, [&](const ModelStatistics& row) {
    return (!model.empty() && row.name != model) || (!version.empty() && row.version != version);
  });
  std::ranges::sort(sums, {}, [](const ModelStatistics& row) {
    return std::tuple(row.name, row.version.size(), row.version);  // versions are numbers
  });
  return sums;
}

DispatcherStats FleetCore::SchedulerStatistics() const {
  std::vector<DispatcherStats> all;
  for (const auto& member : Devices()) {
    all.push_back(member->core->schedulers()->SchedulerStatistics());
  }
  return SumOf(all);
}

std::vector<TenantStatistics> FleetCore::Tenants() const {
  std::map<std::string, std::uint64_t> sums;
  for (const auto& member : Devices()) {
    for (const TenantStatistics& tenant : member->core->schedulers()->Tenants()) {
      sums[tenant.name] += tenant.kernels;
    }
  }
  std::vector<TenantStatistics> tenants;
  for (const auto& [name, kernels] : sums) tenants.push_back({name, kernels});
  return tenants;
}

SchedulerConfig FleetCore::scheduler() const {
  return Devices().front()->core->schedulers()->scheduler();
}

void FleetCore::SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) {
  const std::string choice = ChoiceOf(scheduler.config).Text();
  const Slots devices = Devices();
  const auto answers = std::make_shared<AllAnswers>(devices.size(), std::move(done));
  for (const auto& member : devices) {
    const auto answer = [answers, name = member->name](Status status) {
      if (status) return answers->Answer({});
      answers->Answer(Annotate(fmt::format("device '{}'", name), Error(std::move(status).error())));
    };
    Result<Scheduler> made = MakeScheduler(choice);  // a policy is of one device
    if (!made) {
      answer(tl::unexpected<Error>(made.error()));
      continue;
    }
    member->core->schedulers()->SwitchScheduler(*std::move(made), answer);
  }
}

DeviceInfo FleetCore::device() const {
  std::vector<DeviceInfo> all;
  for (const auto& member : Devices()) all.push_back(member->core->schedulers()->device());
  return SumOf(all);
}

Result<SharesReport> FleetCore::ReadShares() const {
  SharesReport joined;
  bool any = false;
  Error first;
  for (const auto& member : Devices()) {
    Result<SharesReport> report = member->core->shares()->ReadShares();
    if (!report) {
      first = report.error();
      continue;
    }
    if (!any) {
      joined = *std::move(report);
    } else {
      joined.units += report->units;
      std::ranges::move(report->models, std::back_inserter(joined.models));
    }
    any = true;
  }
  if (!any) return tl::unexpected<Error>(first);
  return joined;
}

Status FleetCore::SetSharesRules(const SharesRules& rules) {
  Status first;
  for (const auto& member : Devices()) {
    const Status set = member->core->shares()->SetSharesRules(rules);
    if (!set && first) first = set;
  }
  return first;
}

Status FleetCore::ResizeShare(const std::string& model, const std::string& version,
                              const ShareWanted& wanted) {
  const std::vector<FleetRoute> routes = routes_.Of(model);
  if (routes.empty()) return tl::unexpected<Error>(NoReplica(model));
  const MutexLock lock(share_mutex_);
  std::vector<std::pair<ShareControl*, ShareResize>> before;  // of the members that have resized
  for (const FleetRoute& route : routes) {
    const std::shared_ptr<Member> member = MemberAt(route.member);
    if (member == nullptr || member->core->shares() == nullptr) continue;
    ShareControl& shares = *member->core->shares();
    const Result<SharesReport> report = shares.ReadShares();
    if (Status resized = shares.ResizeShare(model, version, wanted); !resized) {
      for (auto& [changed, share] : before) {
        (void)changed->ResizeShare(share.model, share.version, share.wanted);
      }
      return Annotate(fmt::format("device '{}'", member->name), Error(resized.error()));
    }
    if (!report) continue;
    for (ShareResize& share : SharesBefore(*report, model, version)) {
      before.emplace_back(&shares, std::move(share));
    }
  }
  if (const KnownPtr known = Find(model)) known->resized = {version, wanted};
  return {};
}

void FleetCore::Drain(TimePoint until) {
  draining_.store(true);
  {
    const MutexLock lock(share_mutex_);
    const Slots slots = AllSlots();
    for (std::size_t index = 0; index < slots.size(); ++index) {
      if (slots[index] != nullptr) GiveBack(index, *slots[index]);
    }
  }
  for (const auto& member : Members()) member->core->Drain(until);
}

FleetDeviceReport FleetCore::DeviceReport(const Member& member) {
  SchedulerControl* const schedulers = member.core->schedulers();
  const DeviceInfo info = schedulers == nullptr ? DeviceInfo() : schedulers->device();
  FleetDeviceReport report;
  report.name = member.name;
  report.description = info.description;
  report.ready = member.core->Ready() && !member.out() && member.followed.load();
  report.units = info.units;
  report.memory_bytes = member.memory_bytes;
  report.address = member.address;
  report.problem = member.link == nullptr ? "" : member.link->Absence();
  if (const std::string problem = member.Problem(); !problem.empty()) report.problem = problem;
  report.told = member.asked.load();
  return report;
}

/// The members of a report, by number. One that leaves is not among them when another has its name.
FleetCore::Slots FleetCore::SlotsToTell() const {
  Slots slots = AllSlots();
  for (auto& slot : slots) {
    if (slot == nullptr || !slot->leaves.load()) continue;
    const bool again = std::ranges::any_of(slots, [&slot](const auto& other) {
      return other != nullptr && other->joined > slot->joined && other->name == slot->name;
    });
    if (again) slot = nullptr;
  }
  return slots;
}

std::vector<std::string> FleetCore::Fronts() const {
  std::vector<std::string> fronts{id_};
  for (const auto& member : Members()) {
    if (member->link == nullptr || member->leaves.load()) continue;
    for (std::string& front : member->link->Fronts()) {
      const bool is_new = std::ranges::count(fronts, front) == 0;
      if (is_new && fronts.size() < kMostFronts) fronts.push_back(std::move(front));
    }
  }
  return fronts;
}

Status FleetCore::SetPlacer(const std::string& name) { return keeper_->SetPlacer(name); }

FleetReport FleetCore::ReadFleet() const {
  FleetReport report;
  const PlacementKeeper::Report decided = keeper_->Read();
  report.placer = decided.placer;
  report.last = decided.last;
  report.decisions = decided.decisions;
  report.loads = loads_.load();
  report.unloads = unloads_.load();
  report.failed_loads = failed_loads_.load();
  report.retries = retries_.load();
  const Slots slots = SlotsToTell();
  std::vector<std::size_t> device_of(slots.size());
  for (std::size_t index = 0; index < slots.size(); ++index) {
    device_of[index] = report.devices.size();
    if (slots[index] != nullptr) report.devices.push_back(DeviceReport(*slots[index]));
  }
  for (const KnownPtr& known : AllKnown()) {
    report.models.push_back({known->model.name, known->load.Read(Now()).arrivals_per_s,
                             Nanoseconds(known->slo.load()), Nanoseconds(known->standalone.load()),
                             known->model.memory_bytes});
  }
  for (const auto& [model, members] : routes_.Loads()) {
    const std::vector<FleetRoute> routes = routes_.Of(model);
    double sum = 0;
    for (const FleetRoute& route : routes) sum += route.fraction;
    for (std::size_t member = 0; member < slots.size(); ++member) {
      if (slots[member] == nullptr) continue;
      const auto route = std::ranges::find(routes, member, &FleetRoute::member);
      const auto load = members.find(member);
      const FleetRoutes::Load counts = load == members.end() ? FleetRoutes::Load() : load->second;
      const bool serves = route != routes.end();
      if (!serves && counts.in_flight == 0) continue;
      report.replicas.push_back(
          {model, device_of[member],
           serves ? FleetReplicaReport::State::kServing : FleetReplicaReport::State::kRetiring,
           serves ? route->fraction / sum : 0, counts.requests, counts.in_flight,
           BatchTimesOf({model, member})});
    }
  }
  return report;
}

std::optional<BatchTimesReport> FleetCore::BatchTimesOf(const Replica& replica) const {
  const MutexLock lock(mutex_);
  const auto found = times_.find(replica);
  return found == times_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace lagoon
