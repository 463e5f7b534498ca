#include "program/lower/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "kernels/cpu_kernels.h"
#include "program/lower/emit.h"
#include "program/lower/lower_bytes.h"

namespace lagoon {
namespace {

constexpr const char* kRequestKey = "request ";  // in the key of what a request has made

std::size_t BytesOf(const Dims& dims, DataType type) {
  return static_cast<std::size_t>(ElementCount(dims)) * SizeOf(type);
}

std::vector<std::int64_t> IdentityOrder(std::size_t rank) {
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

Result<ProgramBuilder> ProgramBuilder::Create(Graph graph, const LowerOptions& options) {
  ProgramBuilder builder(std::move(graph), options);
  builder.places_.resize(builder.graph_.values.size());
  for (const ValueId id : builder.graph_.inputs) {
    const Value& value = builder.graph_.value(id);
    if (value.type == DataType::kString && options.kernels != nullptr) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("input '{}' holds strings (BYTES), which models on device 'cpu' only "
                              "take",
                              value.name));
    }
    const Tensor tensor = builder.NewTensor(value.name, value.dims, Layout::kPlain, value.type);
    builder.Define(id, tensor);
    builder.program_.inputs.push_back({{value.name, value.type, value.dims}, tensor.buffer});
  }
  return builder;
}

const Constant* ProgramBuilder::constant(ValueId value) const {
  const std::optional<Constant>& constant = graph_.value(value).constant;
  return constant ? &*constant : nullptr;
}

Result<Constant> ProgramBuilder::FloatConstant(ValueId value, const char* role) const {
  const Constant* found = constant(value);
  if (found == nullptr) {
    return Fail(ErrorCode::kUnimplemented, fmt::format("{} '{}' must be constant, but are computed",
                                                       role, graph_.value(value).name));
  }
  if (found->type == DataType::kFloat32) return *found;
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("{} '{}' are {}, not FP32", role, graph_.value(value).name,
                          OipName(found->type)));
}

BufferId ProgramBuilder::AddBuffer(LoweredBuffer buffer) {
  program_.buffers.push_back(std::move(buffer));
  return BufferId{static_cast<std::uint32_t>(program_.buffers.size() - 1)};
}

ValueId ProgramBuilder::AddValue(const std::string& name, DataType type, const Dims& dims) {
  Value value;
  value.name = name;
  value.type = type;
  value.dims = dims;
  value.shape_known = true;
  graph_.values.push_back(std::move(value));
  places_.emplace_back();
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId ProgramBuilder::AddValue(const std::string& name, Constant constant, std::string key) {
  const ValueId id = AddValue(name, constant.type, constant.dims);
  graph_.value(id).constant = std::move(constant);
  if (!key.empty()) keys_[id] = std::move(key);
  return id;
}

std::string ProgramBuilder::KeyOf(ValueId constant) const {
  const auto known = keys_.find(constant);
  if (known != keys_.end()) return known->second;
  const Value& value = graph_.value(constant);
  const ConstantData& bytes = value.constant->bytes;
  return (value.from_request ? kRequestKey : "") +
         ToString(bytes.identity() ? bytes.identity() : IdentityOf(std::span(*bytes)));
}

Tensor ProgramBuilder::NewTensor(const std::string& name, const Dims& dims, Layout layout,
                                 DataType type) {
  return {AddBuffer({name, BytesOf(dims, type), false, nullptr}), dims, layout, type};
}

BufferId ProgramBuilder::NewStatus(const std::string& name) {
  return AddBuffer({name, sizeof(std::int64_t), false, nullptr, {}, true});
}

BufferId ProgramBuilder::AddConstant(const std::string& name, std::size_t bytes,
                                     std::function<void(std::byte*)> fill, std::string key) {
  // While the model is loaded, no request is there, and work has no limit.
  const bool for_request = graph_.work.max_bytes < RequestWork().max_bytes;
  const bool from_request = for_request && key.find(kRequestKey) != std::string::npos;
  return AddBuffer({name, bytes, true, std::move(fill), std::move(key), false, from_request});
}

Operand ProgramBuilder::All(BufferId buffer) const {
  return {buffer, 0, program_.buffer(buffer).bytes};
}

void ProgramBuilder::Define(ValueId value, const Tensor& tensor) {
  const std::size_t bytes = program_.buffer(tensor.buffer).bytes;
  const bool fits = type(value) == tensor.type && BytesOf(dims(value), type(value)) == bytes;
  if (!fits && !defined_wrongly_) {
    defined_wrongly_ = Error{
        ErrorCode::kUnimplemented,
        fmt::format("a fault of Lagoon's: value '{}' is {} {}, its kernels make {} of {} bytes",
                    graph_.value(value).name, OipName(type(value)), ToString(dims(value)),
                    OipName(tensor.type), bytes)};
  }
  Tensor defined = tensor;
  defined.dims = dims(value);
  places(value)[static_cast<std::size_t>(tensor.layout)] = std::move(defined);
}

Result<Tensor> ProgramBuilder::PlaceConstant(ValueId value) {
  const Value& v = graph_.value(value);
  if (v.type == DataType::kString) {
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("constant '{}' holds strings (BYTES), which only an engine computes with",
                    v.name));
  }
  const ConstantData bytes = v.constant->bytes;
  Tensor tensor;
  tensor.dims = v.dims;
  tensor.type = v.type;
  tensor.buffer = AddConstant(
      v.name, bytes.size(),
      [bytes](std::byte* to) {
        std::memcpy(to, bytes->data(), bytes.size());
        bytes.Release();
      },
      KeyOf(value));
  Define(value, tensor);
  return tensor;
}

