// Conv, ConvTranspose, Gemm, MatMul and their integer variants, Einsum.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "graph/ops/einsum.h"
#include "graph/ops/shape_rules.h"
#include "graph/ops/window.h"

namespace lagoon {
namespace {

/// True if input `i` is left out or an fp32 constant, as kernels that pack it need.
bool Packs(const OpContext& context, std::size_t i) {
  if (!context.has_input(i)) return true;
  return context.constant(i) != nullptr && context.input(i).type == DataType::kFloat32;
}

Status CheckVector(const OpContext& context, std::size_t i, std::string_view what,
                   std::int64_t size) {
  if (!context.has_input(i) || context.dims(i) == Dims{size}) return {};
  return context.Invalid(fmt::format("{} {} has shape {}, expected [{}]", what,
                                     Quoted(context.input(i).name), ToString(context.dims(i)),
                                     size));
}

Status CheckConvRanks(const OpContext& context, std::size_t weights) {
  const std::size_t rank = context.rank(0);
  if (rank < 3 || rank > 5) {
    return context.Unimplemented(
        fmt::format("input {} is not [N,C] and 1 to 3 spatial axes", ToString(context.dims(0))));
  }
  if (context.rank(weights) != rank) {
    return context.Invalid(fmt::format("weights {} do not fit input {}",
                                       ToString(context.dims(weights)), ToString(context.dims(0))));
  }
  return {};
}

/// `channels_in` and `channels_out`: of the weights, in all groups and in one.
Status CheckGroups(const OpContext& context, std::size_t weights, std::int64_t group,
                   bool transposed) {
  const std::int64_t channels = context.dims(0)[1];
  const Dims& w = context.dims(weights);
  const std::int64_t whole = transposed ? channels : w[0];
  // A product with group can overflow, so these are divisions.
  const bool fits = group >= 1 && whole >= 1 && w[1] >= 1 && channels % group == 0 &&
                    whole % group == 0 &&
                    (transposed ? w[0] == channels : channels / group == w[1]);
  if (fits) return {};
  return context.Invalid(fmt::format("input {} does not match weights {} in {} groups",
                                     ToString(context.dims(0)), ToString(w), group));
}

/// kernel_shape, from the attribute or from the weights.
Result<std::vector<std::int64_t>> KernelShape(const OpContext& context, std::size_t weights) {
  const Dims& w = context.dims(weights);
  std::vector<std::int64_t> actual(w.begin() + 2, w.end());
  const std::vector<std::int64_t> given = context.node().Ints("kernel_shape", actual);
  const bool positive =
      std::all_of(actual.begin(), actual.end(), [](auto size) { return size > 0; });
  if (given == actual && positive) return actual;
  return context.Invalid(
      fmt::format("kernel_shape {} does not match weights {}", ToString(given), ToString(w)));
}

/// The output of a convolution of input 0 with the weights in input `weights`.
Result<Dims> ConvOutput(OpContext& context, std::size_t weights) {
  LAGOON_RETURN_IF_ERROR(CheckConvRanks(context, weights));
  const std::int64_t group = context.node().Int("group", 1);
  LAGOON_RETURN_IF_ERROR(CheckGroups(context, weights, group, false));
  LAGOON_ASSIGN_OR_RETURN(auto kernel, KernelShape(context, weights));
  context.SetAttribute("group", group);
  const Dims x = context.dims(0);
  const std::vector<std::int64_t> image(x.begin() + 2, x.end());
  LAGOON_ASSIGN_OR_RETURN(const Window window, ResolveWindow(context, image, std::move(kernel)));
  Dims out{x[0], context.dims(weights)[0]};
  out.insert(out.end(), window.out.begin(), window.out.end());
  return out;
}

/// The shape of the product of a and b, as in numpy.matmul.
Result<Dims> MatMulOutput(const OpContext& context, std::size_t left, std::size_t right) {
  Dims a = context.dims(left), b = context.dims(right);
  const auto mismatch = [&] {
    return context.Invalid(fmt::format("{} does not match {}", ToString(context.dims(left)),
                                       ToString(context.dims(right))));
  };
  if (a.empty() || b.empty()) return mismatch();
  const bool vector_a = a.size() == 1, vector_b = b.size() == 1;
  if (vector_a) a.insert(a.begin(), 1);
  if (vector_b) b.push_back(1);
  if (a.back() != b[b.size() - 2]) return mismatch();
  LAGOON_ASSIGN_OR_RETURN(
      Dims out, Broadcast(context, Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2)));
  if (!vector_a) out.push_back(a[a.size() - 2]);
  if (!vector_b) out.push_back(b.back());
  return out;
}

/// Fails unless input `i` has an 8-bit integer type.
Status CheckByte(const OpContext& context, std::size_t i) {
  const DataType type = context.input(i).type;
  if (type == DataType::kInt8 || type == DataType::kUInt8) return {};
  return context.Invalid(fmt::format("input {} is {}, it must be INT8 or UINT8",
                                     Quoted(context.input(i).name), OipName(type)));
}

/// Indices of the inputs that are bytes, and of their zero points, which may be left out.
struct ByteProduct {
  std::size_t left, right, zero_left, zero_right;
};

Status CheckBytes(const OpContext& context, const ByteProduct& inputs) {
  LAGOON_RETURN_IF_ERROR(CheckByte(context, inputs.left));
  LAGOON_RETURN_IF_ERROR(CheckByte(context, inputs.right));
  LAGOON_RETURN_IF_ERROR(context.SameType(inputs.left, {inputs.zero_left}));
  return context.SameType(inputs.right, {inputs.zero_right});
}

/// The number of rows (or columns) of the product that may each have a scale and a zero point;
/// nothing if the input is a vector.
std::optional<std::int64_t> Rows(const OpContext& context, std::size_t left) {
  const Dims& dims = context.dims(left);
  return dims.size() < 2 ? std::nullopt : std::optional(dims[dims.size() - 2]);
}
std::optional<std::int64_t> Columns(const OpContext& context, std::size_t right) {
  const Dims& dims = context.dims(right);
  return dims.size() < 2 ? std::nullopt : std::optional(dims.back());
}

/// Checks that scale and zero point of a QLinear op's output are one number each, and that all
/// scales are fp32.
Status CheckScales(const OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckByte(context, 7));
  for (const std::size_t i : {1, 4, 6}) LAGOON_RETURN_IF_ERROR(context.Float32(i));
  LAGOON_RETURN_IF_ERROR(context.NumberOr(6));
  return context.NumberOr(7);
}

