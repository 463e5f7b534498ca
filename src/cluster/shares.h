#pragma once

// How much of a device each model needs, and gets (GSLICE 3.2.2 and 3.2.3). Pure functions.

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// What a model did on its share, and what it must do.
struct ShareLoad {
  double share = 0;           // of the device, that the model has now: above 0, at most 1
  double latency_ms = 0;      // averaged; of what the SLO is about: a batch, or a request
  double slo_ms = 0;          // at least 1e-6
  double rows_per_s = 0;      // that the share can do: rows of a batch / its time; above 0
  double arrivals_per_s = 0;  // rows, 0 or more
  bool host_bound = false;    // the host is slower than the device: a larger share does not help
  /// Part of what a share can do that arrivals may use, 0.01 to 1. At 1, as in the paper, a share
  /// is as large as the arrivals need on average, so that random ones make a queue that grows.
  double utilisation = 1;
};

/// The share that the model needs: what it has, times the larger of latency / SLO and arrivals /
/// (utilisation * capacity), at most doubled at once, because the latency over the SLO says little
/// about how much is missing. `share` itself if it is within 5 % of what is needed. At least
/// `granule`, at most 1.
/// `granule`: the smallest share, above 0, at most 1.
///
/// Algorithm 1 of the paper, as printed, returns early for every model that misses both targets,
/// and shrinks by the larger of both surpluses. This rule does what the paper's text says, and
/// gives the numbers of its Fig. 16. kInvalidArgument names the field and its value.
Result<double> TuneShare(const ShareLoad& load, double granule);

struct MaxMinRules {
  /// How models share the rest that is less than they demand.
  enum class Shortage : std::uint8_t {
    /// In proportion to the demands, as in the paper. A model whose demand comes to lie above the
    /// even part may fall far below it: of 100, demands of (30, 34, 100) get (30, 34, 36), and
    /// demands of (30, 36, 100) get (30, 18.5, 51.5).
    kByDemand,
    kEvenly,  // max-min fairness: a larger demand never costs its own model
  } shortage = Shortage::kByDemand;

  /// What happens to the rest if all demands are met.
  enum class Surplus : std::uint8_t {
    kNone,          // it stays idle, as in Fig. 16 of the paper
    kProportional,  // models get it in proportion to their demands
  } surplus = Surplus::kNone;
};

/// The share of each model, by index, of a device with `capacity` (of any unit, above 0, at most
/// 1e9): the smallest demands are met first, as long as each fits in an even part of what is left.
/// The sum is at most the capacity; nothing exceeds its demand unless there is a surplus.
/// `demands`: 0 or more, finite; one above the capacity counts as the capacity.
/// kInvalidArgument names the value.
Result<std::vector<double>> MaxMin(std::span<const double> demands, double capacity,
                                   const MaxMinRules& rules = {});

/// `exact` shares, in granules, as whole granules of a device that has `granules` of them: at least
/// 1 each, the sum rounded to the nearest, and the largest remainders rounded up. The sum of the
/// result is at most `granules`. kResourceExhausted: more models than granules; weights remain then
/// (src/policies). kInvalidArgument: a share below 0, or a sum above `granules`.
Result<std::vector<std::uint32_t>> ToGranules(std::span<const double> exact,
                                              std::uint32_t granules);

}  // namespace lagoon
