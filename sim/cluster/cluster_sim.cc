#include "sim/cluster/cluster_sim.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

constexpr Nanoseconds kSecondLength{1'000'000'000};

// Streams of draws that do not depend on each other.
std::uint32_t SeedOf(std::uint32_t seed, std::uint32_t kind, std::size_t index) {
  return (seed * 2 + kind) * 2'654'435'761u + static_cast<std::uint32_t>(index) * 40'503u;
}

}  // namespace

ClusterSim::ClusterSim(ClusterSpec spec) : spec_(std::move(spec)) {
  LAGOON_CHECK(CheckCluster(spec_).has_value());
  for (std::size_t i = 0; i < spec_.gpus.size(); ++i) {
    devices_.push_back({.device = BatchDevice(spec_, SeedOf(spec_.seed, 0, i))});
  }
  for (std::size_t i = 0; i < spec_.models.size(); ++i) {
    const ModelSpec& model = spec_.models[i];
    models_.push_back(
        {.arrivals = Arrivals(model.arrivals, SeedOf(spec_.seed, 1, i), model.start)});
    ModelReport& report = report_.models.emplace_back();
    report.name = model.name;
    report.seconds.resize(static_cast<std::size_t>(spec_.length / kSecondLength) + 1);
  }
  for (const ReplicaSpec& replica : spec_.replicas) AddReplica(replica);
}

SimReport ClusterSim::Run(SimController& controller) {
  controller_ = &controller;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    Push(spec_.models[i].start, Kind::kStart, i);
    if (spec_.models[i].stop < spec_.length) Push(spec_.models[i].stop, Kind::kStop, i);
  }
  Push(spec_.decision, Kind::kDecision, 0);
  Push(kSecondLength, Kind::kSecond, 0);
  while (!heap_.empty() && heap_.next() <= spec_.length) {
    now_ = heap_.next();
    ++report_.events;
    Handle(heap_.Pop());
  }
  now_ = spec_.length;
  PullAll();
  for (std::size_t i = 0; i < models_.size(); ++i) {
    ModelReport& model = report_.models[i];
    model.seconds.resize(static_cast<std::size_t>((spec_.length - Nanoseconds(1)) / kSecondLength) +
                         1);
  }
  report_.seconds = std::chrono::duration<double>(spec_.length - spec_.warmup).count();
  const auto whole = static_cast<double>(spec_.length / kSecondLength);
  report_.fragments = whole > 0 ? fragments_ / whole : 0;
  if (measured_seconds_ > 0) {
    const auto seconds = static_cast<double>(measured_seconds_);
    report_.gpus_used = gpus_used_ / seconds;
    report_.fragments_each = fragments_each_ / seconds;
    report_.capacity = capacity_ / seconds;
  }
  return std::move(report_);
}

void ClusterSim::Push(Nanoseconds time, Kind kind, std::size_t index, std::uint64_t version) {
  heap_.Push(time, {kind, static_cast<std::uint32_t>(index), version});
}

void ClusterSim::Handle(const Event& event) {
  switch (event.kind) {
    case Kind::kBatchEnd:
      if (event.version == devices_[event.index].version) HandleBatchEnds(event.index);
      break;
    case Kind::kArrival:
      HandleArrival(event.index);
      break;
    case Kind::kServe:
      Serve(event.index);
      break;
    case Kind::kStart:
      StartModel(event.index);
      break;
    case Kind::kStop:
      StopModel(event.index);
      break;
    case Kind::kDecision:
      PullAll();
      controller_->Decide(*this);
      Push(now_ + spec_.decision, Kind::kDecision, 0);
      break;
    case Kind::kSecond:
      EndSecond();
      Push(now_ + kSecondLength, Kind::kSecond, 0);
      break;
  }
}

void ClusterSim::HandleBatchEnds(std::size_t gpu) {
  while (const SimBatch* batch = devices_[gpu].device.TakeEnded(now_)) {
    Finish(*batch);
    FreeIfDrained(batch->replica);
  }
  Serve(gpu);
}

void ClusterSim::HandleArrival(std::size_t model) {
  models_[model].armed = false;
  Pull(model);
  for (const std::size_t replica : models_[model].targets) Serve(replicas_[replica].spec.gpu);
}

void ClusterSim::Finish(const SimBatch& batch) {
  SimReplica& replica = replicas_[batch.replica];
  const ModelSpec& spec = spec_.models[batch.model];
  Model& model = models_[batch.model];
  ModelReport& report = report_.models[batch.model];
  const Nanoseconds took = now_ - batch.start;
  const auto rows = static_cast<std::uint64_t>(batch.rows);
  --replica.running;
  if (replica.limiter) replica.limiter->Batch(batch.rows, took, TimePoint(now_));
  std::uint64_t late = spec.slo_of == SloOf::kBatch && took > spec.slo ? rows : 0;
  for (const Nanoseconds arrival : batch.arrivals) {
    if (Measured()) report.requests.Add(now_ - arrival);
    if (spec.slo_of == SloOf::kRequest && now_ - arrival > spec.slo) ++late;
  }
  if (Measured()) {
    report.served += rows;
    report.late += late;
    ++report.batches;
    report.batch_time.Add(took);
    report.row_time.Add(took, rows);
  }
  SimSecond& second = SecondOf(batch.model, now_);
  second.served += rows;
  second.late += late;
  ++second.batches;
  second.batch_ms += ToMilliseconds(took);
  model.counts.served += rows;
  model.counts.running -= rows;
  if (spec.arrivals.kind == ArrivalKind::kClosedLoop && !model.stopped) {
    for (std::uint64_t i = 0; i < rows; ++i) Route(batch.model, now_);
  }
  controller_->OnBatch(*this, {batch.replica, batch.model, batch.rows, took});
}

