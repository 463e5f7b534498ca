// Models and replicas that come, go and change.

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "cluster/checks.h"
#include "sim/cluster/cluster_sim.h"

namespace lagoon {
namespace {

using State = SimReplica::State;

std::unique_ptr<BatchLimiter> LimiterOf(const ModelSpec& model, std::uint32_t seed) {
  if (model.batching.limiter.empty()) return nullptr;
  auto made = MakeBatchLimiter(
      model.batching.limiter,
      {.slo = model.slo, .slo_of = model.slo_of, .most = model.batching.rows, .seed = seed});
  LAGOON_CHECK(made.has_value());  // CheckCluster() has tried
  return *std::move(made);
}

}  // namespace

std::size_t ClusterSim::AddReplica(const ReplicaSpec& spec) {
  const std::size_t index = replicas_.size();
  SimReplica& replica = replicas_.emplace_back();
  const ModelSpec& model = spec_.models[spec.model];
  replica.spec = spec;
  replica.rows = spec.rows > 0 ? spec.rows : model.batching.rows;
  replica.limiter = LimiterOf(model, spec_.seed + static_cast<std::uint32_t>(index));
  return index;
}

// The replica takes its memory; its granules it takes when it begins to serve.
void ClusterSim::Load(std::size_t index, Nanoseconds ready) {
  SimReplica& replica = replicas_[index];
  Device& device = devices_[replica.spec.gpu];
  device.memory += spec_.models[replica.spec.model].memory_bytes;
  device.replicas.push_back(index);
  replica.state = State::kLoading;
  replica.ready = ready;
  Push(ready, Kind::kServe, replica.spec.gpu);
}

// Whether the granules that the replica takes when it serves are free. Those that another one grows
// to are not.
bool ClusterSim::HasRoom(const SimReplica& replica) const {
  return UsedGranules(replica.spec.gpu) + replica.spec.granules <=
         spec_.gpus[replica.spec.gpu].granules;
}

void ClusterSim::StartModel(std::size_t index) {
  const ModelSpec& spec = spec_.models[index];
  Model& model = models_[index];
  const bool later = spec.start > Nanoseconds(0);
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    SimReplica& replica = replicas_[i];
    if (replica.spec.model != index || replica.state != State::kPending) continue;
    // Without room the controller decides about the share.
    if (!HasRoom(replica)) replica.spec.granules = 0;
    Load(i, now_ + (later ? spec.load : Nanoseconds(0)));
    if (!later) ApplyChanges(replica.spec.gpu);
  }
  UpdateTargets(index);
  model.next = model.arrivals.Next();
  if (later) controller_->OnStart(*this, index);
  const std::int64_t clients =
      spec.arrivals.kind == ArrivalKind::kClosedLoop ? spec.arrivals.clients : 0;
  for (std::int64_t i = 0; i < clients; ++i) Route(index, now_);
  for (std::size_t gpu = 0; gpu < devices_.size(); ++gpu) Serve(gpu);
}

void ClusterSim::StopModel(std::size_t index) {
  Pull(index);
  models_[index].next.reset();
  models_[index].stopped = true;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (replicas_[i].spec.model == index && replicas_[i].state != State::kGone) Retire(i);
  }
  controller_->OnStop(*this, index);
}

// Sends the model's requests to those that serve; to those that load if none serves.
void ClusterSim::UpdateTargets(std::size_t index) {
  std::vector<std::size_t>& targets = models_[index].targets;
  targets.clear();
  for (const State state : {State::kServing, State::kLoading}) {
    if (!targets.empty()) break;
    for (std::size_t i = 0; i < replicas_.size(); ++i) {
      replicas_[i].routed = replicas_[i].spec.model == index ? 0 : replicas_[i].routed;
      if (replicas_[i].spec.model == index && replicas_[i].state == state) targets.push_back(i);
    }
  }
}

void ClusterSim::HandOver(SimReplica& from) {
  const std::vector<std::size_t>& targets = models_[from.spec.model].targets;
  for (std::size_t turn = 0; !from.waiting.empty(); ++turn) {
    const Nanoseconds arrival = from.waiting.front();
    from.waiting.Pop();
    if (targets.empty()) {
      Drop(from.spec.model, now_);
    } else {
      replicas_[targets[turn % targets.size()]].waiting.Push(arrival);
    }
  }
  for (const std::size_t target : targets) Push(now_, Kind::kServe, replicas_[target].spec.gpu);
}

