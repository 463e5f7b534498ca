#pragma once

// The graph of a model, the form between ONNX and a Plan: typed values, nodes in topological order.
//
// Import brings every node into one normal form, whatever the opset, so that later layers see one
// spelling of each op. docs/guide/ops.md lists the ops. The normal form:
// - A node whose inputs are all constant and that no evaluator covers stays in the graph: a kernel
//   computes it when the model is loaded.
// - Inputs that carry parameters (Clip's bounds, Reshape's shape, axes, pads, starts, ...) must be
//   constant and become attributes; the remaining inputs are tensor data. Optional attributes are
//   filled in; axes are counted from the front.
// - Conv, ConvTranspose: inputs x, w, [bias]. kernel_shape, strides, pads (all begins, then all
//   ends) and dilations are set for every spatial axis; group is set; auto_pad is resolved and
//   removed.
// - MaxPool, AveragePool, LpPool: as Conv. ceil_mode is resolved into pads and removed;
//   count_include_pad is set.
// - Gemm: inputs x, w, [bias]. If packed: transA is 0 and transB is set; after FuseOps alpha and
//   beta are 1 and the bias is [N].
// - MatMul: if packed, x [..., K] and w [K, N]; after FuseOps perhaps with a bias [N].
// - Clip: min and max are attributes, or the inputs 1 and 2 (either may be left out).
// - Reduce*: axes (sorted) and keepdims. Transpose: perm. Concat: axis.
// - Pad: pads (all begins, then all ends) and value, a Constant. Split: axis and split.
// - Slice: starts, ends, axes and steps for every axis of x, clamped to the shape of x.
// - Softmax, LogSoftmax: over the one axis `axis`. (Before opset 13 they run over all axes from
//   `axis` on; where that gives another result, the importer adds Reshape nodes around them.)
// - Reshape, Flatten, Squeeze, Unsqueeze: one input; the output's shape replaces all parameters.
// - MatMulNBits: x, packed weights, scales, [zero points], [bias], as in com.microsoft; there is no
//   g_idx, and half_scales is 1 if the file has the scales in fp16.
// - RotateAppend: x, positions, keys, values, [cosines], [sines], with the attributes heads,
//   key_heads and interleaved: the queries, and the caches of keys and values with the new tokens
//   (kernels/sequence/rotate_append.h). Only GroupQueryAttention becomes one.
// - An op whose output shape depends on data (OpSpec::data_dependent) has hidden outputs behind
//   those of ONNX, at the index max_outputs of its row and after it: the values Value::sizes of its
//   outputs, named "NODE:sizes" for output 0 and "NODE:sizes.N" for output N. Outputs with the same
//   dims share one. If the dims do not depend on data after all, because the inputs are constant or
//   empty, then there is no hidden output.
// - FuseOps adds these ops:
//   - RMSNormalization: x, [scale], with the attributes of LayerNormalization.
//   - LayerNormalization may then lack its scale.
//   - Swish: x * sigmoid(x).
//   - IntegerLinear: x, w, [bias], [x scale], [w scale], [x zero point], [w zero point]: the
//     product of x [..., K] and constants w [K, N], 8-bit integers minus their zero points, times
//     the scales. Those of x are one number, those of w one number or one for each column.
//   - FakeQuantize: an 8-bit QuantizeLinear and the DequantizeLinear behind it, with the attributes
//     scale and low (plan/elementwise_list.h).
//   - Attention: q, k, v, [mask], [keep], with the attributes q_dims and so on (of rank 4, as which
//     an operand is read; those of mask and keep broadcast), q_order, k_order, v_order, y_order
//     (which axes are batch, head, row and column), scale, kept, fill and [floor]
//     (kernels/sequence/attention.h).
//   - ChannelAffine: scale [C], shift [C], then one or more parts of rank 2 or 4, joined along
//     axis 1: y = joined * scale + shift. It replaces a BatchNormalization that has no Conv, Gemm
//     or MatMul before it.
// - There is no node with bodies, and no sequence: the nodes of the branch that is taken and of all
//   steps of a loop are in the graph.
// - After LoadGraph there is no BatchNormalization and no Dropout. An Identity remains only where a
//   graph output would otherwise be a graph input.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "graph/constant.h"
#include "graph/weight_source.h"
#include "plan/tensor.h"