Result<Tensor> ProgramBuilder::Use(ValueId value, Layout layout) {
  const std::optional<Tensor>& place = places(value)[static_cast<std::size_t>(layout)];
  if (place) return *place;
  if (ElementCount(dims(value)) == 0) {
    return NewTensor(graph_.value(value).name, dims(value), layout, type(value));
  }
  if (constant(value) != nullptr && !places(value)[0]) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor tensor, PlaceConstant(value));
    if (layout == Layout::kPlain) return tensor;
  }
  if (const auto bytes = TermsOf(value); !bytes.empty() && !places(value)[0] && !places(value)[1]) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor floats,
                            EmitFloats(*this, graph_.value(value).name, bytes, layout));
    Define(value, floats);
    return floats;
  }
  const std::optional<Tensor> other = places(value)[layout == Layout::kPlain ? 1 : 0];
  if (const Turned* const turned = TurnedOf(value); !other && turned != nullptr) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor moved, Transpose(turned->x, turned->order, layout));
    Define(value, moved);
    return moved;
  }
  if (const ValueId flat = FlatOf(value); !other && flat != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor same, Use(flat, Layout::kPlain));
    Define(value, same);
    return Use(value, layout);
  }
  if (const ValueId wide = WideOf(value); !other && wide != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor exact, Use(wide, layout));
    LAGOON_ASSIGN_OR_RETURN(const Tensor rounded,
                            EmitCast(*this, graph_.value(value).name, exact, type(value)));
    Define(value, rounded);
    return rounded;
  }
  if (!other) {
    return Fail(ErrorCode::kInternal, fmt::format("value '{}' is used before any node computes it",
                                                  graph_.value(value).name));
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor moved, Convert(*other, layout));
  Define(value, moved);
  return moved;
}

bool ProgramBuilder::LiesIn(ValueId value, Layout layout) const {
  if (places_[static_cast<std::size_t>(value)][static_cast<std::size_t>(layout)]) return true;
  if (layout == Layout::kPlain && TurnedOf(value) != nullptr) return true;
  const std::span<const ByteTensor> bytes = TermsOf(value);
  return !bytes.empty() && bytes.front().tensor.layout == layout;
}

Layout ProgramBuilder::CheapestLayout(std::span<const ValueId> values) const {
  std::array<std::size_t, 2> moved_bytes{};
  for (const ValueId value : values) {
    if (value == kNoValue || constant(value) != nullptr) continue;
    const std::size_t rank = dims(value).size();
    if (rank < 3 || rank > 5) continue;
    for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast}) {
      const auto index = static_cast<std::size_t>(layout);
      const Layout from = layout == Layout::kPlain ? Layout::kChannelsLast : Layout::kPlain;
      if (LiesIn(value, layout) || !LiesIn(value, from)) continue;
      const bool free = MovePermutation(dims(value), from, IdentityOrder(rank), layout).IsFree();
      if (!free) moved_bytes[index] += BytesOf(dims(value), type(value));
    }
  }
  return moved_bytes[1] < moved_bytes[0] ? Layout::kChannelsLast : Layout::kPlain;
}

bool ProgramBuilder::AllConstant(std::span<const Operand> inputs) const {
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const Operand& input) { return program_.buffer(input.buffer).constant; });
}

bool LowerOptions::on_cpu() const { return kernels == nullptr || kernels == &CpuKernels(); }

const KernelMaker& ProgramBuilder::device_kernels() const {
  return options_.kernels == nullptr ? CpuKernels() : *options_.kernels;
}

const KernelMaker& ProgramBuilder::MakerFor(std::span<const Operand> inputs) const {
  return AllConstant(inputs) ? CpuKernels() : device_kernels();
}

Status ProgramBuilder::Emit(const std::string& name, const MakeKernel& make,
                            std::vector<Operand> inputs, std::vector<Operand> outputs) {
  LAGOON_ASSIGN_OR_RETURN(Kernel kernel, make(MakerFor(inputs)));
  return Emit(name, std::move(kernel), std::move(inputs), std::move(outputs));
}

