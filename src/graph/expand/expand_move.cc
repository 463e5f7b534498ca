// Ops of com.microsoft that ai.onnx has too, and small ones.

#include <fmt/format.h>

#include <cstring>

#include "base/text.h"
#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

// The op of ai.onnx with the same name, inputs and attributes.
void ExpandSame(Writer& w) {
  const std::vector<ValueId> y =
      w.Nodes(w.node().op, w.node().inputs, w.node().attributes, w.node().outputs.size());
  for (std::size_t i = 0; i < y.size(); ++i) w.SetOutput(i, y[i]);
}

void ExpandExpandDims(Writer& w) {
  const Result<std::vector<std::int64_t>> axis = w.context().ConstantInts(1, "axis");
  if (!axis) return w.Refuse(tl::unexpected(axis.error()));
  w.SetOutput(0, w.Unsqueeze(w.In(0), *axis));
}

// The distances between the rows of two matrices.
void ExpandCDist(Writer& w) {
  const std::string metric = w.node().String("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") {
    return w.Refuse(
        w.context().Unimplemented(fmt::format("metric {} is not supported", Quoted(metric))));
  }
  const ValueId rows = w.Unsqueeze(w.In(0), {1});
  const ValueId difference = w.Sub(rows, w.Unsqueeze(w.In(1), {0}));
  const ValueId squares = w.Op("ReduceSum", {w.Mul(difference, difference), w.Ints({2})},
                               {{"keepdims", std::int64_t{0}}});
  w.SetOutput(0, metric == "euclidean" ? w.Op("Sqrt", {squares}) : squares);
}

// A pooling of 8-bit integers with the channels last.
void ExpandNhwcMaxPool(Writer& w) {
  const ValueId pooled = w.Op("MaxPool", {w.Transpose(w.In(0), {0, 3, 1, 2})}, w.node().attributes);
  w.SetOutput(0, w.Transpose(pooled, {0, 2, 3, 1}));
}

// Before opset 9 the scales are an attribute.
void ExpandUpsample(Writer& w) {
  const std::vector<float> scales = FloatsOf(w, "scales");
  auto bytes = std::make_shared<std::vector<std::byte>>(scales.size() * sizeof(float));
  if (!scales.empty()) std::memcpy(bytes->data(), scales.data(), bytes->size());
  const ValueId list = w.AddConstant(
      {DataType::kFloat32, {static_cast<std::int64_t>(scales.size())}, std::move(bytes)});
  w.SetOutput(0, w.Op("Resize", {w.In(0), kNoValue, list},
                      {{"mode", w.node().String("mode", "nearest")},
                       {"coordinate_transformation_mode", std::string("asymmetric")},
                       {"nearest_mode", std::string("floor")}}));
}

bool HasScalesAsAttribute(const OpContext& context) { return context.opset() < 9; }

constexpr Expansion kMoveExpansions[] = {
    {"", {"Upsample", 7, 1, 1, 1, "s:mode F:scales"}, ExpandUpsample, HasScalesAsAttribute},
    {kMicrosoft, {"Trilu", 1, 1, 2, 1, "i:upper"}, ExpandSame},
    {kMicrosoft, {"Range", 1, 3, 3, 1, ""}, ExpandSame},
    {kMicrosoft, {"Pad", 1, 2, 3, 1, "s:mode"}, ExpandSame},
    {kMicrosoft, {"GatherND", 1, 2, 2, 1, ""}, ExpandSame},
    {kMicrosoft, {"ExpandDims", 1, 2, 2, 1, ""}, ExpandExpandDims},
    {kMicrosoft, {"CDist", 1, 2, 2, 1, "s:metric"}, ExpandCDist},
    {kMicrosoft,
     {"NhwcMaxPool", 1, 1, 1, 1,
      "s:auto_pad i:ceil_mode I:dilations I:kernel_shape I:pads I:strides"},
     ExpandNhwcMaxPool},
};

}  // namespace

std::span<const Expansion> MoveExpansions() { return kMoveExpansions; }

}  // namespace lagoon
