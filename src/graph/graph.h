#pragma once

// The graph of a model between ONNX and a Plan: typed values, nodes in topological order.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon {

enum class ValueId : std::uint32_t {};
inline constexpr ValueId kNoValue{0xffffffff};  // an optional input or output that is left out

/// A constant: dense row-major, little-endian. The bytes are shared, never changed.
struct Constant {
  DataType type = DataType::kFloat32;
  Dims dims;
  std::shared_ptr<const std::vector<std::byte>> bytes;

  std::span<const float> floats() const;           // CHECKs the type
  std::vector<std::int64_t> ToInt64() const;       // from int32 or int64; CHECKs the type
};

struct Value {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;                         // known after InferShapes
  bool shape_known = false;
  std::optional<Constant> constant;  // initialisers and folded values
};

using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                               std::vector<float>, Constant>;

enum class ActivationKind : std::uint8_t { kNone, kRelu, kClip };

/// What fusion moved into a Conv, Gemm, MatMul or Add node: y = activation(op(x) + residual).
struct Fused {
  ValueId residual = kNoValue;
  ActivationKind activation = ActivationKind::kNone;
  float low = 0, high = 0;  // kClip
};

struct Node {
  std::string name;  // never empty: the importer names the nameless "Conv_12"
  std::string op;    // ONNX op_type, domain ai.onnx
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, Attribute> attributes;
  Fused fused;

  std::int64_t Int(const std::string& attribute, std::int64_t otherwise) const;
  float Float(const std::string& attribute, float otherwise) const;
  std::string String(const std::string& attribute, std::string otherwise) const;
  std::vector<std::int64_t> Ints(const std::string& attribute, std::vector<std::int64_t> otherwise) const;
};

struct Graph {
  std::string name;
  std::int64_t opset = 0;
  std::vector<Value> values;
  std::vector<Node> nodes;          // topological order
  std::vector<ValueId> inputs;      // without initialisers
  std::vector<ValueId> outputs;

  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
};

struct ImportOptions {
  /// Sizes for symbolic dimensions by name; those not named become 1.
  std::map<std::string, std::int64_t> dimensions;
  /// Sum of all constants and of all activations; more is refused before it is allocated.
  std::size_t max_bytes = std::size_t{8} << 30;
};

/// Reads an ONNX file (opset 9-17, external data beside it), checks it, infers all shapes.
/// Errors name file, node, op and opset. Never throws, never aborts on hostile input.
Result<Graph> ImportOnnx(const std::string& path, const ImportOptions& options = {});

/// Evaluates nodes whose inputs are constant, drops what no output needs and no-ops (Identity, Dropout).
Status FoldConstants(Graph& graph, const ImportOptions& options = {});

/// Moves batch-norm, bias, residual add and activation into Conv, Gemm and MatMul.
Status FuseOps(Graph& graph);

/// All three passes: the graph that lowering takes.
Result<Graph> LoadGraph(const std::string& path, const ImportOptions& options = {});

}  // namespace lagoon
