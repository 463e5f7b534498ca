#include "sim/cluster/batch_device.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "cluster/knee.h"
#include "sim/cluster/draws.h"

namespace lagoon {
namespace {

// The factor of a batch's or a device's time.
double DrawFactor(double deviation, Random& random) {
  return deviation == 0 ? 1 : PortableExp(deviation * random.Normal());
}

double DrawNoise(const TruthSpec& truth, Random& random) {
  return truth.exponential ? DrawExponential(random) : DrawFactor(truth.noise, random);
}

}  // namespace

double AloneNs(const ModelSpec& model, std::int64_t rows, double share) {
  return model.surface->LatencyMs(rows, share) * 1e6;
}

double Slowdown(const TruthSpec& truth, double cache, double dram) {
  const double x = truth.cache * cache + truth.dram * dram + truth.product * cache * dram;
  return 1 + x / (1 + x / truth.limit);
}

BatchDevice::BatchDevice(const ClusterSpec& spec, std::uint32_t seed)
    : spec_(spec),
      random_(seed),
      speed_(DrawFactor(spec.truth.speed, random_)),
      weights_(spec.models.size()) {
  for (const ModelSpec& model : spec.models) {
    const auto rows = static_cast<double>(model.batching.rows);
    most_rows_per_ns_.push_back(rows / AloneNs(model, model.batching.rows, 1));
  }
}

double BatchDevice::share_in_use() const {
  double sum = 0;
  for (std::size_t i = 0; i < count_; ++i) sum += batches_[i].share;
  return sum;
}

SimBatch& BatchDevice::Start(Nanoseconds now) {
  if (count_ == batches_.size()) batches_.emplace_back();
  SimBatch& batch = batches_[count_++];
  batch.arrivals.clear();
  batch.start = now;
  batch.end = Nanoseconds::max();
  batch.noise = DrawNoise(spec_.truth, random_);
  batch.left = 1;
  batch.alone_ns = batch.total_ns = 0;
  changed_ = true;
  return batch;
}

const SimBatch* BatchDevice::TakeEnded(Nanoseconds now) {
  for (std::size_t i = 0; i < count_; ++i) {
    if (batches_[i].end > now) continue;
    --count_;
    std::swap(batches_[i], batches_[count_]);
    changed_ = true;
    return &batches_[count_];
  }
  return nullptr;
}

// Work, or knee, of a batch: what MpsRule shares the device by.
double BatchDevice::Weight(const SimBatch& batch) {
  std::vector<double>& known = weights_[batch.model];
  const auto rows = static_cast<std::size_t>(batch.rows);
  if (rows >= known.size()) known.resize(rows + 1);
  if (known[rows] == 0) {
    constexpr std::uint32_t kGranules = 100;
    const Surface& surface = *spec_.models[batch.model].surface;
    const double knee = static_cast<double>(Knee(surface, batch.rows, kGranules)) / kGranules;
    known[rows] = spec_.mps == MpsRule::kKnee ? knee : knee * surface.LatencyMs(batch.rows, 1);
  }
  return known[rows];
}

void BatchDevice::CountPlaces() {
  for (std::size_t i = 0; i < count_; ++i) {
    std::uint32_t beside = 0;
    for (std::size_t j = 0; j < count_; ++j) {
      beside += batches_[j].replica == batches_[i].replica ? 1 : 0;
    }
    if (beside != batches_[i].beside) batches_[i].alone_ns = 0;
    batches_[i].beside = beside;
  }
}

// The share of each batch that runs, and its time on it.
void BatchDevice::UpdateShares() {
  double weights = 0;
  if (spec_.mode == ShareMode::kDefaultMps) {
    for (std::size_t i = 0; i < count_; ++i) weights += Weight(batches_[i]);
  } else {
    CountPlaces();
  }
  for (std::size_t i = 0; i < count_; ++i) {
    SimBatch& batch = batches_[i];
    if (spec_.mode == ShareMode::kDefaultMps) {
      batch.share = Weight(batch) / weights;
      batch.alone_ns = 0;
    }
    if (batch.alone_ns > 0) continue;
    batch.alone_ns = AloneNs(spec_.models[batch.model], batch.rows, batch.share / batch.beside);
  }
}

BatchDevice::Load BatchDevice::LoadOf(const SimBatch& batch) const {
  const ModelSpec& model = spec_.models[batch.model];
  if (model.cache == 0 && model.dram == 0) return {};
  const double rows_per_ns = static_cast<double>(batch.rows) / batch.alone_ns;
  const double part = rows_per_ns / most_rows_per_ns_[batch.model];
  return {model.cache * part, model.dram * part};
}

std::optional<Nanoseconds> BatchDevice::Settle(Nanoseconds now) {
  if (!changed_) return next_end_;
  changed_ = false;
  const auto passed = static_cast<double>((now - updated_).count());
  updated_ = now;
  UpdateShares();
  next_end_.reset();
  for (std::size_t i = 0; i < count_; ++i) {
    SimBatch& batch = batches_[i];
    double cache = 0, dram = 0;  // of the neighbours
    for (std::size_t j = 0; j < count_; ++j) {
      if (batches_[j].replica == batch.replica) continue;
      const Load load = LoadOf(batches_[j]);
      cache += load.cache;
      dram += load.dram;
    }
    const double total_ns =
        batch.alone_ns * batch.noise * speed_ * Slowdown(spec_.truth, cache, dram);
    if (batch.total_ns > 0) batch.left -= passed / batch.total_ns;
    if (total_ns != batch.total_ns) {
      batch.total_ns = total_ns;
      batch.end = now + Nanoseconds(std::llround(std::max(0.0, batch.left) * total_ns));
    }
    next_end_ = std::min(next_end_.value_or(batch.end), batch.end);
  }
  return next_end_;
}

}  // namespace lagoon
