#pragma once

// A node as a shape rule sees it, and what the table of ops says about an op.

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

/// One node while its shape is inferred or its value is computed. Shape and type of the inputs are
/// known, and the contents of constant inputs. Borrows graph and node.
class OpContext {
 public:
  /// `missing`: null, or set to an input that should be constant and is not (Misses).
  OpContext(Graph& graph, Node& node, ValueId* missing = nullptr)
      : graph_(graph), node_(node), missing_(missing) {}

  const Node& node() const { return node_; }
  std::int64_t opset() const { return graph_.OpsetOf(node_); }

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
  /// Leaves out the input `i`, which changes nothing.
  void DropInput(std::size_t i) { node_.inputs[i] = kNoValue; }
  /// Drops the inputs from `count` on, after they became attributes.
  void KeepInputs(std::size_t count) {
    if (node_.inputs.size() > count) node_.inputs.resize(count);
  }

  /// Tells that the node's shapes depend on the contents of input `i`, which is not constant.
  void Misses(std::size_t i) const {
    if (missing_ != nullptr) *missing_ = node_.inputs[i];
  }

  void SetOutput(std::size_t i, DataType type, Dims dims);
  /// The first output has the first input's type.
  void SetOutput(Dims dims) { SetOutput(0, input(0).type, std::move(dims)); }

  /// The integers of input `i`, which must be constant, int32 or int64, of rank 0 or 1. `what`: the
  /// name of the input in errors.
  Result<std::vector<std::int64_t>> ConstantInts(std::size_t i, std::string_view what) const;
  /// The fp32 number of input `i`, which must be constant with one element.
  Result<float> ConstantFloat(std::size_t i, std::string_view what) const;

  /// Input `i`, which must be a constant of one element of any type.
  Result<Constant> OneConstant(std::size_t i, std::string_view what) const;
  /// The element type that the integer attribute `name` stands for; `otherwise` if it is left out.
  Result<DataType> TypeAttribute(const std::string& name, DataType otherwise) const;

  /// Makes the dims of the outputs `outputs`, which are set and equal, a capacity (Value::sizes).
  /// Adds the hidden output with the actual dims, except if the capacity is empty: the dims are
  /// then certain. References to values of the graph are invalid afterwards.
  void SetCapacity(std::initializer_list<std::size_t> outputs);

  /// Integers that older opsets have as an attribute, and opsets from `input_since` on as input
  /// `i`. Nothing if they are left out.
  Result<std::optional<std::vector<std::int64_t>>> IntsFromInputOrAttribute(
      std::size_t i, const std::string& attribute, std::int64_t input_since) const;

  /// `axis` counted from the front of `rank` axes; a negative `axis` counts from the back.
  Result<std::int64_t> Axis(std::int64_t axis, std::size_t rank) const;
  /// The same for a list of axes: sorted. Duplicates are an error.
  Result<std::vector<std::int64_t>> Axes(std::vector<std::int64_t> axes, std::size_t rank) const;

  /// Checks that each present input `others[i]` has the element type of input `first`.
  Status SameType(std::size_t first, std::initializer_list<std::size_t> others) const;
  /// Checks that input `i`, if present, is fp32, the only type that kernels take for this input.
  Status Float32(std::size_t i) const;
  /// Checks that input `i`, if present, is one number ([] or [1]) or, with `size`, a vector of
  /// `size` elements.
  Status NumberOr(std::size_t i, std::optional<std::int64_t> size = {}) const;

  /// Bytes of a tensor, as CheckedBytes; the error names the node.
  Result<std::size_t> Bytes(const Dims& dims, DataType type) const;

  /// Errors that name node, op and opset.
  tl::unexpected<Error> Invalid(std::string_view message) const;
  tl::unexpected<Error> Unimplemented(std::string_view message) const;
  Error Named(Error error) const;

 private:
  Graph& graph_;
  Node& node_;
  ValueId* missing_;
};

/// The first element of a constant, as an integer; 0 for a string.
std::int64_t FirstAsInt64(const Constant& constant);

/// Checks a node against its op's definition, brings it into the normal form of graph.h, and sets
/// type and shape of its outputs.
using ShapeRule = Status (*)(OpContext& context);

/// An evaluator computes the contents of one output of a node whose inputs are constant (for Shape
/// and Size: have known shapes). It runs after the shape rule; the bytes it returns match the
/// output's shape and type. kUnimplemented: not for these types; kernels then compute the output
/// when the model is loaded.
using ConstantBytes = ConstantData;
using Evaluator = Result<ConstantBytes> (*)(const OpContext& context, std::size_t output);

/// Which inputs an op takes at run time.
enum class RunTime : std::uint8_t {
  kYes,       // the lowering says which types
  kNever,     // all inputs must be constant
  kShapeOnly  // depends on shapes only: always evaluated
};

/// A row of a family's table (shape_rules.h).
struct OpSpec {
  std::string_view op;
  std::int64_t since = 9;  // the first opset from which the op is supported
  std::size_t min_inputs = 1;
  std::size_t max_inputs = 1;
  std::size_t max_outputs = 1;
  /// All attributes that the op takes, each as kind letter (attributes.h) and name:
  /// "i:axis f:alpha".
  std::string_view attributes;
  ShapeRule rule = nullptr;
  Evaluator evaluate = nullptr;  // null: kernels compute it when the model is loaded
  RunTime run_time = RunTime::kYes;
  /// True if the rule may make the dims of outputs a capacity (OpContext::SetCapacity).
  bool data_dependent = false;
};

/// Null if Lagoon does not know the op.
const OpSpec* FindOp(std::string_view op);

}  // namespace lagoon
