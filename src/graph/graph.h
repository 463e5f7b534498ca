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
// - FuseOps adds these ops:
//   - RMSNormalization: x, [scale], with the attributes of LayerNormalization.
//   - LayerNormalization may then lack its scale.
//   - Swish: x * sigmoid(x).
//   - Attention: q, k, v, [mask], [keep] of rank 4, with the attributes q_order, k_order,
//     v_order, y_order (which axes are batch, head, row and column), scale, kept and fill
//     (kernels/sequence/attention.h).
//   - ChannelAffine: scale [C], shift [C], then one or more parts of rank 2 or 4, joined along
//     axis 1: y = joined * scale + shift. It replaces a BatchNormalization that has no Conv, Gemm
//     or MatMul before it.
// - After LoadGraph there is no BatchNormalization and no Dropout. An Identity remains only where a
//   graph output would otherwise be a graph input.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon {

enum class ValueId : std::uint32_t {};
inline constexpr ValueId kNoValue{0xffffffff};  // an optional input or output that is left out

/// A constant: dense row-major, little-endian. The bytes are shared and never change.
struct Constant {
  DataType type = DataType::kFloat32;
  Dims dims;
  std::shared_ptr<const std::vector<std::byte>> bytes;

  std::span<const float> floats() const;      // CHECKs the type
  std::vector<std::int64_t> ToInt64() const;  // from int32 or int64; CHECKs the type
};

struct Value {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;  // known after import
  bool shape_known = false;
  std::optional<Constant> constant;  // initialisers and folded values
};

using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                               std::vector<float>, std::vector<std::string>, Constant>;

enum class ActivationKind : std::uint8_t { kNone, kRelu, kClip, kOp };

/// What fusion moved into a Conv, Gemm, MatMul, ChannelAffine, Slice or Add node: y =
/// activation(op(x) + residual). The residual has the shape of y. Only a Conv with group 1, a Gemm
/// or a MatMul can have a residual.
struct Fused {
  ValueId residual = kNoValue;
  bool residual_last = false;  // y = activation(op(x)) + residual
  ActivationKind activation = ActivationKind::kNone;
  float low = 0, high = 0;  // kClip
  std::string op = {};      // kOp: an op of one input, with these attributes
  std::map<std::string, Attribute> attributes = {};
};

struct Node {
  std::string name;  // never empty: the importer names nameless nodes "Conv_12"
  std::string op;    // ONNX op_type, domain ai.onnx
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, Attribute> attributes;
  Fused fused;
  /// True for a Conv over one or two axes, a Gemm (transA 0), a MatMul or a BatchNormalization if x
  /// is fp32 and the parameters are fp32 constants. Only packed nodes take part in fusion.
  bool packed = false;

  /// The attribute, or `otherwise` if it is missing or of another type.
  std::int64_t Int(const std::string& attribute, std::int64_t otherwise) const;
  float Float(const std::string& attribute, float otherwise) const;
  std::string String(const std::string& attribute, std::string otherwise) const;
  std::vector<std::int64_t> Ints(const std::string& attribute,
                                 std::vector<std::int64_t> otherwise) const;
};

struct Graph {
  std::string name;
  std::int64_t opset = 0;
  std::vector<Value> values;
  std::vector<Node> nodes;       // topological order
  std::vector<ValueId> inputs;   // without initialisers
  std::vector<ValueId> outputs;  // distinct

  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
};

inline constexpr std::int64_t kMinOpset = 1;
inline constexpr std::int64_t kMaxOpset = 21;

// A file beyond one of these limits is refused before its contents are decoded.
inline constexpr std::size_t kMaxGraphNodes = 1 << 16;
inline constexpr std::size_t kMaxGraphEdges = 1 << 19;  // names of inputs, outputs, initialisers
inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::size_t kMaxNameBytes = 4096;

struct ImportOptions {
  /// Sizes of symbolic dimensions, by name. Other symbolic dimensions become 1, and so do
  /// dimensions that the file leaves out or gives as 0.
  std::map<std::string, std::int64_t> dimensions;
  /// Contents of graph inputs that are known when the model is loaded, by name. These inputs become
  /// constants. For shapes, axes and the like that a file declares as inputs.
  std::map<std::string, Constant> inputs;
  /// Limit for the sum of all constants and all activations; a larger model is refused before
  /// memory is allocated.
  std::size_t max_bytes = std::size_t{8} << 30;
};

/// Reads an ONNX file (opset 1-21, external data beside it), checks it, infers all shapes and
/// evaluates the constants that shapes depend on. Nodes that no output needs are left out and not
/// read. Errors name file, node, op and opset. Never throws, never aborts on hostile input.
/// kNotFound: no such file. kUnimplemented: valid ONNX that Lagoon does not run.
/// kResourceExhausted: over a limit. kInvalidArgument: all other errors.
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

/// LoadGraph for several batch sizes: one graph per size, from one reading of the file. The graphs
/// share the bytes of their constants. For a batch size other than 1, the first dimension of every
/// input must be open in the file and must not be among `options.dimensions`; this dimension and
/// all dimensions of the same name get the batch size. For more than one size, every output must
/// have the batch as its first dimension. `batches`: each at least 1. kInvalidArgument names the
/// input or output that has no batch dimension.
Result<std::vector<Graph>> LoadGraphs(const std::string& path,
                                      std::span<const std::int64_t> batches,
                                      const ImportOptions& options = {});

}  // namespace lagoon