Status InferConv(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {1, 2}));
  LAGOON_ASSIGN_OR_RETURN(Dims out, ConvOutput(context, 1));
  LAGOON_RETURN_IF_ERROR(CheckVector(context, 2, "bias", out[1]));
  if (!context.has_input(2)) context.KeepInputs(2);
  const bool fp32 = context.input(0).type == DataType::kFloat32;
  if (fp32 && Packs(context, 1) && Packs(context, 2)) context.SetPacked();
  context.SetOutput(std::move(out));
  return {};
}

Status InferConvTranspose(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {1, 2}));
  LAGOON_RETURN_IF_ERROR(CheckConvRanks(context, 1));
  const std::int64_t group = context.node().Int("group", 1);
  LAGOON_RETURN_IF_ERROR(CheckGroups(context, 1, group, true));
  LAGOON_ASSIGN_OR_RETURN(auto kernel, KernelShape(context, 1));
  context.SetAttribute("group", group);
  const Dims x = context.dims(0);
  const std::vector<std::int64_t> image(x.begin() + 2, x.end());
  LAGOON_ASSIGN_OR_RETURN(const Window window,
                          ResolveTransposedWindow(context, image, std::move(kernel)));
  const std::int64_t per_group = context.dims(1)[1];
  if (per_group > (std::int64_t{1} << 30) / group) return context.Invalid("has too many channels");
  Dims out{x[0], per_group * group};
  out.insert(out.end(), window.out.begin(), window.out.end());
  LAGOON_RETURN_IF_ERROR(CheckVector(context, 2, "bias", out[1]));
  if (!context.has_input(2)) context.KeepInputs(2);
  const bool fp32 = context.input(0).type == DataType::kFloat32;
  if (fp32 && group == 1 && Packs(context, 1) && Packs(context, 2)) context.SetPacked();
  context.SetOutput(std::move(out));
  return {};
}

Status InferConvInteger(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckBytes(context, {0, 1, 2, 3}));
  LAGOON_ASSIGN_OR_RETURN(Dims out, ConvOutput(context, 1));
  LAGOON_RETURN_IF_ERROR(context.NumberOr(2));
  LAGOON_RETURN_IF_ERROR(context.NumberOr(3, out[1]));
  context.SetOutput(0, DataType::kInt32, std::move(out));
  return {};
}

Status InferQLinearConv(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckBytes(context, {0, 3, 2, 5}));
  LAGOON_RETURN_IF_ERROR(CheckScales(context));
  LAGOON_ASSIGN_OR_RETURN(Dims out, ConvOutput(context, 3));
  for (const std::size_t i : {1, 2}) LAGOON_RETURN_IF_ERROR(context.NumberOr(i));
  for (const std::size_t i : {4, 5}) LAGOON_RETURN_IF_ERROR(context.NumberOr(i, out[1]));
  LAGOON_RETURN_IF_ERROR(CheckVector(context, 8, "bias", out[1]));
  if (context.has_input(8) && context.input(8).type != DataType::kInt32) {
    return context.Invalid(fmt::format("bias {} is {}, it must be INT32",
                                       Quoted(context.input(8).name),
                                       OipName(context.input(8).type)));
  }
  context.SetOutput(0, context.input(7).type, std::move(out));
  return {};
}

