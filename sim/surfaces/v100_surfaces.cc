#include "sim/surfaces/v100_surfaces.h"

#include <algorithm>

#include "base/check.h"

namespace lagoon {
namespace {

struct Row {
  const char* model;
  SurfaceFormula formula;
  const char* source;
};

// Table 2 has throughput / latency for one model alone: with one row at a time, in ms, its square
// root is sqrt(1000 / eta): 1.74 ms for MobileNet, 16.2 ms for VGG-16, 22.5 ms for GNMT. The same
// gives 2.06 ms for AlexNet, whose 460 images/s of 4.4 are 2.17 ms.
constexpr Row kRows[] = {
    {"alexnet",
     {.base_ms = 2.0, .row_ms = 0.17, .knee = 0.30},
     "460 images/s at one row (4.4), knee of Fig. 3; time for each row assumed from the tenfold "
     "throughput with batches (4.1)"},
    {"mobilenet",
     {.base_ms = 1.58, .row_ms = 0.16, .knee = 0.30},
     "one row from Table 2; time for each row assumed from the ninefold throughput with batches "
     "(4.1); knee assumed as AlexNet's"},
    {"resnet50",
     {.base_ms = 5.0, .row_ms = 0.65, .knee = 0.60},
     "least squares of Table 5 (9.75, 14.5, 25.9 ms at 8, 16, 32 rows); knee of Fig. 2"},
    {"vgg16",
     {.base_ms = 15.0, .row_ms = 1.24, .knee = 0.70},
     "one row from Table 2; time for each row assumed from 550 images/s within 50 ms (4.6.1); knee "
     "assumed as VGG-19's"},
    {"vgg19",
     {.base_ms = 19.6, .row_ms = 1.36, .knee = 0.70},
     "least squares of Table 5 (30.54, 40.95, 63.12 ms at 8, 16, 32 rows); knee of Fig. 2"},
    {"vgg19-figure-16",
     {.base_ms = 19.6, .row_ms = 1.36, .fixed = 0.1, .knee = 1},
     "as vgg19, but with the 65 ms at 30 % of Fig. 16"},
    {"gnmt",
     {.base_ms = 21.7, .row_ms = 0.8, .knee = 0.70},
     "one row from Table 2; time for each row assumed; knee of Fig. 2"},
    {"jasper",
     {.base_ms = 40, .row_ms = 10, .knee = 0.50},
     "knee of Fig. 2; the times are assumed, only their ratios between shares mean something"},
};

constexpr PublishedKnee kKnees[] = {
    {"jasper", 0.50}, {"gnmt", 0.70}, {"vgg19", 0.70}, {"resnet50", 0.60}, {"alexnet", 0.30}};

std::vector<NamedSurface> MakeSurfaces() {
  std::vector<NamedSurface> surfaces;
  for (const Row& row : kRows) {
    auto surface = Surface::FromFormula(row.formula);
    LAGOON_CHECK(surface.has_value());
    surfaces.push_back({row.model, "Tesla V100", row.source, *std::move(surface)});
  }
  return surfaces;
}

}  // namespace

const std::vector<NamedSurface>& V100Surfaces() {
  static const std::vector<NamedSurface> surfaces = MakeSurfaces();
  return surfaces;
}

const Surface& V100Surface(std::string_view model) {
  const auto found = std::ranges::find(V100Surfaces(), model, &NamedSurface::model);
  LAGOON_CHECK(found != V100Surfaces().end());
  return found->surface;
}

std::span<const PublishedKnee> V100Knees() { return kKnees; }

}  // namespace lagoon
