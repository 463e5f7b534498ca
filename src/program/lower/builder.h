#pragma once

// What lowering produces while it walks a graph: kernels, and the buffers that they read and write.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "kernels/kernel_maker.h"
#include "plan/opaque.h"
#include "plan/precision.h"
#include "program/lower/byte_flow.h"
#include "program/lower/layout.h"

namespace lagoon {

enum class BufferId : std::uint32_t {};

struct LoweredBuffer {
  std::string name;
  std::size_t bytes = 0;
  /// The contents are known when the model is loaded: written by `fill`, or computed by an op of
  /// LoweredProgram::load_ops.
  bool constant = false;
  /// Writes `bytes` bytes to 64-byte aligned memory. Called at most once and then destroyed with
  /// all that it owns.
  std::function<void(std::byte*)> fill;
  /// Identifies the contents of a filled constant: constants of equal size and equal key have the
  /// same bytes, also in different programs that are packed together. Empty: only comparing the
  /// bytes can tell.
  std::string key = {};
  /// The host reads the buffer after the last op: no other one takes its place.
  bool pinned = false;
  /// A constant that the shapes or values of a request have made: other programs hardly need it.
  bool from_request = false;
};

/// A buffer as an operand of an op. The kernel's pointer points to `offset`; the op's blocks access
/// at most the `bytes` bytes from there on.
struct Operand {
  BufferId buffer{};
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

struct LoweredOp {
  std::string name;
  Kernel kernel;
  std::vector<Operand> inputs;   // one per kernel.inputs
  std::vector<Operand> outputs;  // one per kernel.outputs
  /// Set if an engine computes the kernel. The last output is then its status (PlanOp::status).
  std::shared_ptr<const OpaqueOp> opaque = nullptr;
};

struct LoweredTensor {
  TensorSpec spec;
  BufferId buffer{};
  std::optional<OpaqueOutput> made = {};  // PlanTensor::made
};

/// A model as kernels over buffers that have no addresses yet. Ops are in topological order; every
/// buffer has one writer, and no op before the writer of an input's buffer reads this buffer.
struct LoweredProgram {
  std::vector<LoweredBuffer> buffers;
  std::vector<LoweredOp> load_ops;  // read and write constants only: run once, at load
  std::vector<LoweredOp> ops;
  std::vector<LoweredTensor> inputs;
  std::vector<LoweredTensor> outputs;

  LoweredBuffer& buffer(BufferId id) { return buffers[static_cast<std::size_t>(id)]; }
  const LoweredBuffer& buffer(BufferId id) const { return buffers[static_cast<std::size_t>(id)]; }
};

/// A value on the device: dims in ONNX's order, and the layout in the buffer.
struct Tensor {
  BufferId buffer{};
  Dims dims;
  Layout layout = Layout::kPlain;
  DataType type = DataType::kFloat32;

  Dims physical() const { return PhysicalDims(dims, layout); }
};

/// A value as bytes: UINT8, on a grid.
struct ByteTensor {
  Tensor tensor;
  ByteGrid grid;
};

struct LowerOptions {
  Precision precision = Precision::kFp32;
  /// True if other programs share the weights, which must then be packed in the form for any number
  /// of rows.
  bool shares_weights = false;
  /// The device's kernels. Null: the CPU's.
  const KernelMaker* kernels = nullptr;
  bool all_versions = true;  // CompileOptions::all_versions

  /// Whether the device has the kernels of LAGOON_CPU_KERNELS.
  bool on_cpu() const;
};

/// The places of a graph's values while its nodes are lowered one after the other. Errors do not
/// name the node; the caller adds its name. Not thread-safe.
class ProgramBuilder {
 public:
  /// Makes a buffer for every graph input. Call before anything else.
  static Result<ProgramBuilder> Create(Graph graph, const LowerOptions& options = {});

  const LowerOptions& options() const { return options_; }

  const Graph& graph() const { return graph_; }
  /// For lowering convolutions and products with weights.
  Precision precision() const { return options_.precision; }
  const Dims& dims(ValueId value) const { return graph_.value(value).dims; }
  /// Null if the value is computed.
  const Constant* constant(ValueId value) const;
  DataType type(ValueId value) const { return graph_.value(value).type; }
  /// The fp32 constant `value`; `role` names it in the error ("weights").
  Result<Constant> FloatConstant(ValueId value, const char* role) const;

