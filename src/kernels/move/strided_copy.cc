#include <fmt/format.h>

#include "kernels/activation.h"
#include "kernels/checks.h"
#include "kernels/elementwise/row_functions.h"
#include "kernels/move/shape_ops.h"

namespace lagoon {
namespace {

constexpr char kCopyName[] = "strided_copy";

}  // namespace

Result<Kernel> MakeStridedCopy(const StridedCopySpec& spec) {
  // Measured on a Xeon at 2 GHz, one thread, from the third-level cache: every strided element is
  // in another cache line.
  constexpr double kNsPerStridedElement = 1.5;
  constexpr double kNsPerElement = 0.05;
  if (spec.strides.size() != spec.out.size()) {
    return Invalid(kCopyName, fmt::format("y {} with strides {}", ShapeText(spec.out),
                                          ShapeText(spec.strides)));
  }
  bool dense = true;
  for (std::size_t i = spec.out.size(); i-- > 0;) {
    if (spec.out[i] == 1) continue;
    dense = spec.strides[i] == 1;
    break;
  }
  RowsSpec rows;
  rows.name = kCopyName;
  rows.row = FindCopyRow(spec.element_bytes);
  rows.out = spec.out;
  rows.out_bytes = spec.element_bytes;
  rows.inputs = {{spec.strides, spec.start, spec.element_bytes}};
  rows.ns_per_element = (dense ? kNsPerElement : kNsPerStridedElement) + FinishNs(spec.epilogue);
  LAGOON_RETURN_IF_ERROR(CheckOnlyFunction(kCopyName, spec.epilogue, spec.element_bytes));
  LAGOON_ASSIGN_OR_RETURN(rows.finish, FinishOf(kCopyName, spec.epilogue));
  return MakeRows(rows);
}

}  // namespace lagoon
