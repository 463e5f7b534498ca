#pragma once

// What a shape rule sees of its node, and the table of ops.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace lagoon {

/// One node while its shape is inferred or its value computed. Inputs are known: shape, type and,
/// where constant, contents. Borrows graph and node.
class OpContext {
 public:
  OpContext(Graph& graph, Node& node) : graph_(graph), node_(node) {}

  const Node& node() const { return node_; }
  std::int64_t opset() const { return graph_.opset; }

  std::size_t input_count() const { return node_.inputs.size(); }
  bool has_input(std::size_t i) const {
    return i < node_.inputs.size() && node_.inputs[i] != kNoValue;
  }
  const Value& input(std::size_t i) const { return graph_.value(node_.inputs[i]); }
  const Dims& dims(std::size_t i) const { return input(i).dims; }
  std::size_t rank(std::size_t i) const { return dims(i).size(); }
  /// Null if the input is not constant.
  const Constant* constant(std::size_t i) const {
    return input(i).constant ? &*input(i).constant : nullptr;
  }
  const Value& output(std::size_t i) const { return graph_.value(node_.outputs[i]); }
  bool has_output(std::size_t i) const {
    return i < node_.outputs.size() && node_.outputs[i] != kNoValue;
  }

  bool has_attribute(const std::string& name) const { return node_.attributes.contains(name); }
  void SetAttribute(const std::string& name, Attribute value) {
    node_.attributes.insert_or_assign(name, std::move(value));
  }
  void EraseAttribute(const std::string& name) { node_.attributes.erase(name); }
  void SetPacked() { node_.packed = true; }
  void SetOp(std::string op) { node_.op = std::move(op); }
  /// Drops the inputs from `count` on: they became attributes.
  void KeepInputs(std::size_t count) {
    if (node_.inputs.size() > count) node_.inputs.resize(count);
  }

  void SetOutput(std::size_t i, DataType type, Dims dims);
  /// The first output has the first input's type.
  void SetOutput(Dims dims) { SetOutput(0, input(0).type, std::move(dims)); }

  /// The integers of input `i`, called `what` in errors: constant, int32 or int64, rank 0 or 1.
  Result<std::vector<std::int64_t>> ConstantInts(std::size_t i, std::string_view what) const;
  /// The fp32 number of input `i`: constant, one element.
  Result<float> ConstantFloat(std::size_t i, std::string_view what) const;

  /// Input `i`: constant, one number of any type.
  Result<Constant> OneConstant(std::size_t i, std::string_view what) const;
  /// The element type that integer attribute `name` names; `otherwise` if it is left out.
  Result<DataType> TypeAttribute(const std::string& name, DataType otherwise) const;

  /// Integers that older opsets have as an attribute and newer ones as input `i` from
  /// `input_since` on. Nothing if they are left out.
  Result<std::optional<std::vector<std::int64_t>>> IntsFromInputOrAttribute(
      std::size_t i, const std::string& attribute, std::int64_t input_since) const;

  /// `axis` counted from the front; negative ones count from the back of `rank` axes.
  Result<std::int64_t> Axis(std::int64_t axis, std::size_t rank) const;
  /// The same for a list without duplicates, sorted.
  Result<std::vector<std::int64_t>> Axes(std::vector<std::int64_t> axes, std::size_t rank) const;

  /// Input `others[i]`, where it is there, has the element type of input `first`.
  Status SameType(std::size_t first, std::initializer_list<std::size_t> others) const;
  /// Input `i`, where it is there, is fp32: all that kernels take at that place.
  Status Float32(std::size_t i) const;
  /// Input `i`, where it is there, is one number ([] or [1]), or with `size` also a vector of it.
  Status NumberOr(std::size_t i, std::optional<std::int64_t> size = {}) const;

  /// Bytes of a tensor, as CheckedBytes, with an error that names the node.
  Result<std::size_t> Bytes(const Dims& dims, DataType type) const;

  /// Errors that name node, op and opset.
  tl::unexpected<Error> Invalid(std::string_view message) const;
  tl::unexpected<Error> Unimplemented(std::string_view message) const;
  Error Named(Error error) const;

 private:
  Graph& graph_;
  Node& node_;
};

/// The first element of a constant, as an integer.
std::int64_t FirstAsInt64(const Constant& constant);

/// Checks a node against its op's definition, brings it into the normal form of graph.h, and sets
/// type and shape of its outputs.
using ShapeRule = Status (*)(OpContext& context);

/// Contents of one output of a node whose inputs are constant (Shape and Size: known in shape). The
/// shape rule has run; the bytes are those of the output's shape and type. kUnimplemented: not of
/// these types; then kernels compute it when the model is loaded.
using ConstantBytes = std::shared_ptr<const std::vector<std::byte>>;
using Evaluator = Result<ConstantBytes> (*)(const OpContext& context, std::size_t output);

/// Which inputs an op takes at run time.
enum class RunTime : std::uint8_t {
  kYes,       // which types, the lowering says
  kNever,     // all inputs must be constant
  kShapeOnly  // looks only at shapes: always evaluated
};

struct OpSpec {
  std::string_view op;
  std::int64_t since = 9;  // the first opset from which the op is supported
  std::size_t min_inputs = 1;
  std::size_t max_inputs = 1;
  std::size_t max_outputs = 1;
  std::string_view
      attributes;  // "i:axis f:alpha": kind (attributes.h) and name of all that are taken
  ShapeRule rule = nullptr;
  Evaluator evaluate = nullptr;  // null: kernels compute it when the model is loaded
  RunTime run_time = RunTime::kYes;
};

/// Null if Lagoon does not know the op.
const OpSpec* FindOp(std::string_view op);

}  // namespace lagoon