  /// The value in `layout`, moved to that layout if needed. The move happens once; later uses share
  /// the result.
  Result<Tensor> Use(ValueId value, Layout layout);
  /// The layout for which the fewest bytes of `values` must move; always kPlain unless the rank is
  /// 3 to 5.
  Layout CheapestLayout(std::span<const ValueId> values) const;
  /// Declares that `tensor` holds the graph's `value`. If its type or size is another one, Lower()
  /// fails: no model may end the process.
  void Define(ValueId value, const Tensor& tensor);
  /// The first such error.
  const std::optional<Error>& defined_wrongly() const { return defined_wrongly_; }

  /// How often each of the graph's values is read, graph outputs included.
  void SetReads(std::vector<std::uint32_t> reads) { reads_ = std::move(reads); }
  /// By ValueId: whether an op that computes with the channels last reads the value. There may be
  /// ops between that take either layout, such as an Add.
  void SetReadAsImages(std::vector<bool> read) { read_as_images_ = std::move(read); }
  bool IsReadAsImage(ValueId value) const {
    const auto at = static_cast<std::size_t>(value);
    return at < read_as_images_.size() && read_as_images_[at];
  }
  /// Whether an op that makes `output` may write it into the place of `input`: `input` is an input
  /// of the graph that nothing else reads, and `output` is an output of the graph.
  bool MayReplace(ValueId input, ValueId output) const;
  /// Does that. The result, the place of both, is what the op writes; the op does not read it.
  Tensor Replace(ValueId input, ValueId output);

  /// Declares that the fp32 value `wide` has the contents of `value`, not yet rounded to its type.
  /// Use(value) rounds them, if a node needs that.
  void DefineWide(ValueId value, ValueId wide) { wide_[value] = wide; }
  /// The fp32 value of DefineWide(); kNoValue if there is none.
  ValueId WideOf(ValueId value) const {
    const auto found = wide_.find(value);
    return found == wide_.end() ? kNoValue : found->second;
  }

  /// Declares that `flat`, of the same type, is `value` reshaped: the same elements in row-major
  /// order. Use(value) gives a view of `flat`.
  void DefineFlat(ValueId value, ValueId flat) { flat_[value] = flat; }
  /// The value of DefineFlat(); kNoValue if there is none.
  ValueId FlatOf(ValueId value) const {
    const auto found = flat_.find(value);
    return found == flat_.end() ? kNoValue : found->second;
  }

  /// A view of `x` with its axes permuted: axis i of the view is axis order[i] of `x`.
  struct Turned {
    Tensor x;
    std::vector<std::int64_t> order;
  };
  /// Declares that `value` is `turned`, which is plain. Use(value) moves the elements, if a node
  /// needs that.
  void DefineTurned(ValueId value, Turned turned) { turned_[value] = std::move(turned); }
  /// The tensor of DefineTurned(); null if there is none.
  const Turned* TurnedOf(ValueId value) const {
    const auto found = turned_.find(value);
    return found == turned_.end() ? nullptr : &found->second;
  }
  /// By ValueId: whether a product of two computed matrices reads the value.
  void SetReadByProducts(std::vector<bool> read) { read_by_products_ = std::move(read); }
  bool IsReadByProduct(ValueId value) const {
    const auto at = static_cast<std::size_t>(value);
    return at < read_by_products_.size() && read_by_products_[at];
  }

  /// Which values can be bytes. Null: none.
  const ByteFlow* flow() const { return flow_.get(); }
  void SetFlow(std::shared_ptr<const ByteFlow> flow) { flow_ = std::move(flow); }
  /// Declares that the fp32 value `value` is the sum of `terms`, one or two, all in one layout.
  /// Use(value) computes it in fp32, if a node needs that.
  void DefineBytes(ValueId value, std::vector<ByteTensor> terms) {
    bytes_[value] = std::move(terms);
  }
  /// The terms of DefineBytes(); empty if there are none.
  std::span<const ByteTensor> TermsOf(ValueId value) const {
    const auto found = bytes_.find(value);
    return found == bytes_.end() ? std::span<const ByteTensor>() : found->second;
  }

  /// Whether the value, or its bytes, lie in `layout`.
  bool LiesIn(ValueId value, Layout layout) const;

  /// Adds a value that the graph does not have, for lowerings that rewrite a node as other nodes.
  ValueId AddValue(const std::string& name, DataType type, const Dims& dims);
  /// The same for a constant. `key` identifies the contents, as LoweredBuffer::key. Pass a key for
  /// a constant that every lowering of the graph creates anew.
  ValueId AddValue(const std::string& name, Constant constant, std::string key = {});
  /// The key of a constant; constants with equal keys have the same bytes. It says whether a
  /// request has made the constant, and keys of what is computed from the constant contain it.
  std::string KeyOf(ValueId constant) const;

