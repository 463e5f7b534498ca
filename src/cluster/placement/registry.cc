#include "cluster/placement/registry.h"

#include <fmt/format.h>

#include "base/text.h"
#include "cluster/learned/learned_placer.h"
#include "cluster/placement/lagoon_placer.h"

namespace lagoon {
namespace {

struct Row {
  PlacerInfo info;
  Result<std::unique_ptr<Placer>> (*make)();
};

Result<std::unique_ptr<Placer>> MakeLagoon() { return std::make_unique<LagoonPlacer>(); }
Result<std::unique_ptr<Placer>> MakeInss() { return MakeLearnedPlacer("inss"); }
Result<std::unique_ptr<Placer>> MakeInssNi() { return MakeLearnedPlacer("inss-ni"); }

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {{"lagoon", "local search on the forecast of late requests, with interference"}, MakeLagoon},
      {{"inss", "two trained networks (InSS, TPDS 2024)"}, MakeInss},
      {{"inss-ni", "as inss, without knowledge of interference"}, MakeInssNi},
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

Result<std::unique_ptr<Placer>> MakePlacer(std::string_view name) {
  std::string known;
  for (const Row& row : Rows()) {
    if (row.info.name == name) return row.make();
    known += (known.empty() ? "" : ", ") + row.info.name;
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no placer {}; there are {}", Quoted(std::string(name)), known));
}

}  // namespace lagoon
