#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cluster/surface_file.h"

namespace lagoon {

/// Models on a Tesla V100 as GSLICE reports them, for simulations of its experiments. `source` says
/// what of a surface is published and what is assumed. All of them assume that 30 % of the time at
/// one row does not depend on the share, and that the knee rises with the fourth root of the rows,
/// but for "vgg19-figure-16": no such surface fits both the 65 ms of VGG-19 at 30 % in Fig. 16 and
/// its knee of 70 % with about 20 ms in Fig. 2.
const std::vector<NamedSurface>& V100Surfaces();
/// The one of `model`, which must be among them.
const Surface& V100Surface(std::string_view model);

/// The knees at one row that GSLICE 2.1.3 gives.
struct PublishedKnee {
  const char* model;  // in V100Surfaces()
  double share;
};
std::span<const PublishedKnee> V100Knees();

}  // namespace lagoon
