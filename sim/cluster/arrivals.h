#pragma once

// The times at which requests arrive, in virtual time.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "base/time.h"

namespace lagoon {

enum class ArrivalKind : std::uint8_t {
  kNone,
  kPoisson,
  kGamma,       // gaps of a gamma distribution: bursts if ArrivalSpec::cv is above 1
  kMmpp,        // Poisson, whose rate jumps between calm and burst
  kPeriodic,    // even gaps, with jitter
  kClosedLoop,  // a fixed number of clients, each of which sends again at once when answered
};

struct RateStep {
  Nanoseconds from{0};  // since the start of the simulation
  double per_s = 0;     // requests of one row, 0 to 1e7
};

struct ArrivalSpec {
  ArrivalKind kind = ArrivalKind::kNone;
  /// The mean rate, which is that of the last step begun. The first step begins at 0. Not for
  /// kNone and kClosedLoop.
  std::vector<RateStep> rates = {};
  double cv = 1;            // kGamma: standard deviation / mean of the gaps, 0.05 to 16
  double burst = 4;         // kMmpp: rate of the burst / rate of the calm, 1 to 1000
  double burst_part = 0.2;  // kMmpp: part of the time that is burst, 0.001 to 0.999
  Nanoseconds burst_length{1'000'000'000};  // kMmpp: mean, 1 us to 1 h
  double jitter = 0;  // kPeriodic: each request is late by up to this part of a gap, 0 to 1
  double swing = 0;   // kPoisson: the rate is times 1 + swing sin(2 pi t / day), 0 to 1
  Nanoseconds day{60'000'000'000};  // 1 ms to 1,000 h
  std::int64_t clients = 0;         // kClosedLoop: 1 to 65536
};

/// A Poisson process, `per_s` requests per second.
ArrivalSpec PoissonArrivals(double per_s);
/// `clients` clients in a closed loop.
ArrivalSpec ClosedLoop(std::int64_t clients);

/// kInvalidArgument names the field and its value.
Status CheckArrivals(const ArrivalSpec& spec);

/// The arrivals of one model, one after the other. Not thread-safe.
class Arrivals {
 public:
  /// `spec` is valid. `from`: no arrivals before.
  Arrivals(const ArrivalSpec& spec, std::uint32_t seed, Nanoseconds from);

  /// The time of the next arrival, which does not fall. nullopt: there is none any more, as for
  /// kNone and kClosedLoop.
  std::optional<Nanoseconds> Next();

 private:
  double Gap();
  bool Advance(double gaps);
  double RatePerNs() const;

  const ArrivalSpec spec_;
  Random random_;
  double now_ns_;
  std::size_t step_ = 0;
  bool burst_ = false;
  double switch_ns_ = 0;  // kMmpp: when calm and burst change
  double last_ns_ = 0;
  bool first_ = true;
};

}  // namespace lagoon