namespace lagoon {

enum class ValueId : std::uint32_t {};
inline constexpr ValueId kNoValue{0xffffffff};  // an optional input or output that is left out

/// After InferShapes every value that a node reads is a tensor. Before, a value may also be a
/// sequence of values or an empty optional (graph/control).
enum class ValueKind : std::uint8_t { kTensor, kSequence, kNothing };

/// The integers of 8 bits that a constant of floats stands for: (levels - zero) * scale. Scale and
/// zero are one number, or one for each index of `axis`.
struct QuantizedConstant {
  Constant levels, scale;
  std::optional<Constant> zero = {};
  std::int64_t axis = -1;  // -1: one number
};

struct Value {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;  // known after import
  bool shape_known = false;
  std::optional<Constant> constant = {};  // initialisers and folded values
  /// Set for a constant that a DequantizeLinear made.
  std::shared_ptr<const QuantizedConstant> quantized = {};
  /// Set if the actual dims depend on data: `dims` are then a capacity, the most that each dim can
  /// be. The same node also computes the value `sizes` (INT64, one element per dim), which has the
  /// actual dims. The elements lie row-major for the actual dims at the start of the memory for
  /// `dims`; the memory behind them is undefined.
  ValueId sizes = kNoValue;
  /// Set if an engine computes the value and its dims depend on data without a capacity: they are
  /// not known before the engine has run. `dims` are then {0}.
  bool unsized = false;
  ValueKind kind = ValueKind::kTensor;
  std::vector<ValueId> elements = {};  // kSequence
  /// Set if the contents are computed when the graph becomes a plan, from what a request brings:
  /// its shapes and the contents that decide the graph (RequestWork).
  bool from_request = false;
};

using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                               std::vector<float>, std::vector<std::string>, Constant>;

enum class ActivationKind : std::uint8_t { kNone, kRelu, kClip, kOp };

/// What fusion moved into a Conv, Gemm, MatMul, ChannelAffine, Slice, Add, Sub, Mul or Div node:
/// y = activation(op(x) + residual). The residual has the shape of y. Only a Conv with group 1, a
/// Gemm, a MatMul or an IntegerLinear can have a residual.
struct Fused {
  ValueId residual = kNoValue;
  bool residual_last = false;  // y = activation(op(x)) + residual
  ActivationKind activation = ActivationKind::kNone;
  float low = 0, high = 0;  // kClip
  std::string op = {};      // kOp: an op of one input, with these attributes
  std::map<std::string, Attribute> attributes = {};
};

struct Graph;
struct OpaqueGraph;  // graph/opaque/opaque.h
class EngineHost;    // engine/engine_host.h

struct Node {
  std::string name;  // never empty: the importer names nameless nodes "Conv_12"
  std::string op;    // ONNX op_type, domain ai.onnx
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, Attribute> attributes;
  Fused fused;
  /// True for a Conv, a ConvTranspose of one group, a Gemm (transA 0), a MatMul or a
  /// BatchNormalization if x is fp32 and the parameters are fp32 constants. Only packed nodes take
  /// part in fusion.
  bool packed = false;
  /// Empty for ai.onnx. Only nodes that an import has not yet expanded (graph/expand) have another
  /// domain.
  std::string domain = {};
  /// The opset in which the node is written; 0: the graph's. Nodes of a function and of an
  /// expansion may have another opset than the rest of the graph.
  std::int64_t opset = 0;
  /// The version of `domain` that the file imports; 0: unknown.
  std::int64_t domain_version = 0;
  /// Set if an engine computes the node; `op` is then kOpaqueOp.
  std::shared_ptr<const OpaqueGraph> opaque = {};

  /// If, Loop, Scan and SequenceMap have graphs as attributes. InferShapes replaces such a node by
  /// the nodes of its bodies (graph/control). The inputs of a body are its formal inputs and then
  /// `captured` values of the graph around the node; these are also the last inputs of the node, in
  /// the same order. All bodies of a node capture the same values. A body need not have distinct
  /// outputs, and its values have no shapes.
  std::map<std::string, std::shared_ptr<const Graph>> bodies = {};
  std::size_t captured = 0;
  /// A Loop or Scan whose first steps are unrolled already: their number, and how many of the
  /// inputs, before the captured ones, are sequences of scan outputs of these steps.
  std::int64_t steps_done = 0;
  std::size_t stacked = 0;

  /// The inputs that are not captured.
  std::span<const ValueId> formal_inputs() const {
    return std::span(inputs).first(inputs.size() - captured);
  }

