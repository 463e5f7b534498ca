#include "sim/cluster/arrivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "cluster/checks.h"
#include "sim/cluster/draws.h"

namespace lagoon {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double Ns(Nanoseconds time) { return static_cast<double>(time.count()); }

bool HasRate(ArrivalKind kind) {
  return kind != ArrivalKind::kNone && kind != ArrivalKind::kClosedLoop;
}

Status CheckRates(const std::vector<RateStep>& rates) {
  if (rates.empty() || rates.front().from != Nanoseconds(0)) {
    return Fail(ErrorCode::kInvalidArgument,
                "arrivals: rates is empty or begins after 0; add a step from 0 on");
  }
  for (std::size_t i = 0; i < rates.size(); ++i) {
    LAGOON_RETURN_IF_ERROR(
        CheckBounds(fmt::format("arrivals: rates[{}].per_s", i), rates[i].per_s, {0, 1e7}));
    if (i == 0 || rates[i].from > rates[i - 1].from) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("arrivals: rates[{}] is from {} ms on, must be after rates[{}]", i,
                            ToMilliseconds(rates[i].from), i - 1));
  }
  return {};
}

}  // namespace

ArrivalSpec PoissonArrivals(double per_s) {
  ArrivalSpec spec;
  spec.kind = ArrivalKind::kPoisson;
  spec.rates = {{Nanoseconds(0), per_s}};
  return spec;
}

ArrivalSpec ClosedLoop(std::int64_t clients) {
  ArrivalSpec spec;
  spec.kind = ArrivalKind::kClosedLoop;
  spec.clients = clients;
  return spec;
}

Status CheckArrivals(const ArrivalSpec& spec) {
  if (HasRate(spec.kind)) LAGOON_RETURN_IF_ERROR(CheckRates(spec.rates));
  LAGOON_RETURN_IF_ERROR(CheckBounds("arrivals: cv", spec.cv, {0.05, 16}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("arrivals: burst", spec.burst, {1, 1000}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("arrivals: burst_part", spec.burst_part, {0.001, 0.999}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("arrivals: burst_length in ms",
                                     ToMilliseconds(spec.burst_length), {0.001, 3.6e6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("arrivals: jitter", spec.jitter, {0, 1}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("arrivals: swing", spec.swing, {0, 1}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("arrivals: day in ms", ToMilliseconds(spec.day), {1, 3.6e9}));
  if (spec.swing > 0 && spec.kind != ArrivalKind::kPoisson) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("arrivals: swing is {}, which only Poisson arrivals have", spec.swing));
  }
  if (spec.kind != ArrivalKind::kClosedLoop) return {};
  return CheckBounds("arrivals: clients", static_cast<double>(spec.clients), {1, 65536});
}

Arrivals::Arrivals(const ArrivalSpec& spec, std::uint32_t seed, Nanoseconds from)
    : spec_(spec), random_(seed), now_ns_(Ns(from)), switch_ns_(kNever) {
  LAGOON_CHECK(CheckArrivals(spec).has_value());
  if (spec.kind != ArrivalKind::kMmpp) return;
  burst_ = random_.Happens(spec.burst_part);
  switch_ns_ = now_ns_;
  burst_ = !burst_;  // the switch at the start turns it back
}

// The gap to the next arrival, with mean 1.
double Arrivals::Gap() {
  switch (spec_.kind) {
    case ArrivalKind::kGamma:
      return DrawGamma(spec_.cv, random_);
    case ArrivalKind::kPeriodic:
      return first_ ? random_.Uniform() : 1;
    default:
      return DrawExponential(random_);
  }
}

double Arrivals::RatePerNs() const {
  double per_s = spec_.rates[step_].per_s * (1 + spec_.swing);
  if (spec_.kind == ArrivalKind::kMmpp) {
    const double calm = 1 / (1 + spec_.burst_part * (spec_.burst - 1));
    per_s *= burst_ ? calm * spec_.burst : calm;
  }
  return per_s * 1e-9;
}

// Moves the time on until `gaps` mean gaps have passed. false: they never do.
bool Arrivals::Advance(double gaps) {
  for (;;) {
    const bool last = step_ + 1 == spec_.rates.size();
    const double step_end = last ? kNever : Ns(spec_.rates[step_ + 1].from);
    const double end = std::min(step_end, switch_ns_);
    const double rate = RatePerNs();
    if (now_ns_ + gaps / rate <= end && rate > 0) {
      now_ns_ += gaps / rate;
      return true;
    }
    if (end == kNever) return false;
    gaps -= rate * std::max(0.0, end - now_ns_);
    now_ns_ = std::max(now_ns_, end);
    if (step_end <= switch_ns_) {
      ++step_;
      continue;
    }
    burst_ = !burst_;
    const double mean =
        Ns(spec_.burst_length) * (burst_ ? 1 : (1 - spec_.burst_part) / spec_.burst_part);
    switch_ns_ += mean * DrawExponential(random_);
  }
}

std::optional<Nanoseconds> Arrivals::Next() {
  if (!HasRate(spec_.kind)) return std::nullopt;
  do {
    const double gap = Gap();
    first_ = false;
    if (!Advance(gap)) return std::nullopt;
    // Thinning: the peak rate's arrivals, each kept with the probability rate / peak rate.
  } while (spec_.swing > 0 &&
           !random_.Happens((1 + spec_.swing * PortableSine(now_ns_ / Ns(spec_.day))) /
                            (1 + spec_.swing)));
  const double late = spec_.jitter > 0 ? spec_.jitter * random_.Uniform() / RatePerNs() : 0;
  last_ns_ = std::max(last_ns_, now_ns_ + late);
  return Nanoseconds(static_cast<std::int64_t>(last_ns_));
}

}  // namespace lagoon
