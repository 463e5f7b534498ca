#pragma once

// Writes the nodes that replace a node of the graph.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "graph/budget.h"
#include "graph/graph.h"
#include "graph/ops/op_context.h"

namespace lagoon {

/// Replaces one node by others, in the newest opset of ai.onnx. Each new node is inferred at once,
/// so that the shapes of its outputs are known, and its contents if its inputs are constant.
///
/// After the first error all methods do nothing and values are kNoValue; status() has the error.
/// So an expansion reads like a formula and checks only what its op demands.
class Writer {
 public:
  using Attributes = std::map<std::string, Attribute>;
  /// Brings a node into normal form, and appends it to graph.nodes.
  using Infer = std::function<Status(Node)>;

  /// `node`: the node to replace; it is not in graph.nodes. `missing`: as in OpContext. Borrows
  /// graph, node and budget.
  Writer(Graph& graph, Node& node, ByteBudget& budget, Infer infer, ValueId* missing = nullptr);

  /// The replaced node: its inputs, attributes and errors.
  const OpContext& context() const { return context_; }
  const Node& node() const { return node_; }
  /// Input `i`; kNoValue if it is left out.
  ValueId In(std::size_t i) const { return context_.has_input(i) ? node_.inputs[i] : kNoValue; }
  /// Fails if one of these inputs is left out. The row of the op says how many of its first inputs
  /// must be there; this is for inputs behind an optional one.
  void Need(std::initializer_list<std::size_t> inputs);
  bool HasOutput(std::size_t i) const { return context_.has_output(i); }

  DataType TypeOf(ValueId value) const;
  Dims DimsOf(ValueId value) const;
  std::size_t RankOf(ValueId value) const { return DimsOf(value).size(); }
  /// Size of the axis `axis`, which counts from the back if it is negative; 1 if there is none.
  std::int64_t Dim(ValueId value, std::int64_t axis) const;
  /// Null if the value is not constant.
  const Constant* ConstantOf(ValueId value) const;

  /// Adds a node with `count` outputs.
  std::vector<ValueId> Nodes(const std::string& op, std::vector<ValueId> inputs,
                             Attributes attributes, std::size_t count);
  ValueId Op(const std::string& op, std::vector<ValueId> inputs, Attributes attributes = {});

  ValueId Add(ValueId a, ValueId b) { return Op("Add", {a, b}); }
  ValueId Sub(ValueId a, ValueId b) { return Op("Sub", {a, b}); }
  ValueId Mul(ValueId a, ValueId b) { return Op("Mul", {a, b}); }
  ValueId Div(ValueId a, ValueId b) { return Op("Div", {a, b}); }
  ValueId MatMul(ValueId a, ValueId b) { return Op("MatMul", {a, b}); }
  /// x + term; x itself if `term` is kNoValue.
  ValueId AddIfAny(ValueId x, ValueId term) { return term == kNoValue ? x : Add(x, term); }
  /// x * factor, x + term with a number of x's type; x itself if that changes nothing.
  ValueId Scaled(ValueId x, double factor);
  ValueId Shifted(ValueId x, double term);
  ValueId Reshape(ValueId x, const Dims& dims) { return Op("Reshape", {x, Ints(dims)}); }
  ValueId Transpose(ValueId x, std::vector<std::int64_t> perm);
  ValueId Unsqueeze(ValueId x, const std::vector<std::int64_t>& axes);
  ValueId Concat(std::vector<ValueId> parts, std::int64_t axis);
  /// The parts of x of the given sizes along `axis`.
  std::vector<ValueId> Split(ValueId x, const std::vector<std::int64_t>& sizes, std::int64_t axis);
  /// Elements `from` to `to` (exclusive) along `axis`.
  ValueId Slice(ValueId x, std::int64_t axis, std::int64_t from, std::int64_t to);
  /// x itself if it has the type.
  ValueId Cast(ValueId x, DataType type);
  ValueId SwapLastAxes(ValueId x);

  /// Zeros for a constant, counted against the memory of the import; null after an error.
  std::shared_ptr<std::vector<std::byte>> Allocate(DataType type, const Dims& dims);
  /// Constants: a number of shape [], a list of 64-bit integers, any contents.
  ValueId Number(double value, DataType type);
  ValueId Ints(const std::vector<std::int64_t>& values);
  ValueId AddConstant(Constant constant);

  /// Makes `value`, which this writer made or which is an input, the output `i` of the replaced
  /// node. Ignored if the node leaves that output out.
  void SetOutput(std::size_t i, ValueId value);

  /// Notes an error, unless there is one already.
  void Refuse(tl::unexpected<Error> error);
  void Check(const Status& status);
  const Status& status() const { return status_; }

 private:
  ValueId NewValue(const std::string& name);
  std::string Name(std::string_view op);
  Node* MakerOf(ValueId value);
  bool from_request() const;
  void Replace(ValueId value, ValueId by);

  Graph& graph_;
  Node& node_;
  OpContext context_;
  ByteBudget& budget_;
  Infer infer_;
  std::size_t first_node_;
  std::size_t first_value_;
  std::size_t names_ = 0;
  std::unordered_map<ValueId, ValueId> renamed_;  // to outputs of the replaced node
  Status status_;
};

}  // namespace lagoon
