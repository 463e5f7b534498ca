#pragma once

// The names of a graph that is being read, inside the names of the graphs around it.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "graph/import/proto_index.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// A GraphProto while its nodes are read into a Graph, and the values that its names stand for. A
/// body has an outer scope: a name that the body does not define itself stands for what it stands
/// for there. The innermost definition of a name counts. Borrows all three.
class Scope {
 public:
  Scope(onnx::GraphProto& proto, Graph& graph, Scope* outer = nullptr)
      : proto_(proto), graph_(graph), outer_(outer) {}

  /// To be called first. Errors as IndexGraph().
  Status Index();

  onnx::GraphProto& proto() { return proto_; }
  Graph& graph() { return graph_; }
  bool is_body() const { return outer_ != nullptr; }
  Scope& outer() { return *outer_; }
  const ProtoIndex& index() const { return index_; }

  bool Knows(const std::string& name) const { return ids_.contains(name); }
  /// The value of `name`; kNoValue if no value has the name yet.
  ValueId Find(const std::string& name) const;
  /// A new value without type and shape.
  ValueId Add(const std::string& name);
  /// A new value for `of`, a value of the outer scope. The contents of a constant are shared, so
  /// that a constant is not captured; every other value becomes an input of the body.
  ValueId Capture(const std::string& name, ValueId of);
  /// The captured values, as the outer scope has them, in the order of the body's last inputs.
  const std::vector<ValueId>& captured() const { return captured_; }

  /// Adds the formal inputs of a body, with the types that the file declares.
  Status AddFormalInputs();

 private:
  onnx::GraphProto& proto_;
  Graph& graph_;
  Scope* outer_;
  ProtoIndex index_;
  std::unordered_map<std::string, ValueId> ids_;
  std::vector<ValueId> captured_;
};

/// Notes type and dims that a file declares for a value of a body: dims are -1 where they are open.
/// Unknown types are ignored.
void Declare(const onnx::ValueInfoProto& info, Value& value);

/// A body of a node, and what it captures of the graph around the node.
struct ReadBody {
  std::string attribute;
  std::shared_ptr<Graph> graph;
  std::vector<ValueId> captured;
};

/// No op of ONNX has more bodies.
inline constexpr std::size_t kMaxBodies = 2;

/// Gives the bodies to `node`. Afterwards all of them capture the same values, which become the
/// node's last inputs.
void AttachBodies(const Graph& outer, std::vector<ReadBody> bodies, Node& node);

}  // namespace lagoon
