#pragma once

// What lowering writes while it walks a graph: kernels, and the buffers that they read and write.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"
#include "kernels/kernel_maker.h"
#include "plan/precision.h"
#include "program/layout.h"

namespace lagoon {

enum class BufferId : std::uint32_t {};

struct LoweredBuffer {
  std::string name;
  std::size_t bytes = 0;
  /// Known at load: filled by `fill`, or computed by an op of LoweredProgram::load_ops.
  bool constant = false;
  /// Writes `bytes` bytes to 64-byte aligned memory. Called at most once, then dropped with what it
  /// holds.
  std::function<void(std::byte*)> fill;
  /// Filled constants of one size and one such key have the same bytes, in whatever programs packed
  /// together they are; empty: only the bytes themselves tell.
  std::string key = {};
};

/// A buffer as an op uses it: its kernel's pointer points to `offset`, its blocks touch from there
/// up to `bytes` bytes.
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
};

struct LoweredTensor {
  TensorSpec spec;
  BufferId buffer{};
};

/// A model as kernels over buffers without places. Ops are in topological order; every buffer has
/// one writer.
struct LoweredProgram {
  std::vector<LoweredBuffer> buffers;
  std::vector<LoweredOp> load_ops;  // read and write constants only: run once when the model loads
  std::vector<LoweredOp> ops;
  std::vector<LoweredTensor> inputs;
  std::vector<LoweredTensor> outputs;

  LoweredBuffer& buffer(BufferId id) { return buffers[static_cast<std::size_t>(id)]; }
  const LoweredBuffer& buffer(BufferId id) const { return buffers[static_cast<std::size_t>(id)]; }
};

/// A value on the device: dims in ONNX's order, and how they lie in the buffer.
struct Tensor {
  BufferId buffer{};
  Dims dims;
  Layout layout = Layout::kPlain;
  DataType type = DataType::kFloat32;

  Dims physical() const { return PhysicalDims(dims, layout); }
};

struct LowerOptions {
  Precision precision = Precision::kFp32;
  /// Other programs share the weights, which must then be packed alike for any number of rows.
  bool shares_weights = false;
  /// Of the device. Null: the CPU's.
  const KernelMaker* kernels = nullptr;
};

/// Where the values of a graph live while its nodes are lowered one after the other. Errors do not
/// name the node: the caller that knows it does. Not thread-safe.
class ProgramBuilder {
 public:
  /// Makes a buffer for every graph input. Call before anything else.
  static Result<ProgramBuilder> Create(Graph graph, const LowerOptions& options = {});

  const LowerOptions& options() const { return options_; }

  const Graph& graph() const { return graph_; }
  /// For the lowerings of convolutions and of products with weights.
  Precision precision() const { return options_.precision; }
  const Dims& dims(ValueId value) const { return graph_.value(value).dims; }
  /// Null when the value is computed.
  const Constant* constant(ValueId value) const;
  DataType type(ValueId value) const { return graph_.value(value).type; }
  /// A constant of fp32; `role` names it in the error ("weights").
  Result<Constant> FloatConstant(ValueId value, const char* role) const;

  /// The value in `layout`, moved there if needed (once; later uses share it).
  Result<Tensor> Use(ValueId value, Layout layout);
  /// The layout in which the fewest bytes of `values` must move; kPlain but for ranks 3 to 5.
  Layout CheapestLayout(std::span<const ValueId> values) const;
  /// Says that `tensor` is `value` of the graph.
  void Define(ValueId value, const Tensor& tensor);

  /// A value that the graph does not have: for lowerings that make a node of another type of it.
  ValueId AddValue(const std::string& name, DataType type, const Dims& dims);
  /// The same for a constant. `key`: tells its bytes apart, as LoweredBuffer::key does; to be given
  /// for one that every lowering of the graph makes anew.
  ValueId AddValue(const std::string& name, Constant constant, std::string key = {});
  /// Constants of one such key have the same bytes.
  std::string KeyOf(ValueId constant) const;

  /// A buffer for something that an op will write.
  Tensor NewTensor(const std::string& name, const Dims& dims, Layout layout,
                   DataType type = DataType::kFloat32);
  /// A constant of `bytes` bytes, which `fill` writes when the model loads; see LoweredBuffer::key.
  BufferId AddConstant(const std::string& name, std::size_t bytes,
                       std::function<void(std::byte*)> fill, std::string key = {});
  /// All of a tensor, as an operand.
  Operand All(const Tensor& tensor) const { return All(tensor.buffer); }
  Operand All(BufferId buffer) const;

  /// Who makes kernels that read `inputs`: the CPU those that read only constants, for they run
  /// when the model loads, the device's maker all others.
  const KernelMaker& MakerFor(std::span<const Operand> inputs) const;
  using MakeKernel = std::function<Result<Kernel>(const KernelMaker&)>;
  /// Adds the kernel that `make` asks of MakerFor(inputs), operands in the order of its factory.
  /// Passes the factory's error on. A kernel of the CPU's that reads only constants becomes a load
  /// op, and what it writes a constant.
  Status Emit(const std::string& name, const MakeKernel& make, std::vector<Operand> inputs,
              std::vector<Operand> outputs);
  /// The same for one that has been made, by MakerFor(inputs).
  Status Emit(const std::string& name, Kernel kernel, std::vector<Operand> inputs,
              std::vector<Operand> outputs);

  /// y = Transpose(x, order), lying in `layout`; a view when no byte has to move.
  Result<Tensor> Transpose(const Tensor& x, std::span<const std::int64_t> order, Layout layout);
  Result<Tensor> Convert(const Tensor& x, Layout layout);
  /// The same elements in row-major order under other dims.
  Result<Tensor> Reshape(const Tensor& x, const Dims& dims);

  /// Places the graph's outputs. The builder is spent afterwards.
  Result<LoweredProgram> Finish() &&;

 private:
  using Placements = std::array<std::optional<Tensor>, 2>;  // by Layout

  ProgramBuilder(Graph graph, const LowerOptions& options)
      : graph_(std::move(graph)), options_(options) {}
  BufferId AddBuffer(LoweredBuffer buffer);
  bool AllConstant(std::span<const Operand> inputs) const;
  const KernelMaker& device_kernels() const;
  Placements& places(ValueId value) { return places_[static_cast<std::size_t>(value)]; }
  Result<Tensor> PlaceConstant(ValueId value);
  Result<LoweredTensor> PlaceOutput(ValueId value);

  Graph graph_;
  LowerOptions options_;
  std::vector<Placements> places_;       // by ValueId
  std::map<ValueId, std::string> keys_;  // of constants that are not of the graph
  LoweredProgram program_;
};

/// Lowers every node of a folded and fused graph. Takes the graph, so that a constant is freed as
/// soon as it is packed. Errors name model, node, op and opset.
Result<LoweredProgram> Lower(Graph graph, const std::string& model,
                             const LowerOptions& options = {});

}  // namespace lagoon
