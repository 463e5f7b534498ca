#include "serving/model/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace lagoon {
namespace {

std::vector<std::string> NamesOf(const DeclaredTensor& input, std::size_t axis) {
  std::vector<std::string> names{fmt::format("{}[{}]", input.name, axis)};
  if (axis < input.symbols.size() && !input.symbols[axis].empty()) {
    names.insert(names.begin(), input.symbols[axis]);
  }
  return names;
}

/// The axes of inputs that are open and have this name.
std::vector<TensorAxis> AxesOf(const OnnxModel& model, const std::string& name) {
  std::vector<TensorAxis> axes;
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    const DeclaredTensor& input = model.inputs()[i];
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
      if (input.dims[axis] != -1) continue;
      const std::vector<std::string> names = NamesOf(input, axis);
      if (std::ranges::find(names, name) != names.end()) axes.push_back({i, axis});
    }
  }
  return axes;
}

std::string OpenDims(const OnnxModel& model) {
  std::vector<std::string> names;
  for (const DeclaredTensor& input : model.inputs()) {
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
      if (input.dims[axis] != -1) continue;
      const std::string name = NamesOf(input, axis).front();
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

/// The shapes of the model's outputs, by number. kUnimplemented: they are not known before a run.
Result<std::vector<Dims>> OutputShapes(const OnnxModel& model, std::vector<Dims> inputs) {
  LAGOON_ASSIGN_OR_RETURN(const ModelPart part, model.Import({std::move(inputs), {}}));
  const PartLinks& links = part.links;
  const bool computed =
      std::ranges::any_of(links.sizes, [](const auto& size) { return size.has_value(); });
  const bool made = std::ranges::any_of(
      part.graph.outputs, [&](ValueId output) { return part.graph.value(output).unsized; });
  if (links.next || computed || made) {
    return Fail(ErrorCode::kUnimplemented,
                "shapes depend on data, so Lagoon cannot tell which part of an output belongs to a "
                "padded request; leave lagoon.buckets out");
  }
  std::vector<Dims> shapes(model.outputs().size());
  for (std::size_t i = 0; i < links.results.size(); ++i) {
    shapes[links.results[i]] = part.graph.value(part.graph.outputs[i]).dims;
  }
  return shapes;
}

/// Adds the axes of output `number` that have the dim's size in both shapes.
Status AddOutputAxes(const OnnxModel& model, std::size_t number, const Dims& small,
                     const Dims& large, std::int64_t small_size, BucketDim& dim) {
  const std::int64_t large_size = dim.sizes.back();
  for (std::size_t axis = 0; axis < large.size(); ++axis) {
    const bool same_rank = small.size() == large.size();
    if (same_rank && small[axis] == large[axis]) continue;
    if (same_rank && small[axis] == small_size && large[axis] == large_size) {
      dim.outputs.push_back({number, axis});
      continue;
    }
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("output {} has shape {} where '{}' is {}, and {} where it is {}: "
                            "Lagoon cannot tell which part of it belongs to a padded request; "
                            "leave lagoon.buckets.{} out",
                            Quoted(model.outputs()[number].name), ToString(small), dim.name,
                            small_size, ToString(large), large_size, dim.name));
  }
  return {};
}

/// Fails if an output has another rank where open dims are larger: its axes are then not those of
/// `known`.
Status CheckRanks(const OnnxModel& model, const std::vector<Dims>& inputs,
                  const std::vector<Dims>& known) {
  std::vector<Dims> more = inputs;
  for (std::size_t i = 0; i < more.size(); ++i) {
    for (std::size_t axis = 0; axis < more[i].size(); ++axis) {
      if (model.inputs()[i].dims[axis] == -1) more[i][axis] *= 2;
    }
  }
  const auto larger = OutputShapes(model, std::move(more));
  if (!larger) return {};  // the model does not take these shapes
  for (std::size_t i = 0; i < known.size(); ++i) {
    if ((*larger)[i].size() == known[i].size()) continue;
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("the rank of output {} depends on open sizes ({} and {}), so Lagoon "
                    "cannot tell which part of it belongs to a padded request; leave "
                    "lagoon.buckets out",
                    Quoted(model.outputs()[i].name), ToString(known[i]), ToString((*larger)[i])));
  }
  return {};
}

void CopyFrom(std::size_t axis, const Dims& from_dims, const std::byte* from, const Dims& to_dims,
              std::byte* to, std::size_t element) {
  const auto bytes_behind = [&](const Dims& dims) {
    std::size_t bytes = element;
    for (std::size_t i = axis + 1; i < dims.size(); ++i) bytes *= static_cast<std::size_t>(dims[i]);
    return bytes;
  };
  const std::size_t from_step = bytes_behind(from_dims), to_step = bytes_behind(to_dims);
  const auto count = static_cast<std::size_t>(std::min(from_dims[axis], to_dims[axis]));
  if (std::equal(from_dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, from_dims.end(),
                 to_dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1)) {
    if (count * from_step > 0) std::memcpy(to, from, count * from_step);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    CopyFrom(axis + 1, from_dims, from + i * from_step, to_dims, to + i * to_step, element);
  }
}

}  // namespace

void CopyCommonPart(const Dims& from_dims, const std::byte* from, const Dims& to_dims,
                    std::byte* to, std::size_t element) {
  if (from_dims.empty()) {
    std::memcpy(to, from, element);
  } else {
    CopyFrom(0, from_dims, from, to_dims, to, element);
  }
}