// Starts what the replicas of a device can start, and says when its next batch ends.
void ClusterSim::Serve(std::size_t gpu) {
  Device& device = devices_[gpu];
  ApplyChanges(gpu);
  ServeAll(device);
  const auto next_end = device.device.Settle(now_);
  if (next_end == device.next_end && (!next_end || *next_end > now_)) return;
  device.next_end = next_end;
  ++device.version;
  if (next_end) Push(std::max(*next_end, now_), Kind::kBatchEnd, gpu, device.version);
}

void ClusterSim::ServeAll(Device& device) {
  if (spec_.mode != ShareMode::kTimeSlice) {
    for (const std::size_t replica : device.replicas) {
      while (StartBatch(replica)) {
      }
    }
    return;
  }
  for (std::size_t tried = 0; tried < device.replicas.size(); ++tried) {
    if (device.device.running() > 0) return;
    device.turn = (device.turn + 1) % device.replicas.size();
    StartBatch(device.replicas[device.turn]);
  }
}

bool ClusterSim::StartBatch(std::size_t index) {
  SimReplica& replica = replicas_[index];
  if (replica.state != SimReplica::State::kServing || replica.stopped) return false;
  if (replica.ready > now_ || replica.running >= replica.spec.places) return false;
  Model& model = models_[replica.spec.model];
  Pull(replica.spec.model);
  const std::int64_t rows = Form(replica);
  if (rows == 0) {
    if (!model.armed && model.next) {
      model.armed = true;
      Push(*model.next, Kind::kArrival, replica.spec.model);
    }
    return false;
  }
  SimBatch& batch = devices_[replica.spec.gpu].device.Start(now_);
  batch.replica = index;
  batch.model = replica.spec.model;
  batch.rows = rows;
  batch.share = ShareOf(replica);
  for (std::int64_t i = 0; i < rows; ++i) {
    batch.arrivals.push_back(replica.waiting.front());
    replica.waiting.Pop();
  }
  ++replica.running;
  model.counts.running += static_cast<std::uint64_t>(rows);
  return true;
}

// Rows of the batch that the replica can start now; 0: none.
std::int64_t ClusterSim::Form(SimReplica& replica) {
  const BatchingSpec& batching = spec_.models[replica.spec.model].batching;
  if (batching.drop) DropLate(replica);
  if (replica.waiting.empty()) return 0;
  if (batching.fill && WaitsForFull(replica)) return 0;
  return std::min(replica.Limit(), static_cast<std::int64_t>(replica.waiting.size()));
}

bool ClusterSim::WaitsForFull(SimReplica& replica) {
  const std::int64_t limit = replica.Limit();
  if (static_cast<std::int64_t>(replica.waiting.size()) >= limit) return false;
  const Nanoseconds slo = spec_.models[replica.spec.model].slo;
  const Nanoseconds margin = std::max(slo / 20, Nanoseconds(2'000'000));
  const Nanoseconds takes(static_cast<std::int64_t>(ExpectedNs(replica, limit)));
  const Nanoseconds due = replica.waiting.front() + slo - takes - margin;
  if (due <= now_) return false;
  if (replica.fill_at != due) {
    replica.fill_at = due;
    Push(due, Kind::kServe, replica.spec.gpu);
  }
  return true;
}

void ClusterSim::DropLate(SimReplica& replica) {
  const Nanoseconds slo = spec_.models[replica.spec.model].slo;
  while (!replica.waiting.empty()) {
    const std::int64_t rows =
        std::min(replica.Limit(), static_cast<std::int64_t>(replica.waiting.size()));
    const Nanoseconds takes(static_cast<std::int64_t>(ExpectedNs(replica, rows)));
    if (now_ + takes <= replica.waiting.front() + slo) return;
    replica.waiting.Pop();
    Drop(replica.spec.model, now_);
  }
}

double ClusterSim::ShareOf(const SimReplica& replica) const {
  if (spec_.mode != ShareMode::kShares) return 1;
  return static_cast<double>(replica.spec.granules) / spec_.gpus[replica.spec.gpu].granules;
}

// What a scheduler expects: the surface's time, without noise and neighbours.
double ClusterSim::ExpectedNs(const SimReplica& replica, std::int64_t rows) const {
  return AloneNs(spec_.models[replica.spec.model], rows, ShareOf(replica) / (replica.running + 1));
}