void ClusterSim::Retire(std::size_t index) {
  SimReplica& replica = replicas_[index];
  Device& device = devices_[replica.spec.gpu];
  const auto change = std::ranges::find(device.resizing, index, &Resizing::replica);
  std::uint32_t target = replica.spec.granules;
  if (change != device.resizing.end()) {
    target = change->granules;
    if (spec_.costs.resize == ResizeKind::kShadow) {
      device.memory -= spec_.models[replica.spec.model].memory_bytes;
    }
    device.resizing.erase(change);
  }
  if (spec_.mode == ShareMode::kShares) {
    if (replica.state == State::kServing) {
      device.committed -= target;
    } else {
      replica.spec.granules = 0;  // it never used them
    }
  }
  replica.state = State::kGone;
  UpdateTargets(replica.spec.model);
  HandOver(replica);
  FreeIfDrained(index);
}

void ClusterSim::FreeIfDrained(std::size_t index) {
  SimReplica& replica = replicas_[index];
  if (replica.state != State::kGone || replica.running > 0) return;
  Device& device = devices_[replica.spec.gpu];
  const auto place = std::ranges::find(device.replicas, index);
  if (place == device.replicas.end()) return;
  device.replicas.erase(place);
  device.memory -= spec_.models[replica.spec.model].memory_bytes;
  if (spec_.mode == ShareMode::kShares) device.used -= replica.spec.granules;
  Push(now_, Kind::kServe, replica.spec.gpu);
}

void ClusterSim::Activate(std::size_t index) {
  SimReplica& replica = replicas_[index];
  if (spec_.mode == ShareMode::kShares) {
    devices_[replica.spec.gpu].used += replica.spec.granules;
    devices_[replica.spec.gpu].committed += replica.spec.granules;
  }
  replica.state = State::kServing;
  UpdateTargets(replica.spec.model);
  if (replica.replaces) {
    ++report_.relocations;
    if (replicas_[*replica.replaces].state != State::kGone) Retire(*replica.replaces);
  }
  if (now_ > Nanoseconds(0)) controller_->OnResized(*this, index);
}

// Carries out what is due on a device: new shares, and replicas that are loaded.
void ClusterSim::ApplyChanges(std::size_t gpu) {
  Device& device = devices_[gpu];
  while (ApplyResize(gpu)) {
  }
  for (std::size_t i = 0; i < device.replicas.size(); ++i) {
    const SimReplica& replica = replicas_[device.replicas[i]];
    if (replica.state != State::kLoading || replica.ready > now_) continue;
    const bool shared = spec_.mode == ShareMode::kShares;
    if (!shared || (replica.spec.granules > 0 && HasRoom(replica))) Activate(device.replicas[i]);
  }
}

// The first change of a device takes place once its time has come, its granules are free, and no
// batch of the replica runs.
bool ClusterSim::ApplyResize(std::size_t gpu) {
  Device& device = devices_[gpu];
  if (device.resizing.empty()) return false;
  const Resizing change = device.resizing.front();
  SimReplica& replica = replicas_[change.replica];
  const std::uint32_t used = device.used - replica.spec.granules + change.granules;
  if (change.ready > now_ || used > spec_.gpus[gpu].granules) return false;
  if (replica.running > 0) {
    replica.ready = Nanoseconds::max();  // starts no other batch
    return false;
  }
  device.resizing.pop_front();
  device.used = used;
  replica.spec.granules = change.granules;
  replica.resizing = replica.stopped = false;
  replica.ready = now_ + spec_.costs.switch_idle;
  Push(replica.ready, Kind::kServe, gpu);
  if (spec_.costs.resize == ResizeKind::kShadow) {
    device.memory -= spec_.models[replica.spec.model].memory_bytes;
  }
  report_.moves.push_back({now_, change.replica, change.granules});
  controller_->OnResized(*this, change.replica);
  return true;
}

// A replica that loads takes its granules later: then it waits for room.
Status ClusterSim::CheckRoom(std::size_t gpu, std::uint32_t before, std::uint32_t after,
                             bool loading) const {
  if (spec_.mode != ShareMode::kShares) {
    return Fail(ErrorCode::kInvalidArgument, "there are shares only in ShareMode::kShares");
  }
  const std::uint32_t granules = spec_.gpus[gpu].granules;
  LAGOON_RETURN_IF_ERROR(CheckBounds("granules of a share", after, {1, 1.0 * granules}));
  if (loading) return {};
  const std::uint32_t all = devices_[gpu].committed - before + after;
  if (all <= granules) return {};
  return Fail(ErrorCode::kResourceExhausted,
              fmt::format("device {}: the shares would be {} granules of {}", gpu, all, granules));
}

