#include "sim/cluster/sim_report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

namespace lagoon {
namespace {

using Json = nlohmann::json;

// Steps per doubling: each is at most 0.8 % wide.
constexpr int kBits = 7;
constexpr std::uint64_t kSteps = std::uint64_t{1} << kBits;
constexpr std::int64_t kMost = std::int64_t{1} << 42;

std::size_t IndexOf(std::int64_t ns) {
  const auto value = static_cast<std::uint64_t>(std::clamp<std::int64_t>(ns, 0, kMost - 1));
  const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kBits - 1);
  return static_cast<std::size_t>(shift) * kSteps + (value >> shift);
}

double MiddleNs(std::size_t index) {
  const std::size_t shift = index < 2 * kSteps ? 0 : index / kSteps - 1;
  const double first = static_cast<double>(index - shift * kSteps);
  return std::ldexp(shift == 0 ? first : first + 0.5, static_cast<int>(shift));
}

}  // namespace

void LatencyHistogram::Add(Nanoseconds time, std::uint64_t count) {
  const std::size_t index = IndexOf(time.count());
  if (index >= counts_.size()) counts_.resize(index + 1);
  counts_[index] += count;
  count_ += count;
  sum_ns_ += static_cast<double>(time.count()) * static_cast<double>(count);
}

double LatencyHistogram::MeanMs() const {
  return count_ == 0 ? 0 : sum_ns_ / static_cast<double>(count_) * 1e-6;
}

double LatencyHistogram::PercentileMs(double part) const {
  if (count_ == 0) return 0;
  const auto wanted = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(count_))));
  std::uint64_t below = 0;
  std::size_t index = 0;
  while (index + 1 < counts_.size() && below + counts_[index] < wanted) below += counts_[index++];
  return MiddleNs(index) * 1e-6;
}

double ModelReport::MeanBatch() const {
  return batches == 0 ? 0 : static_cast<double>(served) / static_cast<double>(batches);
}

double ModelReport::ViolationRate() const {
  const double all = static_cast<double>(served + dropped);
  return all == 0 ? 0 : static_cast<double>(late + dropped) / all;
}

double SimReport::Throughput(std::size_t model) const {
  return static_cast<double>(models[model].served) / seconds;
}

double SimReport::Goodput(std::size_t model) const {
  return static_cast<double>(models[model].served - models[model].late) / seconds;
}

double SimReport::Efficacy() const {
  double rows = 0, sum_ms = 0;
  for (const ModelReport& model : models) {
    const auto count = static_cast<double>(model.row_time.count());
    rows += count;
    sum_ms += count * model.row_time.MeanMs();
  }
  return sum_ms == 0 ? 0 : rows / seconds / (sum_ms / rows);
}

Json ToJson(const SimReport& report) {
  Json models = Json::array();
  for (std::size_t i = 0; i < report.models.size(); ++i) {
    const ModelReport& model = report.models[i];
    Json seconds = Json::array();
    for (const SimSecond& second : model.seconds) {
      seconds.push_back({{"arrived", second.arrived},
                         {"served", second.served},
                         {"late", second.late},
                         {"dropped", second.dropped},
                         {"batches", second.batches},
                         {"batch_ms", second.batch_ms},
                         {"share", second.share},
                         {"limit", second.limit},
                         {"waiting", second.waiting}});
    }
    models.push_back({{"name", model.name},
                      {"arrived", model.arrived},
                      {"served", model.served},
                      {"late", model.late},
                      {"dropped", model.dropped},
                      {"batches", model.batches},
                      {"mean_batch", model.MeanBatch()},
                      {"violation_rate", model.ViolationRate()},
                      {"throughput", report.Throughput(i)},
                      {"goodput", report.Goodput(i)},
                      {"request_ms_mean", model.requests.MeanMs()},
                      {"request_ms_p50", model.requests.PercentileMs(0.5)},
                      {"request_ms_p99", model.requests.PercentileMs(0.99)},
                      {"batch_ms_mean", model.batch_time.MeanMs()},
                      {"batch_ms_p99", model.batch_time.PercentileMs(0.99)},
                      {"seconds", std::move(seconds)}});
  }
  Json moves = Json::array();
  for (const SimMove& move : report.moves) {
    moves.push_back({{"at_ms", ToMilliseconds(move.at)},
                     {"replica", move.replica},
                     {"granules", move.granules}});
  }
  return {{"models", std::move(models)},   {"seconds", report.seconds},
          {"moves", std::move(moves)},     {"relocations", report.relocations},
          {"events", report.events},       {"fragments", report.fragments},
          {"gpus_used", report.gpus_used}, {"fragments_each", report.fragments_each},
          {"capacity", report.capacity},   {"efficacy", report.Efficacy()}};
}

}  // namespace lagoon