Status InferGemm(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {1, 2}));
  const Dims& x = context.dims(0);
  const Dims& w = context.dims(1);
  if (x.size() != 2 || w.size() != 2) {
    return context.Invalid(fmt::format("A {} and B {} must be matrices", ToString(x), ToString(w)));
  }
  const bool flipped = context.node().Int("transA", 0) != 0;
  const bool transposed = context.node().Int("transB", 0) != 0;
  const std::int64_t columns = w[transposed ? 0 : 1];
  if (x[flipped ? 0 : 1] != w[transposed ? 1 : 0]) {
    return context.Invalid(fmt::format("A {} does not match B {}, transA = {}, transB = {}",
                                       ToString(x), ToString(w), flipped, transposed));
  }
  const Dims out{x[flipped ? 1 : 0], columns};
  bool row = true;  // C, if any, adds the same values to each row
  if (context.has_input(2)) {
    const Dims& c = context.dims(2);
    LAGOON_ASSIGN_OR_RETURN(const Dims sum, Broadcast(context, out, c));
    if (sum != out) {
      return context.Invalid(
          fmt::format("C {} does not broadcast to {}", ToString(c), ToString(out)));
    }
    row = c.size() < 2 || c[0] == 1;
  } else {
    context.KeepInputs(2);
  }
  context.SetAttribute("transA", std::int64_t{flipped ? 1 : 0});
  context.SetAttribute("transB", std::int64_t{transposed ? 1 : 0});
  context.SetAttribute("alpha", context.node().Float("alpha", 1));
  context.SetAttribute("beta", context.node().Float("beta", 1));
  const bool fp32 = context.input(0).type == DataType::kFloat32;
  if (fp32 && !flipped && row && Packs(context, 1) && Packs(context, 2)) context.SetPacked();
  context.SetOutput(out);
  return {};
}

Status InferMatMul(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {1}));
  LAGOON_ASSIGN_OR_RETURN(Dims out, MatMulOutput(context, 0, 1));
  const bool fp32 = context.input(0).type == DataType::kFloat32;
  if (fp32 && context.rank(0) >= 2 && context.rank(1) == 2 && Packs(context, 1)) {
    context.SetPacked();
  }
  context.SetOutput(std::move(out));
  return {};
}

Status InferMatMulInteger(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckBytes(context, {0, 1, 2, 3}));
  LAGOON_RETURN_IF_ERROR(context.NumberOr(2, Rows(context, 0)));
  LAGOON_RETURN_IF_ERROR(context.NumberOr(3, Columns(context, 1)));
  LAGOON_ASSIGN_OR_RETURN(Dims out, MatMulOutput(context, 0, 1));
  context.SetOutput(0, DataType::kInt32, std::move(out));
  return {};
}

Status InferQLinearMatMul(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckBytes(context, {0, 3, 2, 5}));
  LAGOON_RETURN_IF_ERROR(CheckScales(context));
  for (const std::size_t i : {1, 2}) {
    LAGOON_RETURN_IF_ERROR(context.NumberOr(i, Rows(context, 0)));
  }
  for (const std::size_t i : {4, 5}) {
    LAGOON_RETURN_IF_ERROR(context.NumberOr(i, Columns(context, 3)));
  }
  LAGOON_ASSIGN_OR_RETURN(Dims out, MatMulOutput(context, 0, 3));
  context.SetOutput(0, context.input(7).type, std::move(out));
  return {};
}

Status InferEinsum(OpContext& context) {
  std::vector<Dims> shapes;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i)) return context.Invalid(fmt::format("input {} is left out", i));
    LAGOON_RETURN_IF_ERROR(context.SameType(0, {i}));
    shapes.push_back(context.dims(i));
  }
  const Result<Einsum> einsum = ParseEinsum(context.node().String("equation", ""), shapes);
  if (!einsum) return tl::unexpected(context.Named(einsum.error()));
  context.SetOutput(einsum->OutputDims());
  return {};
}

constexpr std::string_view kConvAttributes =
    "s:auto_pad I:dilations i:group I:kernel_shape I:pads I:strides";
constexpr std::string_view kTransposeConvAttributes =
    "s:auto_pad I:dilations i:group I:kernel_shape I:output_padding I:output_shape I:pads "
    "I:strides";

constexpr OpSpec kLinearOps[] = {
    {"Conv", 1, 2, 3, 1, kConvAttributes, InferConv},
    {"ConvTranspose", 1, 2, 3, 1, kTransposeConvAttributes, InferConvTranspose},
    {"ConvInteger", 10, 2, 4, 1, kConvAttributes, InferConvInteger},
    {"QLinearConv", 10, 8, 9, 1, kConvAttributes, InferQLinearConv},
    {"Gemm", 7, 2, 3, 1, "f:alpha f:beta i:transA i:transB", InferGemm},
    {"MatMul", 1, 2, 2, 1, "", InferMatMul},
    {"MatMulInteger", 10, 2, 4, 1, "", InferMatMulInteger},
    {"QLinearMatMul", 10, 8, 8, 1, "", InferQLinearMatMul},
    {"Einsum", 12, 1, 8, 1, "s:equation", InferEinsum},
};

}  // namespace

std::span<const OpSpec> LinearOps() { return kLinearOps; }

}  // namespace lagoon
