// Evaluators of ops that read or write at indices, or that place elements by their index.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "graph/fold/elements.h"
#include "graph/fold/evaluate.h"

namespace lagoon {
namespace {

using Indices = std::vector<std::int64_t>;

std::int64_t AxisOf(const OpContext& context) { return context.node().Int("axis", 0); }

/// `index` from the front of `size` places.
Result<std::int64_t> Checked(const OpContext& context, std::int64_t index, std::int64_t size) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  return context.Invalid(fmt::format("index {} is outside of {} elements", index, size));
}

/// Counts through the indices of `dims` in row-major order.
void Advance(Indices& index, const Dims& dims) {
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d]) return;
    index[d] = 0;
  }
}

std::int64_t Offset(const Indices& index, const Indices& strides) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

std::shared_ptr<ConstantData::Bytes> OutputBytesOf(const OpContext& context, std::size_t output) {
  const Value& value = context.output(output);
  return std::make_shared<ConstantData::Bytes>(static_cast<std::size_t>(ElementCount(value.dims)) *
                                               SizeOf(value.type));
}

/// For each index tuple of input 1: the place in input 0 where its slice begins, in elements.
Result<Indices> SliceStarts(const OpContext& context, std::size_t batch) {
  const Dims& x = context.dims(0);
  const Dims& tuples = context.dims(1);
  const auto width = static_cast<std::size_t>(tuples.back());
  const Indices strides = RowMajorStrides(x);
  const Indices flat = context.constant(1)->ToInt64();
  Dims places(tuples.begin(), tuples.end() - 1);
  Indices place(places.size(), 0), starts;
  for (std::size_t at = 0; at + width <= flat.size(); at += width) {
    std::int64_t start = 0;
    for (std::size_t d = 0; d < batch; ++d) start += place[d] * strides[d];
    for (std::size_t d = 0; d < width; ++d) {
      LAGOON_ASSIGN_OR_RETURN(const std::int64_t index,
                              Checked(context, flat[at + d], x[batch + d]));
      start += index * strides[batch + d];
    }
    starts.push_back(start);
    Advance(place, places);
  }
  return starts;
}

/// Elements of x behind the dims that an index tuple and the batch name.
std::size_t SliceElements(const OpContext& context, std::size_t batch) {
  const Dims& x = context.dims(0);
  const auto from = static_cast<std::ptrdiff_t>(batch) + context.dims(1).back();
  return static_cast<std::size_t>(ElementCount(Dims(x.begin() + from, x.end())));
}

/// Writes `update` over `*to`, as the reduction says.
template <typename T>
void Combine(std::string_view reduction, Stored<T> update, Stored<T>& to) {
  using S = Stored<T>;
  if constexpr (std::is_same_v<T, bool>) {
    to = update;
  } else if (reduction == "add") {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<S>;
      to = static_cast<S>(static_cast<U>(static_cast<U>(to) + static_cast<U>(update)));
    } else {
      to += update;
    }
  } else if (reduction == "mul") {
    if constexpr (std::is_integral_v<T>) {
      using U = std::uint64_t;
      to = static_cast<S>(static_cast<U>(to) * static_cast<U>(update));
    } else {
      to *= update;
    }
  } else {
    to = reduction == "min"   ? std::min(to, update)
         : reduction == "max" ? std::max(to, update)
                              : update;
  }
}

/// A copy of input 0 with update i of input 2 written at element places(i). May not fail.
template <typename Places>
Result<ConstantBytes> Scattered(const OpContext& context, std::int64_t updates, Places places) {
  const std::string reduction = context.node().String("reduction", "none");
  if (reduction != "none" && context.input(0).type == DataType::kBool) {
    return context.Unimplemented("of flags");
  }
  return WithElements(context, context.input(0).type,
                      [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
                        auto bytes =
                            std::make_shared<ConstantData::Bytes>(*context.constant(0)->bytes);
                        const auto* from = Elements<T>(context.constant(2)->bytes);
                        for (std::int64_t i = 0; i < updates; ++i) {
                          Combine<T>(reduction, from[i], Elements<T>(*bytes)[places(i)]);
                        }
                        return bytes;
                      });
}

/// For each index of input 1, along the axis: the place in input 0.
Result<Indices> ElementPlaces(const OpContext& context) {
  const auto axis = static_cast<std::size_t>(AxisOf(context));
  const Dims& x = context.dims(0);
  const Dims& dims = context.dims(1);
  const Indices strides = RowMajorStrides(x);
  Indices places, at(dims.size(), 0);
  for (const std::int64_t given : context.constant(1)->ToInt64()) {
    Indices place = at;
    LAGOON_ASSIGN_OR_RETURN(place[axis], Checked(context, given, x[axis]));
    places.push_back(Offset(place, strides));
    Advance(at, dims);
  }
  return places;
}

}  // namespace

Result<ConstantBytes> EvaluateTile(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const Dims& x = context.dims(0);
  const std::vector<std::int64_t> repeats = context.node().Ints("repeats", {});
  const Indices strides = RowMajorStrides(x);
  StridedView view{context.constant(0)->bytes->data(), SizeOf(context.input(0).type), 0, {}};
  Dims dims;
  for (std::size_t d = 0; d < x.size(); ++d) {
    dims.insert(dims.end(), {repeats[d], x[d]});
    view.strides.insert(view.strides.end(), {0, strides[d]});
  }
  auto bytes = OutputBytesOf(context, output);
  CopyStrided(view, dims, bytes->data());
  return bytes;
}

