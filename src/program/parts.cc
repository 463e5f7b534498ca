#include "program/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/text.h"

namespace lagoon {

namespace {

Result<HostTensor> MadeOutput(const Plan& plan, const PartRun& run, std::size_t index) {
  const TensorSpec& spec = plan.outputs[index].spec;
  const MadeTensor* const made = index < run.made.size() ? run.made[index].get() : nullptr;
  if (made != nullptr && made->type == spec.type) return HostTensor{made->dims, made->bytes};
  return Fail(ErrorCode::kInternal,
              fmt::format("model '{}': the engine said that value {} has type {}, and made {}",
                          plan.model, Quoted(spec.name), OipName(spec.type),
                          made == nullptr ? "nothing" : OipName(made->type)));
}

}  // namespace

Result<HostTensor> PartOutput(const PartLinks& links, const Plan& plan, const PartRun& run,
                              std::size_t index) {
  if (plan.outputs[index].made) return MadeOutput(plan, run, index);
  const TensorSpec& spec = plan.outputs[index].spec;
  HostTensor tensor{spec.dims, run.outputs[index]};
  if (!links.sizes[index]) return tensor;
  const std::span<const std::byte> sizes = run.outputs[*links.sizes[index]];
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

Result<std::vector<HostTensor>> InputsOfNextPart(const PartLinks& links, const Plan& plan,
                                                 std::span<const HostTensor> inputs,
                                                 const PartRun& run) {
  std::vector<HostTensor> next;
  for (const PartSource& source : links.next->sources) {
    if (source.from_input) {
      next.push_back(inputs[source.index]);
      continue;
    }
    LAGOON_ASSIGN_OR_RETURN(HostTensor tensor, PartOutput(links, plan, run, source.index));
    next.push_back(std::move(tensor));
  }
  return next;
}

bool Outdated(const Plan& plan) {
  return std::ranges::any_of(plan.opaque,
                             [&](std::uint32_t op) { return plan.ops[op].opaque->outdated(); });
}

bool Assumes(const Plan& plan) {
  return std::ranges::any_of(plan.opaque,
                             [&](std::uint32_t op) { return plan.ops[op].opaque->assumed(); });
}

Constant AsConstant(DataType type, const HostTensor& tensor) {
  return {type, tensor.dims,
          std::make_shared<const ConstantData::Bytes>(tensor.bytes.begin(), tensor.bytes.end())};
}

}  // namespace lagoon
