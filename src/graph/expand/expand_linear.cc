// Convolutions and matrix products with something fused to them.

#include <fmt/format.h>

#include <numeric>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

void ExpandFusedConv(Writer& w) {
  const ValueId y = w.Op("Conv", {w.In(0), w.In(1), w.In(2)},
                         AttributesWithout(w, {"activation", "activation_params"}));
  w.SetOutput(0, Activated(w, w.AddIfAny(y, w.In(3)),
                           {w.node().String("activation", ""), FloatsOf(w, "activation_params")}));
}

// The parameters activation_alpha and activation_beta, as a list.
std::vector<float> AlphaBeta(const Writer& w) {
  std::vector<float> parameters;
  for (const char* const name : {"activation_alpha", "activation_beta"}) {
    if (!w.context().has_attribute(name)) break;
    parameters.push_back(w.node().Float(name, 0));
  }
  return parameters;
}

void ExpandFusedGemm(Writer& w) {
  const ValueId y = w.Op("Gemm", {w.In(0), w.In(1), w.In(2)},
                         AttributesWithout(w, {"activation", "activation_alpha", "activation_beta",
                                               "activation_gamma"}));
  w.SetOutput(0, Activated(w, y, {w.node().String("activation", ""), AlphaBeta(w)}));
}

// An operand of FusedMatMul: with its first axis moved before the last, then with its last two axes
// swapped.
ValueId Operand(Writer& w, ValueId x, bool batch_moved, bool swapped) {
  const auto rank = static_cast<std::int64_t>(w.RankOf(x));
  if (batch_moved && rank > 2) {
    std::vector<std::int64_t> perm(static_cast<std::size_t>(rank));
    std::iota(perm.begin(), perm.end() - 2, 1);
    perm[perm.size() - 2] = 0;
    perm.back() = rank - 1;
    x = w.Transpose(x, std::move(perm));
  }
  return swapped && rank > 1 ? w.SwapLastAxes(x) : x;
}

ValueId FusedProduct(Writer& w) {
  const auto flag = [&](const char* name) { return w.node().Int(name, 0) != 0; };
  const ValueId a = Operand(w, w.In(0), flag("transBatchA"), flag("transA"));
  const ValueId b = Operand(w, w.In(1), flag("transBatchB"), flag("transB"));
  return w.Scaled(w.MatMul(a, b), w.node().Float("alpha", 1));
}

void ExpandFusedMatMul(Writer& w) { w.SetOutput(0, FusedProduct(w)); }

void ExpandFusedMatMulActivation(Writer& w) {
  w.SetOutput(0, Activated(w, FusedProduct(w), {w.node().String("activation", ""), AlphaBeta(w)}));
}

void ExpandGemmFastGelu(Writer& w) {
  w.SetOutput(0, Gelu(w, w.AddIfAny(w.MatMul(w.In(0), w.In(1)), w.In(2)), "tanh"));
}

// The pads are an input, which must be constant.
void ExpandConvTransposeWithDynamicPads(Writer& w) {
  Writer::Attributes attributes = w.node().attributes;
  if (w.context().has_input(2)) {
    Result<std::vector<std::int64_t>> pads = w.context().ConstantInts(2, "Pads");
    if (!pads) return w.Refuse(tl::unexpected(pads.error()));
    attributes["pads"] = *std::move(pads);
  }
  w.SetOutput(0, w.Op("ConvTranspose", {w.In(0), w.In(1), w.In(3)}, std::move(attributes)));
}

constexpr std::string_view kFusedConvAttributes =
    "s:auto_pad I:dilations i:group I:kernel_shape I:pads I:strides s:activation "
    "F:activation_params";
constexpr std::string_view kFusedGemmAttributes =
    "f:alpha f:beta i:transA i:transB s:activation f:activation_alpha f:activation_beta "
    "f:activation_gamma";
constexpr std::string_view kFusedMatMulAttributes =
    "f:alpha i:transA i:transB i:transBatchA i:transBatchB";
constexpr std::string_view kFusedMatMulActivationAttributes =
    "f:alpha i:transA i:transB i:transBatchA i:transBatchB s:activation f:activation_alpha "
    "f:activation_beta f:activation_gamma";
constexpr std::string_view kDynamicPadsAttributes =
    "s:auto_pad I:dilations i:group I:kernel_shape I:output_padding I:strides";

constexpr Expansion kLinearExpansions[] = {
    {kMicrosoft, {"FusedConv", 1, 2, 4, 1, kFusedConvAttributes}, ExpandFusedConv},
    {kMicrosoft, {"FusedGemm", 1, 2, 3, 1, kFusedGemmAttributes}, ExpandFusedGemm},
    {kMicrosoft, {"FusedMatMul", 1, 2, 2, 1, kFusedMatMulAttributes}, ExpandFusedMatMul},
    {kMicrosoft, {"TransposeMatMul", 1, 2, 2, 1, "f:alpha i:transA i:transB"}, ExpandFusedMatMul},
    {kMicrosoft,
     {"FusedMatMulActivation", 1, 2, 2, 1, kFusedMatMulActivationAttributes},
     ExpandFusedMatMulActivation},
    {kMicrosoft, {"GemmFastGelu", 1, 2, 3, 1, ""}, ExpandGemmFastGelu},
    {kMicrosoft,
     {"ConvTransposeWithDynamicPads", 1, 2, 4, 1, kDynamicPadsAttributes},
     ExpandConvTransposeWithDynamicPads},
};

}  // namespace

std::span<const Expansion> LinearExpansions() { return kLinearExpansions; }

}  // namespace lagoon
