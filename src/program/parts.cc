#include "program/parts.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "base/text.h"

namespace lagoon {

Result<HostTensor> PartOutput(const PartLinks& links, const Plan& plan,
                              std::span<const std::span<const std::byte>> outputs,
                              std::size_t index) {
  const TensorSpec& spec = plan.outputs[index].spec;
  HostTensor tensor{spec.dims, outputs[index]};
  if (!links.sizes[index]) return tensor;
  const std::span<const std::byte> sizes = outputs[*links.sizes[index]];
  std::memcpy(tensor.dims.data(), sizes.data(), tensor.dims.size() * sizeof(std::int64_t));
  for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    if (tensor.dims[axis] >= 0 && tensor.dims[axis] <= spec.dims[axis]) continue;
    return Fail(
        ErrorCode::kInternal,
        fmt::format("model '{}': value {} came out with dims {}, its capacity is {}", plan.model,
                    Quoted(spec.name), ToString(tensor.dims), ToString(spec.dims)));
  }
  const auto elements = static_cast<std::size_t>(ElementCount(tensor.dims));
  tensor.bytes = tensor.bytes.first(elements * SizeOf(spec.type));
  return tensor;
}

Result<std::vector<HostTensor>> InputsOfNextPart(
    const PartLinks& links, const Plan& plan, std::span<const HostTensor> inputs,
    std::span<const std::span<const std::byte>> outputs) {
  std::vector<HostTensor> next;
  for (const PartSource& source : links.next->sources) {
    if (source.from_input) {
      next.push_back(inputs[source.index]);
      continue;
    }
    LAGOON_ASSIGN_OR_RETURN(HostTensor tensor, PartOutput(links, plan, outputs, source.index));
    next.push_back(std::move(tensor));
  }
  return next;
}

Constant AsConstant(DataType type, const HostTensor& tensor) {
  return {type, tensor.dims,
          std::make_shared<const ConstantData::Bytes>(tensor.bytes.begin(), tensor.bytes.end())};
}

}  // namespace lagoon