Result<ConstantBytes> EvaluateGatherElements(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  LAGOON_ASSIGN_OR_RETURN(const Indices places, ElementPlaces(context));
  auto bytes = OutputBytesOf(context, output);
  const std::size_t width = SizeOf(context.input(0).type);
  const std::byte* from = context.constant(0)->bytes->data();
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::memcpy(bytes->data() + i * width, from + static_cast<std::size_t>(places[i]) * width,
                width);
  }
  return bytes;
}

Result<ConstantBytes> EvaluateGatherND(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const auto batch = static_cast<std::size_t>(context.node().Int("batch_dims", 0));
  LAGOON_ASSIGN_OR_RETURN(const Indices starts, SliceStarts(context, batch));
  auto bytes = OutputBytesOf(context, output);
  const std::size_t width = SizeOf(context.input(0).type);
  const std::size_t slice = SliceElements(context, batch) * width;
  const std::byte* from = context.constant(0)->bytes->data();
  for (std::size_t i = 0; slice > 0 && i < starts.size(); ++i) {
    std::memcpy(bytes->data() + i * slice, from + static_cast<std::size_t>(starts[i]) * width,
                slice);
  }
  return bytes;
}

Result<ConstantBytes> EvaluateScatterElements(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  LAGOON_ASSIGN_OR_RETURN(const Indices places, ElementPlaces(context));
  return Scattered(context, std::ssize(places),
                   [&](std::int64_t i) { return places[static_cast<std::size_t>(i)]; });
}

Result<ConstantBytes> EvaluateScatterND(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  LAGOON_ASSIGN_OR_RETURN(const Indices starts, SliceStarts(context, 0));
  const auto slice = static_cast<std::int64_t>(SliceElements(context, 0));
  return Scattered(context, ElementCount(context.dims(2)), [&](std::int64_t i) {
    return starts[static_cast<std::size_t>(i / slice)] + i % slice;
  });
}

Result<ConstantBytes> EvaluateTrilu(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const Dims& x = context.dims(0);
  const std::int64_t k = context.node().Int("k", 0);
  const bool upper = context.node().Int("upper", 1) != 0;
  const std::int64_t rows = x[x.size() - 2], columns = x.back();
  const std::size_t width = SizeOf(context.input(0).type);
  auto bytes = std::make_shared<ConstantData::Bytes>(*context.constant(0)->bytes);
  for (std::int64_t i = 0; i < ElementCount(x); ++i) {
    const std::int64_t row = i / columns % rows, column = i % columns;
    const bool keeps = upper ? column - row >= k : column - row <= k;
    if (!keeps) std::memset(bytes->data() + static_cast<std::size_t>(i) * width, 0, width);
  }
  return bytes;
}

Result<ConstantBytes> EvaluateOneHot(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const Lines out(context.output(output).dims, static_cast<std::size_t>(AxisOf(context)));
  const std::size_t width = SizeOf(context.input(2).type);
  const std::byte* values = context.constant(2)->bytes->data();
  auto bytes = OutputBytesOf(context, output);
  const std::int64_t count = ElementCount(context.output(output).dims);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t behind = i % out.inner, at = i / out.inner % out.length;
    const std::int64_t before = i / out.inner / out.length;
    const auto element = static_cast<std::size_t>(before * out.inner + behind);
    auto hot = static_cast<std::int64_t>(
        ElementAsDouble(context.input(0).type, context.constant(0)->bytes->data(), element));
    if (hot < 0) hot += out.length;
    std::memcpy(bytes->data() + static_cast<std::size_t>(i) * width,
                values + (hot == at ? width : 0), width);
  }
  return bytes;
}

Result<ConstantBytes> EvaluateEyeLike(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const Dims& dims = context.output(output).dims;
  const std::int64_t k = context.node().Int("k", 0);
  return WithElements(context, context.output(output).type,
                      [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
                        auto bytes = NewElements<T>(ElementCount(dims));
                        for (std::int64_t i = 0; i < ElementCount(dims); ++i) {
                          const bool one = i % dims[1] - i / dims[1] == k;
                          Elements<T>(*bytes)[i] = static_cast<Stored<T>>(one ? 1 : 0);
                        }
                        return bytes;
                      });
}

Result<ConstantBytes> EvaluateCompress(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const std::int64_t axis = context.node().Int("axis", -1);
  const Dims flat{ElementCount(context.dims(0))};
  const Lines lines(axis < 0 ? flat : context.dims(0),
                    static_cast<std::size_t>(std::max<std::int64_t>(axis, 0)));
  const std::size_t row = static_cast<std::size_t>(lines.inner) * SizeOf(context.input(0).type);
  const std::byte* from = context.constant(0)->bytes->data();
  auto bytes = OutputBytesOf(context, output);
  std::byte* to = bytes->data();
  for (std::int64_t before = 0; row > 0 && before < lines.outer; ++before) {
    for (const std::int64_t taken : context.node().Ints("taken", {})) {
      std::memcpy(to, from + static_cast<std::size_t>(before * lines.length + taken) * row, row);
      to += row;
    }
  }
  return bytes;
}

}  // namespace lagoon