Status ClusterSim::CheckMemory(std::size_t gpu, const ModelSpec& model) const {
  const std::int64_t needed = devices_[gpu].memory + model.memory_bytes;
  if (needed <= spec_.gpus[gpu].memory_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              fmt::format("device {}: with another copy of model {} its replicas need {} bytes of "
                          "{}",
                          gpu, Quoted(model.name), needed, spec_.gpus[gpu].memory_bytes));
}

Status ClusterSim::Resize(std::size_t index, std::uint32_t granules) {
  if (index >= replicas_.size() || replicas_[index].state == State::kGone ||
      replicas_[index].state == State::kPending) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("replica {} is not on a device, so it has no share", index));
  }
  SimReplica& replica = replicas_[index];
  if (replica.resizing) {
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("replica {}: a change of its share is under way; wait for OnResized()", index));
  }
  const std::size_t gpu = replica.spec.gpu;
  const ModelSpec& model = spec_.models[replica.spec.model];
  const bool loading = replica.state == State::kLoading;
  LAGOON_RETURN_IF_ERROR(CheckRoom(gpu, replica.spec.granules, granules, loading));
  if (!loading && spec_.costs.resize == ResizeKind::kShadow) {
    LAGOON_RETURN_IF_ERROR(CheckMemory(gpu, model));
    devices_[gpu].memory += model.memory_bytes;
  }
  Nanoseconds ready = now_;
  if (loading) {
    replica.spec.granules = granules;
  } else {
    devices_[gpu].committed += granules;
    devices_[gpu].committed -= replica.spec.granules;
    if (spec_.costs.resize != ResizeKind::kNextBatch) ready += model.resize;
    replica.resizing = true;
    replica.stopped = spec_.costs.resize == ResizeKind::kRestart;
    devices_[gpu].resizing.push_back({index, granules, ready});
  }
  Push(ready, Kind::kServe, gpu);
  return {};
}

Result<std::size_t> ClusterSim::Add(const ReplicaSpec& spec) {
  if (spec.model >= models_.size() || spec.gpu >= devices_.size()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a replica of model {} on device {}; there are {} models and {} devices",
                    spec.model, spec.gpu, models_.size(), devices_.size()));
  }
  LAGOON_RETURN_IF_ERROR(CheckBounds("places", spec.places, {1, 2}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("fraction", spec.fraction, {1e-6, 1e6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("rows", static_cast<double>(spec.rows), {0, 1024}));
  if (spec_.mode == ShareMode::kShares) {
    LAGOON_RETURN_IF_ERROR(CheckRoom(spec.gpu, 0, spec.granules, true));
  }
  const ModelSpec& model = spec_.models[spec.model];
  LAGOON_RETURN_IF_ERROR(CheckMemory(spec.gpu, model));
  const std::size_t index = AddReplica(spec);
  Load(index, now_ + model.load);
  UpdateTargets(spec.model);
  return index;
}

Result<std::size_t> ClusterSim::Relocate(std::size_t index, std::size_t gpu,
                                         std::uint32_t granules) {
  if (index >= replicas_.size() || replicas_[index].state == State::kGone) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("replica {} is gone", index));
  }
  ReplicaSpec spec = replicas_[index].spec;
  spec.gpu = gpu;
  spec.granules = granules;
  spec.rows = replicas_[index].rows;
  LAGOON_ASSIGN_OR_RETURN(const std::size_t added, Add(spec));
  replicas_[added].replaces = index;
  return added;
}

Status ClusterSim::Remove(std::size_t index) {
  if (index >= replicas_.size() || replicas_[index].state == State::kGone) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("replica {} is gone already", index));
  }
  Retire(index);
  return {};
}

Status ClusterSim::SetRows(std::size_t index, std::int64_t rows) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("rows of a batch", static_cast<double>(rows), {1, 1024}));
  if (index >= replicas_.size() || replicas_[index].limiter) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("replica {} does not exist or has a batch limiter", index));
  }
  replicas_[index].rows = rows;
  Push(now_, Kind::kServe, replicas_[index].spec.gpu);
  return {};
}

Status ClusterSim::SetFraction(std::size_t index, double fraction) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("fraction", fraction, {1e-6, 1e6}));
  if (index >= replicas_.size()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("replica {} does not exist", index));
  }
  SimReplica& replica = replicas_[index];
  if (replica.spec.fraction == fraction) return {};
  replica.spec.fraction = fraction;
  UpdateTargets(replica.spec.model);  // counts anew
  return {};
}

}  // namespace lagoon
