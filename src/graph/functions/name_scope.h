#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/status.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// The names of values that a model uses.
class NameTable {
 public:
  /// Adds all names in a graph and in its sub-graphs.
  void AddGraph(const onnx::GraphProto& graph);
  /// A name that begins with `wanted` and that nothing has; it is taken from then on.
  std::string Fresh(const std::string& wanted);

 private:
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::size_t> tried_;  // the last number behind a name
};

/// Which names the nodes of a function get where the function is called. An inner graph has a copy.
class NameScope {
 public:
  /// `prefix`: goes before the function's own names. Borrows `names`.
  NameScope(NameTable& names, std::string prefix) : names_(&names), prefix_(std::move(prefix)) {}

  /// `inner` becomes `outer`. False if `inner` has a name already.
  bool Bind(const std::string& inner, std::string outer) {
    return bound_.emplace(inner, std::move(outer)).second;
  }
  bool Has(const std::string& inner) const { return bound_.contains(inner); }
  /// The name for `inner`, a new one if it has none. Empty names stay empty.
  const std::string& Of(const std::string& inner);

  /// Renames what the node reads and writes, and everything in its sub-graphs.
  void Rename(onnx::NodeProto& node);

 private:
  void RenameGraph(onnx::GraphProto& graph);

  NameTable* names_;
  std::string prefix_;
  std::unordered_map<std::string, std::string> bound_;
};

}  // namespace lagoon
