#pragma once

// Parts of a kernel list (SPLIT 3.2), for simulated devices.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bench/sim/kernel_lists.h"
#include "sim/device/gpu_model.h"

namespace lagoon::bench {

/// A row of SPLIT's Table 3: the best cuts that the paper found for a number of parts.
struct SplitTable3Row {
  std::string_view model;
  std::uint32_t parts = 0;
  double sigma_ms = 0;  // standard deviation of the parts' times
  double overhead = 0;  // time of all parts over that of the whole model, less 1
};
std::span<const SplitTable3Row> SplitTable3();

/// The rows of a model, in order of parts. Empty: the paper does not split the model.
std::vector<SplitTable3Row> SplitTable3(std::string_view model);

/// The number of parts that Eq. 2 chooses from Table 3: 2 for ResNet-50, 3 for VGG-19. 1 for a
/// model without rows.
std::uint32_t PartsOfTable3(std::string_view model);

/// The kernels before which the list is cut into `parts` parts of about equal time: each cut is
/// where the time of the kernels before it is nearest to an even share. The last entry is the
/// number of kernels. At most as many parts as kernels.
std::vector<std::uint32_t> EvenEnds(const SimModel& model, std::uint32_t parts);

/// The list in `parts` parts (SimModel::part_ends), cut as EvenEnds() says. With an `overhead`
/// above 0 there are two more kernels at each cut, which copy values out of one part and into the
/// next. They take `overhead` of the model's time together: mode `onnx`, in which each part is a
/// model of its own.
SimModel CutIntoParts(const SimModel& model, std::uint32_t parts, double overhead,
                      const SimConstants& constants);

}  // namespace lagoon::bench
