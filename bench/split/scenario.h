#pragma once

// The scenarios of SPLIT (5.1, Table 2): which model is asked for when.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace lagoon::bench {

/// Two readings of "average arrival interval" (docs/results/reproduction.md).
enum class SplitReading : std::uint8_t {
  kOneProcess,  // one process sends all requests, each to a model drawn at random
  kPerModel,    // a process for each model: as many times the load as there are models
};

/// kNotFound lists the words: one-process, per-model.
Result<SplitReading> ParseSplitReading(std::string_view word);

/// One scenario, or one load of a sweep.
struct SplitCase {
  std::string name;    // in metrics: "s1" for scenario 1, "load40" for a load of 0.4
  std::string suffix;  // ends the names of metrics; empty for the reading of the paper's figures
  SplitReading reading = SplitReading::kOneProcess;
  Nanoseconds interval{0};  // mean time between two requests of a process
};

/// The intervals of Table 2.
inline constexpr int kSplitScenarios = 6;

/// Scenario `number` (from 1). `scale`: factor for the interval, for a device other than the
/// paper's. kNotFound names the number and those that there are.
Result<SplitCase> SplitScenario(int number, SplitReading reading, double scale = 1);

/// One process that asks for the device for `load` of its time. `alone_ms`: of each model.
SplitCase SplitLoad(double load, std::span<const double> alone_ms);

/// The part of the device's time that the requests of a case need, if each takes as long as alone.
double LoadOf(const SplitCase& split_case, std::span<const double> alone_ms);

struct SplitArrival {
  Nanoseconds at{0};  // since the beginning
  std::size_t model = 0;
};

/// `requests` arrivals of `models` models with exponential gaps, ascending. The mean gap is exact.
/// Equal seeds give the same gaps in every case of a reading, only scaled.
std::vector<SplitArrival> MakeSplitArrivals(const SplitCase& split_case, std::size_t models,
                                            int requests, std::uint32_t seed);

}  // namespace lagoon::bench
