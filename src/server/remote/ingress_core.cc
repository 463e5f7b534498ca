#include "server/remote/ingress_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "server/remote/ingress_flight.h"
#include "server/remote/replica_choice.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {
IngressCore::IngressCore(const IngressOptions& options)
    : options_(options),
      queue_(options.threads),
      members_(queue_, options.remote),
      random_(options.seed) {}

IngressCore::~IngressCore() { Drain(Now()); }

Status IngressCore::SetRoutes(const Routes& routes) { return members_.Set(routes); }

std::vector<MemberState> IngressCore::Members() const {
  std::vector<MemberState> states;
  const auto table = members_.Table();
  for (const IngressReplica& replica : table->members) {
    const RemoteCore& core = replica.member->core;
    MemberState& state = states.emplace_back(
        MemberState{replica.member->name, core.address(), core.Ready(), core.InFlight(), {}});
    for (const ModelStatus& model : core.Models()) state.models.push_back(model.name);
  }
  return states;
}

bool IngressCore::Ready() const {
  {
    MutexLock lock(mutex_);
    if (draining_) return false;
  }
  const auto table = members_.Table();
  return std::ranges::any_of(
      table->members, [](const IngressReplica& replica) { return replica.member->core.Ready(); });
}

std::vector<ModelStatus> IngressCore::Models() const {
  std::map<std::string, ModelStatus> models;
  const auto table = members_.Table();
  for (const IngressReplica& replica : table->members) {
    for (ModelStatus& model : replica.member->core.Models()) {
      const auto* replicas = table->Replicas(model.name);
      if (replicas != nullptr) models.emplace(model.name, std::move(model));
    }
  }
  std::vector<ModelStatus> list;
  for (auto& [name, model] : models) list.push_back(std::move(model));
  return list;
}

Result<IngressCore::Member> IngressCore::Choose(const std::string& model,
                                                const std::string& version,
                                                const IngressMember* avoid) const {
  const auto table = members_.Table();
  const std::vector<IngressReplica>* replicas = table->Replicas(model);
  if (replicas == nullptr) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("model {}: the fleet has no route for it", Quoted(model)));
  }
  std::vector<ReplicaState> states;
  states.reserve(replicas->size());
  std::optional<std::size_t> avoided;
  for (const IngressReplica& replica : *replicas) {
    if (replica.member.get() == avoid) avoided = states.size();
    const RemoteCore& core = replica.member->core;
    states.push_back({replica.fraction, core.QueueOf(model), core.Serves(model, version)});
  }
  std::array<double, 2> draws{};
  {
    MutexLock lock(draw_mutex_);
    for (double& draw : draws) draw = random_.Uniform();
  }
  if (const auto pick = PickReplica(states, avoided, draws)) return (*replicas)[*pick].member;
  // Without routes for models, a member that is there and does not have the model tells that there
  // is no such model.
  const bool unknown =
      !table->routes.models && std::ranges::all_of(*replicas, [](const IngressReplica& replica) {
        return replica.member->core.Ready();
      });
  return Fail(unknown && !replicas->empty() ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
              fmt::format("model {}, version {}: none of its {} members has it ready",
                          Quoted(model), Quoted(version), replicas->size()));
}

Status IngressCore::ModelReady(const std::string& model, const std::string& version) const {
  LAGOON_RETURN_IF_ERROR(Choose(model, version, nullptr));
  return {};
}

Result<ModelMetadata> IngressCore::Metadata(const std::string& model,
                                            const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const Member member, Choose(model, version, nullptr));
  return member->core.Metadata(model, version);
}

Result<inference::ModelConfig> IngressCore::Config(const std::string& model,
                                                   const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const Member member, Choose(model, version, nullptr));
  return member->core.Config(model, version);
}

Result<std::vector<ModelStatistics>> IngressCore::Statistics(const std::string& model,
                                                             const std::string& version) const {
  if (!model.empty()) LAGOON_RETURN_IF_ERROR(ModelReady(model, version));
  std::vector<ModelStatistics> rows;
  MutexLock lock(mutex_);
  for (const auto& [name, counts] : counts_) {
    if (!model.empty() && name != model) continue;
    ModelStatistics& row = rows.emplace_back();
    counts->recorder.Read(row);
    row.name = name;
    row.batches.clear();  // the members know their batches
    row.pending = counts->in_flight.load(std::memory_order_relaxed);
  }
  return rows;
}

std::shared_ptr<IngressCore::Counts> IngressCore::CountsOf(const std::string& model) {
  std::shared_ptr<Counts>& counts = counts_[model];
  if (counts == nullptr) counts = std::make_shared<Counts>();
  return counts;
}

}  // namespace lagoon