// Draws the model's arrivals until now. They are not events, but for the one that an idle replica
// waits for.
void ClusterSim::Pull(std::size_t index) {
  Model& model = models_[index];
  while (model.next && *model.next <= now_) {
    Route(index, *model.next);
    model.next = model.arrivals.Next();
  }
  if (model.next && *model.next >= spec_.models[index].stop) model.next.reset();
}

void ClusterSim::PullAll() {
  for (std::size_t i = 0; i < models_.size(); ++i) Pull(i);
}

void ClusterSim::Route(std::size_t index, Nanoseconds arrival) {
  Model& model = models_[index];
  ++model.counts.arrived;
  ++SecondOf(index, arrival).arrived;
  if (arrival >= spec_.warmup) ++report_.models[index].arrived;
  if (model.targets.empty()) return Drop(index, arrival);
  std::size_t best = model.targets.front();
  if (model.targets.size() > 1) {
    const auto load = [&](std::size_t i) {
      return static_cast<double>(replicas_[i].routed + 1) / replicas_[i].spec.fraction;
    };
    for (const std::size_t target : model.targets) {
      if (load(target) < load(best)) best = target;
    }
  }
  SimReplica& replica = replicas_[best];
  if (replica.waiting.size() >= spec_.models[index].queue) return Drop(index, arrival);
  ++replica.routed;
  replica.waiting.Push(arrival);
}

void ClusterSim::Drop(std::size_t model, Nanoseconds at) {
  ++models_[model].counts.dropped;
  ++SecondOf(model, at).dropped;
  if (at >= spec_.warmup) ++report_.models[model].dropped;
}

SimSecond& ClusterSim::SecondOf(std::size_t model, Nanoseconds time) {
  return report_.models[model].seconds[static_cast<std::size_t>(time / kSecondLength)];
}

void ClusterSim::EndSecond() {
  PullAll();
  for (std::size_t i = 0; i < models_.size(); ++i) {
    SimSecond& second = SecondOf(i, now_ - Nanoseconds(1));
    second.waiting = Counts(i).waiting;
    for (const std::size_t target : models_[i].targets) {
      const SimReplica& replica = replicas_[target];
      if (replica.state != SimReplica::State::kServing) continue;
      second.share += ShareOf(replica);
      if (second.limit == 0) second.limit = replica.Limit();
    }
  }
  if (spec_.mode == ShareMode::kShares) EndSecondOfShares();
}

void ClusterSim::EndSecondOfShares() {
  double unused = 0, devices = 0;
  for (std::size_t gpu = 0; gpu < devices_.size(); ++gpu) {
    if (devices_[gpu].replicas.empty()) continue;
    unused += 1 - static_cast<double>(devices_[gpu].used) / spec_.gpus[gpu].granules;
    ++devices;
  }
  if (devices > 0) fragments_ += unused / devices;
  if (now_ <= spec_.warmup) return;
  ++measured_seconds_;
  gpus_used_ += devices;
  fragments_each_ += unused;
  for (const Device& device : devices_) capacity_ += CapacityOf(device);
}

// Rows per second of the replicas that serve, if each ran full batches all the time.
double ClusterSim::CapacityOf(const Device& device) const {
  struct Full {
    const ModelSpec* model = nullptr;
    double rows = 0, ns = 0, cache = 0, dram = 0;
  };
  std::vector<Full> replicas;
  double cache = 0, dram = 0;
  for (const std::size_t index : device.replicas) {
    const SimReplica& replica = replicas_[index];
    if (replica.state != SimReplica::State::kServing) continue;
    const ModelSpec& model = spec_.models[replica.spec.model];
    const std::int64_t rows = replica.Limit(), most = model.batching.rows;
    Full& full = replicas.emplace_back();
    full = {&model, static_cast<double>(rows), AloneNs(model, rows, ShareOf(replica))};
    const double part = full.rows / full.ns / (static_cast<double>(most) / AloneNs(model, most, 1));
    full.cache = model.cache * part;
    full.dram = model.dram * part;
    cache += full.cache;
    dram += full.dram;
  }
  double capacity = 0;
  for (const Full& full : replicas) {
    const double ns = full.ns * Slowdown(spec_.truth, std::max(0.0, cache - full.cache),
                                         std::max(0.0, dram - full.dram));
    if (ns <= static_cast<double>(full.model->slo.count())) capacity += full.rows / ns * 1e9;
  }
  return capacity;
}

SimCounts ClusterSim::Counts(std::size_t model) const {
  SimCounts counts = models_[model].counts;
  for (const SimReplica& replica : replicas_) {
    if (replica.spec.model == model) counts.waiting += replica.waiting.size();
  }
  return counts;
}

BatchNotice ClusterSim::TakeNotice(std::size_t replica) {
  const auto& limiter = replicas_[replica].limiter;
  return limiter ? limiter->TakeNotice() : BatchNotice::kNone;
}

}  // namespace lagoon
