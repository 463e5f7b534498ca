// Evaluators of ops that choose elements.

#include <cstring>

#include "graph/fold/evaluate.h"
#include "plan/element.h"

namespace lagoon {
namespace {

bool IsNonZero(const Constant& constant, std::size_t i) {
  if (constant.type == DataType::kBool) return (*constant.bytes)[i] != std::byte{0};
  return ElementAsDouble(constant.type, constant.bytes->data(), i) != 0;
}

}  // namespace

std::int64_t CountNonZero(const Constant& constant) {
  std::int64_t count = 0;
  const auto elements = static_cast<std::size_t>(ElementCount(constant.dims));
  for (std::size_t i = 0; i < elements; ++i) count += IsNonZero(constant, i) ? 1 : 0;
  return count;
}

Result<ConstantBytes> EvaluateNonZero(const OpContext& context, std::size_t /*output*/) {
  const Constant& x = *context.constant(0);
  const Dims& out = context.output(0).dims;
  auto bytes = std::make_shared<std::vector<std::byte>>(
      static_cast<std::size_t>(ElementCount(out)) * sizeof(std::int64_t));
  const std::vector<std::int64_t> strides = RowMajorStrides(x.dims);
  const auto elements = static_cast<std::size_t>(ElementCount(x.dims));
  std::int64_t column = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    if (!IsNonZero(x, i)) continue;
    for (std::int64_t axis = 0; axis < out[0]; ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      std::int64_t place = 0;  // of a scalar
      if (at < strides.size()) place = static_cast<std::int64_t>(i) / strides[at] % x.dims[at];
      std::memcpy(bytes->data() + (axis * out[1] + column) * 8, &place, sizeof(place));
    }
    ++column;
  }
  return bytes;
}

}  // namespace lagoon