  /// The attribute, or `otherwise` if it is missing or of another type.
  std::int64_t Int(const std::string& attribute, std::int64_t otherwise) const;
  float Float(const std::string& attribute, float otherwise) const;
  std::string String(const std::string& attribute, std::string otherwise) const;
  std::vector<std::int64_t> Ints(const std::string& attribute,
                                 std::vector<std::int64_t> otherwise) const;
};

/// What a request may make an import compute, and how much of that has been computed.
struct RequestWork {
  /// Most bytes of all values with Value::from_request.
  std::size_t max_bytes = std::numeric_limits<std::size_t>::max();
  std::stop_token stop = {};  // requested: nobody wants the graph any more
  std::size_t bytes = 0;

  /// kResourceExhausted: over the limit.
  Status Charge(std::size_t more);
  /// kCancelled: `stop` was requested.
  Status CheckWanted() const;
};

struct Graph {
  std::string name;
  std::int64_t opset = 0;
  std::vector<Value> values;
  std::vector<Node> nodes;       // topological order
  std::vector<ValueId> inputs;   // without initialisers
  std::vector<ValueId> outputs;  // distinct
  /// Runs the nodes that Lagoon has no kernels for (graph/opaque); null: such nodes are refused.
  std::shared_ptr<EngineHost> engine = {};
  RequestWork work = {};

  std::int64_t OpsetOf(const Node& node) const { return node.opset == 0 ? opset : node.opset; }
  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
};

inline constexpr std::int64_t kMinOpset = 1;
inline constexpr std::int64_t kMaxOpset = 28;

// A file beyond one of these limits is refused before its contents are decoded.
inline constexpr std::size_t kMaxGraphNodes = 1 << 16;
inline constexpr std::size_t kMaxGraphEdges = 1 << 19;  // names of inputs, outputs, initialisers
inline constexpr std::size_t kMaxRank = 16;
inline constexpr std::size_t kMaxNameBytes = 4096;
inline constexpr int kMaxBodyDepth = 16;  // of graphs inside one another
/// A loop of more nodes, when its steps are written one after the other, is refused.
inline constexpr std::size_t kMaxUnrolledNodes = kMaxGraphNodes;
/// The steps of loops fill a part of a model (ModelPart) with so many nodes. The remaining steps
/// are the next part, so that the time to compile a long loop grows with its steps only.
inline constexpr std::size_t kMaxPartNodes = 4096;
/// Most nodes that the steps of all loops of a model may become, in all its parts.
inline constexpr std::size_t kMaxLoopNodes = 1 << 18;

struct ImportOptions {
  /// Fixes symbolic dimensions, by name.
  std::map<std::string, std::int64_t> dimensions;
  /// Contents of graph inputs that are known when the model is loaded, by name. These inputs become
  /// constants. For shapes, axes and the like that a file declares as inputs.
  std::map<std::string, Constant> inputs;
  /// Limit for the sum of all constants, and for the memory that all activations take together; a
  /// larger model is refused before memory is allocated.
  std::size_t max_bytes = std::size_t{8} << 30;
  /// Runs what Lagoon does not; null: that is refused.
  std::shared_ptr<EngineHost> engine = {};
  /// External data lie in this folder. Nothing: in that of the file, as File::OpenExternal() says.
  /// Empty: there are none, and a file that names some is refused.
  std::optional<std::string> folder = {};
  /// External data lie there, and not in files; null: in files. Large ones are read when they are
  /// packed, and not kept.
  std::shared_ptr<const WeightSource> weights = {};
};

/// Reads an ONNX file (external data beside it), checks it, infers all shapes and evaluates the
/// constants that shapes depend on. Open dimensions become 1 (OnnxModel takes others). Nodes that
/// no output needs are left out and not read. Errors name file, node, op and opset. Never throws,
/// never aborts on hostile input. kNotFound: no such file. kUnimplemented: valid ONNX that Lagoon
/// does not run, or that runs in parts (OnnxModel). kResourceExhausted: over a limit.
/// kInvalidArgument: all other errors.
Result<Graph> ImportOnnx(const std::string& path, const ImportOptions& options = {});

/// Evaluates nodes whose inputs are constant, and drops nodes that no output needs and no-ops
/// (Identity, Dropout, Reshape to the same shape, ...). Takes an imported graph. Value ids change.
Status FoldConstants(Graph& graph, const ImportOptions& options = {});

/// Moves batch-norm, bias, residual add and activation into Conv, Gemm and MatMul; a batch-norm
/// without such a node before it becomes a ChannelAffine. Takes an imported graph. Value ids
/// change. Weights that several nodes share may have to be copied for each node; `options` limits
/// the memory of these copies too.
Status FuseOps(Graph& graph, const ImportOptions& options = {});

/// All three passes: the graph that lowering takes.
Result<Graph> LoadGraph(const std::string& path, const ImportOptions& options = {});

}  // namespace lagoon
