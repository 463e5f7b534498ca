#pragma once

// Batch limits and shares by simple rules, for the placers of other papers.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/placement/latency_table.h"
#include "cluster/placement/placer.h"

namespace lagoon {

/// What part of its capacity a replica may be asked for, if nothing else is said. The papers plan
/// for steady rates (1.0); with Poisson arrivals and rates that drift, their placers lose 12 % and
/// more of the requests at load 1.2. Of 0.75, 0.85 and 1, 0.75 gives them the most goodput.
inline constexpr double kBaselineBusy = 0.75;

/// How the placers of other papers are run.
struct BaselineOptions {
  double busy = kBaselineBusy;  // above 0, at most 1
  /// As InSS reads the papers: GSLICE shares a GPU in parts of kPaperParts (2.3), leaves what no
  /// model needs idle, and sees the times of batches as measured.
  bool paper = false;
  /// Without PeriodicPlacer: each decision is a new plan, so that its time is that of a plan.
  bool every_decision = false;
};

/// The parts of a GPU that InSS 2.3 says Gpulet and GSLICE have.
inline constexpr std::array<double, 6> kPaperParts = {0.2, 0.4, 0.5, 0.6, 0.8, 1.0};
/// The granules of a part, at least 1; those of parts that add up to 1 are not more than all.
std::uint32_t GranulesOfPart(double part, std::uint32_t granules);
/// Each of `shares` as the next larger part, and the largest of them smaller until they fit on a
/// GPU. At most five, each above 0 and at most 1.
std::vector<double> ToParts(std::vector<double> shares);

struct BaselineShare {
  std::uint32_t granules = 1;
  std::int64_t rows = 1;
};

/// The most rows whose batch takes at most `budget_ms` on `granules`, with times `slower` times
/// those alone; 1 if there are none.
std::int64_t MostRows(const LatencyTable& table, std::uint32_t granules, double budget_ms,
                      double slower = 1);
/// The fewest granules on which some number of rows ends in `budget_ms` and keeps up with `rate`
/// rows per second, and the most such rows. nullopt: the whole GPU is too small.
std::optional<BaselineShare> FewestGranules(const LatencyTable& table, double rate,
                                            double budget_ms, double slower = 1);

/// The indices of `keys`, the smallest key first, or the largest if `descending`. Equals stay in
/// order.
std::vector<std::size_t> OrderOf(const std::vector<double>& keys, bool descending);

/// Adds a refused model.
void Refuse(const PlacementView& view, std::size_t model, const char* reason,
            Assignment& assignment);

}  // namespace lagoon
