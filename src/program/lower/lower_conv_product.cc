// Convolutions as products of matrices: the weights times the pixels that each output pixel reads,
// side by side.

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

/// x [N,C,...] with zeros around its planes.
Result<Tensor> Padded(ProgramBuilder& builder, const Node& node, const Tensor& x) {
  const Ints pads = node.Ints("pads", {});
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2);
  Ints begins{0, 0}, ends{0, 0};
  begins.insert(begins.end(), pads.begin(), middle);
  ends.insert(ends.end(), middle, pads.end());
  return EmitPadding(builder, node.name + ".pad", x, begins, ends);
}

/// The columns [N, groups, C / groups * taps, pixels of y] from the padded x. One copy; integers
/// have columns that need no padded x, so that windows of any reach fit (lower_integer_conv.cc).
Result<Tensor> Columns(ProgramBuilder& builder, const Node& node, const Tensor& x) {
  const Ints kernel = node.Ints("kernel_shape", {}), strides = node.Ints("strides", {}),
             dilations = node.Ints("dilations", {});
  const Dims y = builder.dims(node.outputs[0]);
  const std::int64_t groups = node.Int("group", 1);
  const std::size_t axes = kernel.size();
  Ints steps(x.dims.size(), 1);  // elements of x between neighbours along an axis
  for (std::size_t axis = steps.size(); axis-- > 1;) steps[axis - 1] = steps[axis] * x.dims[axis];
  StridedCopySpec spec;
  spec.element_bytes = SizeOf(x.type);
  spec.out = {x.dims[0], x.dims[1]};
  spec.strides = {steps[0], steps[1]};
  for (std::size_t i = 0; i < axes; ++i) {
    spec.out.push_back(kernel[i]);
    spec.strides.push_back(dilations[i] * steps[i + 2]);
  }
  for (std::size_t i = 0; i < axes; ++i) {
    spec.out.push_back(y[i + 2]);
    spec.strides.push_back(strides[i] * steps[i + 2]);
  }
  const std::int64_t pixels = ElementCount(Dims(y.begin() + 2, y.end()));
  const Tensor columns =
      builder.NewTensor(node.name + ".columns",
                        {x.dims[0], groups, x.dims[1] / groups * ElementCount(kernel), pixels},
                        Layout::kPlain, x.type);
  LAGOON_RETURN_IF_ERROR(builder.Emit(node.name + ".columns",
                                      [&](auto& make) { return make.StridedCopy(spec); },
                                      {builder.All(x)}, {builder.All(columns)}));
  return columns;
}

}  // namespace

Result<Tensor> EmitConvProduct(ProgramBuilder& builder, const Node& node, const Tensor& x,
                               const Tensor& w) {
  const std::int64_t groups = node.Int("group", 1);
  LAGOON_ASSIGN_OR_RETURN(const Tensor padded, Padded(builder, node, x));
  LAGOON_ASSIGN_OR_RETURN(const Tensor columns, Columns(builder, node, padded));
  LAGOON_ASSIGN_OR_RETURN(const Tensor rows,
                          builder.Reshape(w, {groups, w.dims[0] / groups, columns.dims[2]}));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitMatMul(builder, node.name, rows, columns));
  return builder.Reshape(y, builder.dims(node.outputs[0]));
}

Result<Tensor> AlongChannels(ProgramBuilder& builder, const Tensor& x, std::size_t rank) {
  Dims dims(rank - 1, 1);
  dims[0] = ElementCount(x.dims);
  return builder.Reshape(x, dims);
}

}  // namespace lagoon
