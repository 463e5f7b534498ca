#include "serving/fleet/fleet_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "policies/registry.h"
#include "serving/config/model_config.pb.h"
#include "serving/core/repository_control.h"
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
    : options_(std::move(options)),
      members_(std::move(members)),
      ready_(members_.size()),
      shares_(members_.size()) {}

Result<std::unique_ptr<FleetCore>> FleetCore::Make(FleetOptions options,
                                                   std::vector<FleetMember> members) {
  if (members.empty()) return Fail(ErrorCode::kInvalidArgument, "a fleet needs a device, has none");
  for (const FleetMember& member : members) LAGOON_RETURN_IF_ERROR(CheckFacets(member));
  std::unique_ptr<FleetCore> fleet(new FleetCore(std::move(options), std::move(members)));
  for (const FleetModel& model : fleet->options_.models) {
    fleet->known_[model.name] = std::make_unique<Known>(model);
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
}

bool FleetCore::Ready() const {
  if (draining_.load()) return false;
  return std::ranges::any_of(members_,
                             [](const FleetMember& member) { return member.core->Ready(); });
}

std::vector<ModelStatus> FleetCore::Models() const {
  std::vector<std::vector<ModelStatus>> all;
  for (const FleetMember& member : members_) all.push_back(member.core->Models());
  return JoinStatuses(all);
}

/// The core of the first member that serves the model; null if there is none.
const Inference* FleetCore::Serving(const std::string& model) const {
  for (const FleetRoute& route : routes_.Of(model)) {
    const Inference& core = *members_[route.member].core;
    if (core.ModelReady(model, "")) return &core;
  }
  return nullptr;
}

Error FleetCore::NoReplica(const std::string& model) const {
  if (!known_.contains(model)) {
    return {ErrorCode::kNotFound, fmt::format("model {} is not in the repository", Quoted(model))};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("model {} has no replica now; the server's log and /v2/fleet say why",
                      Quoted(model))};
}

Status FleetCore::ModelReady(const std::string& model, const std::string& version) const {
  const Inference* const core = Serving(model);
  if (core == nullptr) return tl::unexpected<Error>(NoReplica(model));
  return core->ModelReady(model, version);
}

Result<ModelMetadata> FleetCore::Metadata(const std::string& model,
                                          const std::string& version) const {
  const Inference* const core = Serving(model);
  if (core == nullptr) return tl::unexpected<Error>(NoReplica(model));
  return core->Metadata(model, version);
}

Result<inference::ModelConfig> FleetCore::Config(const std::string& model,
                                                 const std::string& version) const {
  const Inference* const core = Serving(model);
  if (core == nullptr) return tl::unexpected<Error>(NoReplica(model));
  return core->Config(model, version);
}

Result<std::vector<ModelStatistics>> FleetCore::Statistics(const std::string& model,
                                                           const std::string& version) const {
  if (!model.empty()) LAGOON_RETURN_IF_ERROR(ModelReady(model, version));
  std::vector<ModelStatistics> sums;
  {
    // Held while the members are asked, so that a replica counts either there or in former_.
    const MutexLock lock(mutex_);
    AddStatistics(sums, former_);
    for (std::size_t member = 0; member < members_.size(); ++member) {
      auto rows = members_[member].core->Statistics("", "");
      if (!rows) continue;  // the member is lost
      std::vector<ModelStatistics> counted;
      for (ModelStatistics& row : *rows) {
        if (!retiring_.contains({row.name, member})) counted.push_back(std::move(row));
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
  for (const FleetMember& member : members_)
    all.push_back(member.core->schedulers()->SchedulerStatistics());
  return SumOf(all);
}

SchedulerConfig FleetCore::scheduler() const {
  return members_.front().core->schedulers()->scheduler();
}

void FleetCore::SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) {
  const std::string choice = ChoiceOf(scheduler.config).Text();
  const auto answers = std::make_shared<AllAnswers>(members_.size(), std::move(done));
  for (const FleetMember& member : members_) {
    const auto answer = [answers, name = member.name](Status status) {
      if (status) return answers->Answer({});
      answers->Answer(Annotate(fmt::format("device '{}'", name), Error(std::move(status).error())));
    };
    Result<Scheduler> made = MakeScheduler(choice);  // a policy is of one device
    if (!made) {
      answer(tl::unexpected<Error>(made.error()));
      continue;
    }
    member.core->schedulers()->SwitchScheduler(*std::move(made), answer);
  }
}

DeviceInfo FleetCore::device() const {
  std::vector<DeviceInfo> all;
  for (const FleetMember& member : members_) all.push_back(member.core->schedulers()->device());
  return SumOf(all);
}

Result<SharesReport> FleetCore::ReadShares() const {
  SharesReport joined;
  bool any = false;
  Error first;
  for (const FleetMember& member : members_) {
    Result<SharesReport> report = member.core->shares()->ReadShares();
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
  for (const FleetMember& member : members_) {
    const Status set = member.core->shares()->SetSharesRules(rules);
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
    const FleetMember& member = members_[route.member];
    ShareControl& shares = *member.core->shares();
    const Result<SharesReport> report = shares.ReadShares();
    if (Status resized = shares.ResizeShare(model, version, wanted); !resized) {
      for (auto& [changed, share] : before) {
        (void)changed->ResizeShare(share.model, share.version, share.wanted);
      }
      return Annotate(fmt::format("device '{}'", member.name), Error(resized.error()));
    }
    if (!report) continue;
    for (ShareResize& share : SharesBefore(*report, model, version)) {
      before.emplace_back(&shares, std::move(share));
    }
  }
  known_.at(model)->resized = {version, wanted};
  return {};
}

RequestHandle FleetCore::Infer(InferRequest request, InferCallback callback) {
  const auto known = known_.find(request.model);
  if (known != known_.end()) {
    Known& model = *known->second;
    const bool has_rows = model.most_rows.load() > 0 && !request.inputs.empty() &&
                          !request.inputs.front().dims.empty();
    model.load.Arrived(has_rows ? std::max<std::int64_t>(1, request.inputs.front().dims[0]) : 1,
                       Now());
  }
  const std::optional<FleetRoutes::Begun> begun =
      draining_.load() ? std::nullopt : routes_.Begin(request.model);
  if (!begun) {
    request.payload.reset();
    callback(tl::unexpected<Error>(
        draining_.load() ? Error{ErrorCode::kUnavailable, "the server is shutting down"}
                         : NoReplica(request.model)));
    return RequestHandle{};
  }
  const RequestHandle handle = begun->handle;
  Inference& core = *members_[begun->member].core;
  const RequestHandle of_member =
      core.Infer(std::move(request),
                 [this, handle, callback = std::move(callback)](Result<InferResponse> answer) {
                   routes_.End(handle);  // the last use of the fleet
                   callback(std::move(answer));
                 });
  if (of_member == RequestHandle{}) return RequestHandle{};
  if (routes_.Taken(handle, of_member)) core.Cancel(of_member);
  return handle;
}

void FleetCore::Cancel(RequestHandle handle) {
  const auto of_member = routes_.Cancel(handle);
  if (of_member) members_[of_member->first].core->Cancel(of_member->second);
}

void FleetCore::Drain(TimePoint until) {
  draining_.store(true);
  for (const FleetMember& member : members_) member.core->Drain(until);
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
  for (const FleetMember& member : members_) {
    const DeviceInfo info = member.core->schedulers()->device();
    report.devices.push_back({member.name, info.description, member.core->Ready(), info.units,
                              member.room.memory_bytes});
  }
  for (const auto& [name, known] : known_) {
    report.models.push_back({name, known->load.Read(Now()).arrivals_per_s,
                             Nanoseconds(known->slo.load()), Nanoseconds(known->standalone.load()),
                             known->model.memory_bytes});
  }
  const auto loads = routes_.Loads();
  for (const auto& [model, members] : loads) {
    const std::vector<FleetRoute> routes = routes_.Of(model);
    double sum = 0;
    for (const FleetRoute& route : routes) sum += route.fraction;
    for (std::size_t member = 0; member < members_.size(); ++member) {
      const auto route = std::ranges::find(routes, member, &FleetRoute::member);
      const auto load = members.find(member);
      const FleetRoutes::Load counts = load == members.end() ? FleetRoutes::Load() : load->second;
      const bool serves = route != routes.end();
      if (!serves && counts.in_flight == 0) continue;
      report.replicas.push_back(
          {model, member,
           serves ? FleetReplicaReport::State::kServing : FleetReplicaReport::State::kRetiring,
           serves ? route->fraction / sum : 0, counts.requests, counts.in_flight});
    }
  }
  return report;
}

}  // namespace lagoon