Result<Buckets> Buckets::Find(const OnnxModel& model,
                              const std::map<std::string, std::vector<std::int64_t>>& sizes) {
  Buckets buckets;
  for (const auto& [name, of_dim] : sizes) {
    BucketDim dim{name, of_dim, AxesOf(model, name), {}};
    if (dim.inputs.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("parameter 'lagoon.buckets.{}': no input has an open dimension of "
                              "this name; open are: {}",
                              name, OpenDims(model)));
    }
    buckets.dims_.push_back(std::move(dim));
  }
  return buckets;
}

std::string Buckets::Names() const {
  std::vector<std::string> names;
  for (const BucketDim& dim : dims_) names.push_back("'" + dim.name + "'");
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<std::vector<std::vector<Dims>>> Buckets::Combinations(const std::vector<Dims>& shapes,
                                                             std::size_t most) const {
  std::vector<std::vector<Dims>> all{shapes};
  for (const BucketDim& dim : dims_) {
    std::vector<std::vector<Dims>> more;
    for (const std::vector<Dims>& one : all) {
      for (const std::int64_t size : dim.sizes) {
        more.push_back(one);
        for (const TensorAxis& at : dim.inputs) more.back()[at.tensor][at.axis] = size;
      }
      if (more.size() <= most) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("lagoon.buckets: more than {} combinations of sizes, which is the "
                              "number of plans that are kept (lagoon.max_plans)",
                              most));
    }
    all = std::move(more);
  }
  return all;
}

Status Buckets::FindOutputs(const OnnxModel& model, const std::vector<Dims>& shapes) {
  const auto largest = [](const BucketDim& dim) { return dim.sizes.back(); };
  LAGOON_ASSIGN_OR_RETURN(const auto large, OutputShapes(model, With(shapes, largest)));
  LAGOON_RETURN_IF_ERROR(CheckRanks(model, With(shapes, largest), large));
  for (BucketDim& dim : dims_) {
    // A second size tells an axis of the dim's size from one that happens to have as many places.
    const std::int64_t small_size =
        dim.sizes.size() > 1 ? dim.sizes.front() : dim.sizes.front() - 1;
    const auto size = [&](const BucketDim& any) {
      return &any == &dim ? small_size : any.sizes.back();
    };
    LAGOON_ASSIGN_OR_RETURN(const auto small, OutputShapes(model, With(shapes, size)));
    for (std::size_t i = 0; i < large.size(); ++i) {
      LAGOON_RETURN_IF_ERROR(AddOutputAxes(model, i, small[i], large[i], small_size, dim));
    }
  }
  return {};
}

Result<RequestPadding> Buckets::Pad(const Signature& signature, RequestBinding& binding) const {
  RequestPadding padding;
  const std::vector<Dims> own = binding.dims;
  for (const BucketDim& dim : dims_) {
    const TensorAxis first = dim.inputs.front();
    const std::int64_t size = own[first.tensor][first.axis];
    for (const TensorAxis& at : dim.inputs) {
      if (own[at.tensor][at.axis] == size) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("input {} has shape {}, input {} has shape {}: they differ in '{}', "
                              "axis {} of the one and {} of the other",
                              Quoted(signature.inputs[first.tensor].name),
                              ToString(own[first.tensor]), Quoted(signature.inputs[at.tensor].name),
                              ToString(own[at.tensor]), dim.name, first.axis, at.axis));
    }
    const auto bucket = std::ranges::lower_bound(dim.sizes, size);
    const bool pads = size > 0 && bucket != dim.sizes.end() && *bucket != size;
    padding.sizes.push_back(pads ? size : 0);
    if (!pads) continue;
    for (const TensorAxis& at : dim.inputs) binding.dims[at.tensor][at.axis] = *bucket;
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (binding.dims[i] == own[i]) continue;
    const TensorSpec padded{{}, signature.inputs[i].type, binding.dims[i]};
    // Both factors are bounded: by kMaxBucket, and by what a request may hold.
    if (padded.bytes() > kMaxPaddedBytes) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("input {} has shape {}, which lagoon.buckets pads to {}: {} bytes, "
                              "at most {} are allowed",
                              Quoted(signature.inputs[i].name), ToString(own[i]),
                              ToString(padded.dims), padded.bytes(), kMaxPaddedBytes));
    }
    auto& memory = padding.inputs.emplace_back(std::make_unique<std::byte[]>(padded.bytes()));
    CopyCommonPart(own[i], binding.inputs[i].data(), padded.dims, memory.get(),
                   SizeOf(padded.type));
    binding.inputs[i] = {memory.get(), padded.bytes()};
  }
  return padding;
}

void Buckets::Cut(const RequestPadding& padding, std::size_t output, OutputTensor& tensor) const {
  TensorSpec own{{}, tensor.type, tensor.dims};
  for (std::size_t i = 0; i < padding.sizes.size(); ++i) {
    if (padding.sizes[i] == 0) continue;
    for (const TensorAxis& at : dims_[i].outputs) {
      if (at.tensor == output && at.axis < own.dims.size()) own.dims[at.axis] = padding.sizes[i];
    }
  }
  if (own.dims == tensor.dims) return;
  UnfilledBytes cut(own.bytes());
  CopyCommonPart(tensor.dims, tensor.data.data(), own.dims, cut.data(), SizeOf(tensor.type));
  tensor.dims = std::move(own.dims);
  tensor.data = std::move(cut);
}

}  // namespace lagoon