Status ProgramBuilder::Emit(const std::string& name, Kernel kernel, std::vector<Operand> inputs,
                            std::vector<Operand> outputs) {
  LAGOON_CHECK(kernel.inputs.size() == inputs.size());
  LAGOON_CHECK(kernel.outputs.size() == outputs.size());
  for (const std::vector<Operand>* operands : {&inputs, &outputs}) {
    for (const Operand& operand : *operands) {
      if (operand.bytes > 0) continue;
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("value '{}' has no elements", program_.buffer(operand.buffer).name));
    }
  }
  const bool at_load = kernel.body != nullptr && AllConstant(inputs);
  const bool from_request = at_load && std::ranges::any_of(inputs, [&](const Operand& input) {
                              return program_.buffer(input.buffer).from_request;
                            });
  for (const Operand& output : outputs) {
    program_.buffer(output.buffer).constant = at_load;
    program_.buffer(output.buffer).from_request = from_request;
  }
  (at_load ? program_.load_ops : program_.ops)
      .push_back({name, std::move(kernel), std::move(inputs), std::move(outputs), nullptr});
  return {};
}

Result<Tensor> ProgramBuilder::Transpose(const Tensor& x, std::span<const std::int64_t> order,
                                         Layout layout) {
  Tensor y = x;
  y.layout = layout;
  for (std::size_t i = 0; i < order.size(); ++i) {
    y.dims[i] = x.dims[static_cast<std::size_t>(order[i])];
  }
  const Permutation permutation = MovePermutation(x.dims, x.layout, order, layout);
  if (permutation.IsFree()) return y;
  const std::string source = program_.buffer(x.buffer).name;
  y = NewTensor(source + (layout == Layout::kPlain ? ":plain" : ":nhwc"), y.dims, layout, x.type);
  LAGOON_RETURN_IF_ERROR(Emit("move " + source,
                              [&](auto& make) {
                                return make.Transpose(permutation.dims, permutation.order,
                                                      SizeOf(x.type));
                              },
                              {All(x)}, {All(y)}));
  return y;
}

Result<Tensor> ProgramBuilder::Convert(const Tensor& x, Layout layout) {
  return Transpose(x, IdentityOrder(x.dims.size()), layout);
}

Result<Tensor> ProgramBuilder::Reshape(const Tensor& x, const Dims& dims) {
  LAGOON_CHECK(ElementCount(dims) == ElementCount(x.dims));
  if (dims == x.dims) return x;
  LAGOON_ASSIGN_OR_RETURN(Tensor y, Convert(x, Layout::kPlain));
  y.dims = dims;
  return y;
}

bool ProgramBuilder::MayReplace(ValueId input, ValueId output) const {
  const auto at = static_cast<std::size_t>(input);
  return output != kNoValue && at < reads_.size() && reads_[at] == 1 &&
         std::ranges::count(graph_.inputs, input) == 1 &&
         std::ranges::count(graph_.outputs, output) == 1 && dims(input) == dims(output) &&
         type(input) == type(output) && ElementCount(dims(input)) > 0;
}

Tensor ProgramBuilder::Replace(ValueId input, ValueId output) {
  Tensor place = *places(input)[static_cast<std::size_t>(Layout::kPlain)];
  Define(output, place);
  replaces_.insert(output);
  return place;
}

Result<LoweredTensor> ProgramBuilder::PlaceOutput(ValueId value) {
  LAGOON_ASSIGN_OR_RETURN(Tensor tensor, Use(value, Layout::kPlain));
  if (replaces_.contains(value)) {
    const Value& v = graph_.value(value);
    return LoweredTensor{{v.name, v.type, v.dims}, tensor.buffer};
  }
  const bool is_input =
      std::any_of(program_.inputs.begin(), program_.inputs.end(),
                  [&](const LoweredTensor& input) { return input.buffer == tensor.buffer; });
  const Value& v = graph_.value(value);
  // An output needs its own place in the arena and an op to wait for, unless it has no elements.
  if (ElementCount(v.dims) == 0) {
    tensor = NewTensor(v.name, v.dims, Layout::kPlain, v.type);
  } else if (is_input || program_.buffer(tensor.buffer).constant) {
    UnarySpec copy;
    copy.op = UnaryOp::kCopy;
    copy.type = v.type == DataType::kString ? DataType::kUInt64 : v.type;
    copy.count = BytesOf(v.dims, v.type) / SizeOf(copy.type);
    const Tensor y = NewTensor(v.name, v.dims, Layout::kPlain, v.type);
    LAGOON_ASSIGN_OR_RETURN(Kernel kernel, device_kernels().Unary(copy));
    program_.ops.push_back({"copy " + v.name, std::move(kernel), {All(tensor)}, {All(y)}, nullptr});
    tensor = y;
  }
  LoweredTensor placed{{v.name, v.type, v.dims}, tensor.buffer};
  if (const auto made = made_.find(value); made != made_.end()) placed.made = made->second;
  return placed;
}

Result<LoweredProgram> ProgramBuilder::Finish() && {
  for (const ValueId value : graph_.outputs) {
    LAGOON_ASSIGN_OR_RETURN(LoweredTensor output, PlaceOutput(value));
    program_.outputs.push_back(std::move(output));
  }
  return std::move(program_);
}

}  // namespace lagoon