  /// A new buffer that an op will write.
  Tensor NewTensor(const std::string& name, const Dims& dims, Layout layout,
                   DataType type = DataType::kFloat32);
  /// A new buffer for the status of an opaque kernel (PlanOp::status).
  BufferId NewStatus(const std::string& name);
  /// A constant of `bytes` bytes, which `fill` writes when the model is loaded; `key`: see
  /// LoweredBuffer::key.
  BufferId AddConstant(const std::string& name, std::size_t bytes,
                       std::function<void(std::byte*)> fill, std::string key = {});
  /// The whole tensor, as an operand.
  Operand All(const Tensor& tensor) const { return All(tensor.buffer); }
  Operand All(BufferId buffer) const;

  /// Whether a kernel with these inputs runs when the model is loaded.
  bool AllConstant(std::span<const Operand> inputs) const;
  /// The maker for a kernel with these inputs: the CPU's if all inputs are constants, because the
  /// kernel then runs at load time; otherwise the device's.
  const KernelMaker& MakerFor(std::span<const Operand> inputs) const;
  using MakeKernel = std::function<Result<Kernel>(const KernelMaker&)>;
  /// Adds the kernel that `make` gets from MakerFor(inputs), with operands in the order of its
  /// factory. Returns the factory's error. A CPU kernel that reads only constants becomes a load
  /// op, and its outputs become constants.
  Status Emit(const std::string& name, const MakeKernel& make, std::vector<Operand> inputs,
              std::vector<Operand> outputs);
  /// The same for a finished kernel, made by MakerFor(inputs).
  Status Emit(const std::string& name, Kernel kernel, std::vector<Operand> inputs,
              std::vector<Operand> outputs);

  /// `value` is output `output` of the kernel that EmitOpaque() adds next (Value::unsized).
  void DefineMade(ValueId value, std::uint32_t output) {
    made_[value] = {static_cast<std::uint32_t>(program_.ops.size()), output};
  }
  /// A kernel that an engine computes (LoweredOp::opaque); never a load op.
  void EmitOpaque(LoweredOp op) { program_.ops.push_back(std::move(op)); }

  /// y = Transpose(x, order), stored in `layout`; a view of x if no byte has to move.
  Result<Tensor> Transpose(const Tensor& x, std::span<const std::int64_t> order, Layout layout);
  Result<Tensor> Convert(const Tensor& x, Layout layout);
  /// The same elements in row-major order with other dims.
  Result<Tensor> Reshape(const Tensor& x, const Dims& dims);

  /// Places the graph's outputs. The builder must not be used afterwards.
  Result<LoweredProgram> Finish() &&;

 private:
  using Placements = std::array<std::optional<Tensor>, 2>;  // by Layout

  ProgramBuilder(Graph graph, const LowerOptions& options)
      : graph_(std::move(graph)), options_(options) {}
  BufferId AddBuffer(LoweredBuffer buffer);
  const KernelMaker& device_kernels() const;
  Placements& places(ValueId value) { return places_[static_cast<std::size_t>(value)]; }
  Result<Tensor> PlaceConstant(ValueId value);
  Result<LoweredTensor> PlaceOutput(ValueId value);

  Graph graph_;
  LowerOptions options_;
  std::vector<Placements> places_;       // by ValueId
  std::map<ValueId, std::string> keys_;  // keys of added constants
  std::map<ValueId, OpaqueOutput> made_;
  std::vector<std::uint32_t> reads_;  // by ValueId; empty: not known
  std::vector<bool> read_as_images_;  // the same
  std::set<ValueId> replaces_;        // outputs of the graph that lie in the place of an input
  std::optional<Error> defined_wrongly_;
  std::map<ValueId, ValueId> wide_, flat_;
  std::map<ValueId, Turned> turned_;
  std::vector<bool> read_by_products_;  // by ValueId; empty: not known
  std::shared_ptr<const ByteFlow> flow_;
  std::map<ValueId, std::vector<ByteTensor>> bytes_;
  LoweredProgram program_;
};

/// Lowers every node of a folded and fused graph. Takes the graph, so that each constant can be
/// freed as soon as it is packed. Errors name model, node, op and opset.
Result<LoweredProgram> Lower(Graph graph, const std::string& model,
                             const LowerOptions& options = {});

}  // namespace lagoon
