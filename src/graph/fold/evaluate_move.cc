#include <fmt/format.h>

#include <cstring>

#include "graph/fold/evaluate.h"

namespace lagoon {
namespace {

using Bytes = std::vector<std::byte>;

std::size_t OutputBytes(const OpContext& context, std::size_t output) {
  const Value& value = context.output(output);
  return static_cast<std::size_t>(ElementCount(value.dims)) * SizeOf(value.type);
}

StridedView RowMajor(const OpContext& context, std::size_t i) {
  return {context.constant(i)->bytes->data(), SizeOf(context.input(i).type), 0,
          RowMajorStrides(context.dims(i))};
}

ConstantBytes Materialise(const StridedView& view, const Dims& dims) {
  auto bytes =
      std::make_shared<Bytes>(static_cast<std::size_t>(ElementCount(dims)) * view.element_bytes);
  CopyStrided(view, dims, bytes->data());
  return bytes;
}

// Bytes of one slice along the dimensions from `axis` on.
std::size_t BytesFrom(const Dims& dims, std::size_t axis, DataType type) {
  const Dims inner(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end());
  return static_cast<std::size_t>(ElementCount(inner)) * SizeOf(type);
}

}  // namespace

std::vector<std::int64_t> RowMajorStrides(const Dims& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(dims[i], 1);
  }
  return strides;
}

void CopyStrided(const StridedView& view, const Dims& dims, std::byte* to) {
  const std::int64_t count = ElementCount(dims);
  Dims index(dims.size(), 0);
  std::int64_t at = view.offset;
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to, view.from + at * static_cast<std::int64_t>(view.element_bytes),
                view.element_bytes);
    to += view.element_bytes;
    for (std::size_t d = dims.size(); d-- > 0;) {
      at += view.strides[d];
      if (++index[d] < dims[d]) break;
      at -= view.strides[d] * dims[d];
      index[d] = 0;
    }
  }
}

ConstantBytes BroadcastBytes(const OpContext& context, std::size_t i, const Dims& dims) {
  if (context.dims(i) == dims) return context.constant(i)->bytes;
  StridedView view = RowMajor(context, i);
  const Dims& own = context.dims(i);
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (own[d] == 1) view.strides[d] = 0;
  }
  view.strides.insert(view.strides.begin(), dims.size() - own.size(), 0);
  return Materialise(view, dims);
}

Result<ConstantBytes> EvaluateAlias(const OpContext& context, std::size_t output) {
  if (output != 0) return context.Unimplemented("has an output that cannot be constant");
  return context.constant(0)->bytes;
}

Result<ConstantBytes> EvaluateTranspose(const OpContext& context, std::size_t output) {
  StridedView view = RowMajor(context, 0);
  const std::vector<std::int64_t> strides = view.strides;
  const std::vector<std::int64_t> perm = context.node().Ints("perm", {});
  for (std::size_t i = 0; i < perm.size(); ++i) {
    view.strides[i] = strides[static_cast<std::size_t>(perm[i])];
  }
  return Materialise(view, context.output(output).dims);
}

Result<ConstantBytes> EvaluateSlice(const OpContext& context, std::size_t output) {
  StridedView view = RowMajor(context, 0);
  const std::vector<std::int64_t> starts = context.node().Ints("starts", {});
  const std::vector<std::int64_t> steps = context.node().Ints("steps", {});
  const Dims& out = context.output(output).dims;
  for (std::size_t i = 0; i < out.size(); ++i) {
    view.offset += starts[i] * view.strides[i];
    // A huge step over one element is never taken, but multiplying by that step could overflow.
    view.strides[i] = out[i] > 1 ? view.strides[i] * steps[i] : 0;
  }
  return Materialise(view, out);
}

Result<ConstantBytes> EvaluateSplit(const OpContext& context, std::size_t output) {
  StridedView view = RowMajor(context, 0);
  const auto axis = static_cast<std::size_t>(context.node().Int("axis", 0));
  const std::vector<std::int64_t> sizes = context.node().Ints("split", {});
  for (std::size_t i = 0; i < output; ++i) view.offset += sizes[i] * view.strides[axis];
  return Materialise(view, context.output(output).dims);
}

Result<ConstantBytes> EvaluateExpand(const OpContext& context, std::size_t output) {
  return BroadcastBytes(context, 0, context.output(output).dims);
}

Result<ConstantBytes> EvaluateConcat(const OpContext& context, std::size_t output) {
  auto bytes = std::make_shared<Bytes>(OutputBytes(context, output));
  const auto axis = static_cast<std::size_t>(context.node().Int("axis", 0));
  const DataType type = context.input(0).type;
  const std::size_t row = BytesFrom(context.output(output).dims, axis, type);
  if (row == 0) return bytes;
  std::size_t column = 0;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const std::size_t width = BytesFrom(context.dims(i), axis, type);
    const std::byte* from = context.constant(i)->bytes->data();
    for (std::size_t at = column; width > 0 && at < bytes->size(); at += row, from += width) {
      std::memcpy(bytes->data() + at, from, width);
    }
    column += width;
  }
  return bytes;
}

Result<ConstantBytes> EvaluateGather(const OpContext& context, std::size_t output) {
  auto bytes = std::make_shared<Bytes>(OutputBytes(context, output));
  const auto axis = static_cast<std::size_t>(context.node().Int("axis", 0));
  const Dims& x = context.dims(0);
  std::vector<std::int64_t> indices = context.constant(1)->ToInt64();
  for (std::int64_t& index : indices) {
    if (index < -x[axis] || index >= x[axis]) {
      return context.Invalid(
          fmt::format("index {} is outside axis {} of {}", index, axis, ToString(x)));
    }
    if (index < 0) index += x[axis];
  }
  const std::size_t row = BytesFrom(x, axis + 1, context.input(0).type);
  if (row == 0) return bytes;
  const std::byte* from = context.constant(0)->bytes->data();
  for (std::byte* to = bytes->data(); to < bytes->data() + bytes->size();) {
    for (const std::int64_t index : indices) {
      std::memcpy(to, from + static_cast<std::size_t>(index) * row, row);
      to += row;
    }
    from += row * static_cast<std::size_t>(x[axis]);
  }
  return bytes;
}

Result<ConstantBytes> EvaluateWhere(const OpContext& context, std::size_t output) {
  const Dims& out = context.output(output).dims;
  const ConstantBytes condition = BroadcastBytes(context, 0, out);
  const ConstantBytes yes = BroadcastBytes(context, 1, out);
  const ConstantBytes no = BroadcastBytes(context, 2, out);
  auto bytes = std::make_shared<Bytes>(*no);
  const std::size_t width = SizeOf(context.output(output).type);
  for (std::size_t i = 0; i < condition->size(); ++i) {
    if ((*condition)[i] == std::byte{0}) continue;
    std::memcpy(bytes->data() + i * width, yes->data() + i * width, width);
  }
  return bytes;
}

}  // namespace lagoon
