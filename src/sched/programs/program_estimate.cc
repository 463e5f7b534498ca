#include "sched/programs/program_estimate.h"

#include <algorithm>
#include <cmath>

namespace lagoon {
namespace {

constexpr double kWeight = 8;  // one job moves a mean by 1/8 of the difference
// Kinds with a smaller mean are forgotten, so that new ones find room.
constexpr double kLeastMean = 1.0 / 64;

}  // namespace

// Null: there is no room for another kind.
ProgramEstimate::Entry* ProgramEstimate::Find(const Kind& kind) {
  const auto found = kinds_.find(kind);
  if (found != kinds_.end()) return &found->second;
  return kinds_.size() < kMostKinds ? &kinds_[kind] : nullptr;
}

void ProgramEstimate::SetTime(const Kind& kind, Nanoseconds time) {
  if (Entry* const entry = Find(kind); entry != nullptr) entry->time = time;
}

void ProgramEstimate::OnEnded(const Counts& counts) {
  const double weight = any_ended_ ? kWeight : 1;
  any_ended_ = true;
  for (const auto& [kind, count] : counts.counts_) Find(kind);
  for (auto next = kinds_.begin(); next != kinds_.end();) {
    auto& [kind, entry] = *next;
    entry.mean += (counts.of(kind) - entry.mean) / weight;
    next = entry.mean < kLeastMean ? kinds_.erase(next) : std::next(next);
  }
}

Nanoseconds ProgramEstimate::Ahead(const Counts& posted) const {
  double ahead = 0;
  for (const auto& [kind, entry] : kinds_) {
    ahead += std::max(0.0, entry.mean - posted.of(kind)) * static_cast<double>(entry.time.count());
  }
  return Nanoseconds(std::llround(std::min(ahead, static_cast<double>(kMost.count()))));
}

}  // namespace lagoon
