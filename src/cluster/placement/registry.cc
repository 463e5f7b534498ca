#include "cluster/placement/registry.h"

#include <fmt/format.h>

#include "base/text.h"
#include "cluster/learned/learned_placer.h"
#include "cluster/placement/gpulet_placer.h"
#include "cluster/placement/gslice_placer.h"
#include "cluster/placement/igniter_placer.h"
#include "cluster/placement/lagoon_placer.h"
#include "cluster/placement/periodic_placer.h"
#include "cluster/placement/usher_placer.h"

namespace lagoon {
namespace {

struct Row {
  PlacerInfo info;
  Result<std::unique_ptr<Placer>> (*make)(double busy);
};

Result<std::unique_ptr<Placer>> MakeLagoon(double) { return std::make_unique<LagoonPlacer>(); }
Result<std::unique_ptr<Placer>> MakeInss(double) { return MakeLearnedPlacer("inss"); }
Result<std::unique_ptr<Placer>> MakeInssNi(double) { return MakeLearnedPlacer("inss-ni"); }
Result<std::unique_ptr<Placer>> MakeGslice(double busy) {
  return std::make_unique<GslicePlacer>(busy);
}

template <typename Kind>
Result<std::unique_ptr<Placer>> MakePeriodic(double busy) {
  return std::make_unique<PeriodicPlacer>(std::make_unique<Kind>(busy));
}

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {{"lagoon", "local search on the forecast of late requests, with interference"}, MakeLagoon},
      {{"usher", "the least interference, shares where a granule does most (Usher, OSDI 2024)"},
       MakePeriodic<UsherPlacer>},
      {{"inss", "two trained networks (InSS, TPDS 2024)"}, MakeInss},
      {{"inss-ni", "as inss, without knowledge of interference"}, MakeInssNi},
      {{"igniter", "the fewest GPUs that keep half the SLO (iGniter, TPDS 2022)"},
       MakePeriodic<IgniterPlacer>},
      {{"gslice", "first fit by knee, self-tuned shares (GSLICE, SoCC 2020)"}, MakeGslice},
      {{"gpulet", "at most two models on a GPU (Gpulet, USENIX ATC 2022)"},
       MakePeriodic<GpuletPlacer>},
  };
  return rows;
}

}  // namespace

const std::vector<PlacerInfo>& Placers() {
  static const std::vector<PlacerInfo> infos = [] {
    std::vector<PlacerInfo> all;
    for (const Row& row : Rows()) all.push_back(row.info);
    return all;
  }();
  return infos;
}

Result<std::unique_ptr<Placer>> MakePlacer(std::string_view name, double busy) {
  std::string known;
  for (const Row& row : Rows()) {
    if (row.info.name == name) return row.make(busy);
    known += (known.empty() ? "" : ", ") + row.info.name;
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no placer {}; there are {}", Quoted(std::string(name)), known));
}

}  // namespace lagoon
