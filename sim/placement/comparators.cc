#include "sim/placement/comparators.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "cluster/learned/learned_placer.h"
#include "sim/placement/gpulet_placer.h"
#include "sim/placement/gslice_placer.h"
#include "sim/placement/igniter_placer.h"
#include "sim/placement/periodic_placer.h"
#include "sim/placement/usher_placer.h"

namespace lagoon {
namespace {

struct Row {
  PlacerInfo info;
  std::unique_ptr<Placer> (*make)(const BaselineOptions& options);  // null: MakePlacer() makes it
};

Row Served(std::string_view name) {
  return {*std::ranges::find(Placers(), name, &PlacerInfo::name), nullptr};
}

std::unique_ptr<Placer> MakeGslice(const BaselineOptions& options) {
  return std::make_unique<GslicePlacer>(options);
}

template <typename Kind>
std::unique_ptr<Placer> MakePeriodic(const BaselineOptions& options) {
  auto made = std::make_unique<Kind>(options.busy);
  if (options.every_decision) return made;
  return std::make_unique<PeriodicPlacer>(std::move(made));
}

// What `inss` owes to its networks: in comparisons only.
template <bool kNetworks>
std::unique_ptr<Placer> MakePartOfInss(const BaselineOptions& /*options*/) {
  auto made = MakeLearnedPlacer(kNetworks ? "inss-net" : "inss-guess");
  LAGOON_CHECK(made.has_value());
  return *std::move(made);
}

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      Served("lagoon"),
      {{"usher", "the least interference, shares where a granule does most (Usher, OSDI 2024)"},
       MakePeriodic<UsherPlacer>},
      Served("inss"),
      Served("inss-ni"),
      {{"inss-net", "the networks of inss alone, without its guard"}, MakePartOfInss<true>},
      {{"inss-guess", "inss without its networks"}, MakePartOfInss<false>},
      {{"igniter", "the fewest GPUs that keep half the SLO (iGniter, TPDS 2022)"},
       MakePeriodic<IgniterPlacer>},
      {{"gslice", "first fit by knee, self-tuned shares (GSLICE, SoCC 2020)"}, MakeGslice},
      {{"gpulet", "at most two models on a GPU (Gpulet, USENIX ATC 2022)"},
       MakePeriodic<GpuletPlacer>},
  };
  return rows;
}

}  // namespace

const std::vector<PlacerInfo>& AllPlacers() {
  static const std::vector<PlacerInfo> infos = [] {
    std::vector<PlacerInfo> all;
    for (const Row& row : Rows()) all.push_back(row.info);
    return all;
  }();
  return infos;
}

Result<std::unique_ptr<Placer>> MakeAnyPlacer(std::string_view name,
                                              const BaselineOptions& options) {
  std::string known;
  for (const Row& row : Rows()) {
    if (row.info.name == name) {
      if (row.make == nullptr) return MakePlacer(name);
      return row.make(options);
    }
    known += (known.empty() ? "" : ", ") + row.info.name;
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no placer {}; there are {}", Quoted(std::string(name)), known));
}

}  // namespace lagoon
