#include "graph/opaque/opaque.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/text.h"

namespace lagoon {
namespace {

/// Zeros for an input whose contents are not known, aligned as EngineTensor::data.
class ZeroMemory {
 public:
  explicit ZeroMemory(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(bytes + 1, kAlignment))) {
    std::memset(data_, 0, bytes + 1);
  }
  ZeroMemory(ZeroMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  ZeroMemory& operator=(ZeroMemory&&) = delete;
  ~ZeroMemory() { ::operator delete(data_, kAlignment); }
  void* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  std::byte* data_;
};

/// Longest run whose only purpose is to learn shapes.
constexpr std::chrono::seconds kMostOfOneRun{30};

/// Runs and stops the run after `limit`.
Status RunAtMost(EngineBinding& binding, std::chrono::seconds limit) {
  const std::jthread watch([&binding, limit](const std::stop_token& done) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, done, limit, [] { return false; });
    if (!done.stop_requested()) binding.Stop();
  });
  return binding.Run();
}

bool IsOpen(const Dims& dims) {
  return dims.empty() || std::ranges::any_of(dims, [](std::int64_t dim) { return dim < 0; });
}

Status CheckTensor(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.kind != ValueKind::kTensor) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{} is a sequence or an optional", Quoted(value.name)));
  }
  if (value.sizes != kNoValue) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("the shape of {} depends on data", Quoted(value.name)));
  }
  if (value.shape_known || value.constant) return {};
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("the shape of {} is not known", Quoted(value.name)));
}

/// The node alone. `outer_inputs`: gets the values that it reads and that are not constant.
Result<Graph> GraphOf(const Graph& graph, Node node, std::vector<ValueId>& outer_inputs) {
  Graph alone;
  alone.opset = graph.OpsetOf(node);
  std::unordered_map<ValueId, ValueId> inner;
  const auto add = [&](ValueId id) {
    const auto [known, is_new] = inner.try_emplace(id, static_cast<ValueId>(alone.values.size()));
    if (is_new) {
      const Value& from = graph.value(id);
      Value& value = alone.values.emplace_back();
      value.name = from.name;
      value.type = from.type;
      value.dims = from.dims;
      value.shape_known = from.shape_known;
      value.constant = from.constant;
    }
    return std::pair(known->second, is_new);
  };
  for (ValueId& input : node.inputs) {
    if (input == kNoValue) continue;
    LAGOON_RETURN_IF_ERROR(CheckTensor(graph, input));
    const ValueId outer = input;
    const auto [id, is_new] = add(outer);
    input = id;
    if (!is_new || alone.value(id).constant) continue;
    alone.inputs.push_back(id);
    outer_inputs.push_back(outer);
  }
  for (ValueId& output : node.outputs) {
    if (output == kNoValue) continue;
    output = add(output).first;
    alone.outputs.push_back(output);
  }
  alone.nodes.push_back(std::move(node));
  return alone;
}

Result<std::vector<EngineTensor>> InferOutputs(const OpaqueGraph& opaque) {
  LAGOON_ASSIGN_OR_RETURN(const std::string bytes, ToOnnx(opaque.graph, InputDims::kFixed));
  LAGOON_ASSIGN_OR_RETURN(const auto model,
                          opaque.engine->Load({{}, std::as_bytes(std::span(bytes))}));
  std::vector<EngineTensor> inputs;
  for (const ValueId id : opaque.graph.inputs) {
    const Value& value = opaque.graph.value(id);
    inputs.push_back({value.type, value.dims, nullptr});
  }
  return OutputsOf(*model, std::move(inputs));
}

}  // namespace

std::string OpName(const Node& node) {
  return node.domain.empty() ? node.op : node.domain + "." + node.op;
}

Result<std::vector<EngineTensor>> OutputsOf(EngineModel& model, std::vector<EngineTensor> inputs) {
  std::vector<EngineTensor> outputs;
  bool open = false;
  for (const TensorSpec& output : model.Describe().outputs) {
    outputs.push_back({output.type, output.dims, nullptr});
    open = open || IsOpen(output.dims);
  }
  if (!open) return outputs;
  std::vector<ZeroMemory> zeros;
  for (EngineTensor& input : inputs) {
    const auto bytes = static_cast<std::size_t>(ElementCount(input.dims)) * SizeOf(input.type);
    input.data = zeros.emplace_back(bytes).data();
  }
  LAGOON_ASSIGN_OR_RETURN(const auto binding, model.Bind(inputs, outputs));
  LAGOON_RETURN_IF_ERROR(RunAtMost(*binding, kMostOfOneRun));
  return binding->outputs();
}

Status AppendOpaque(Graph& graph, const Node& node, const Error& why) {
  auto opaque = std::make_shared<OpaqueGraph>();
  Node replaced;
  replaced.name = node.name;
  replaced.op = kOpaqueOp;
  LAGOON_ASSIGN_OR_RETURN(opaque->graph, GraphOf(graph, node, replaced.inputs));
  opaque->ops = {OpName(node)};
  opaque->why = why.message;
  opaque->engine = graph.engine;
  LAGOON_ASSIGN_OR_RETURN(const std::vector<EngineTensor> tensors, InferOutputs(*opaque));
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    const EngineTensor& tensor = tensors[replaced.outputs.size()];
    Value& value = graph.value(output);
    value.type = tensor.type;
    value.dims = tensor.dims;
    value.shape_known = true;
    value.constant.reset();
    value.kind = ValueKind::kTensor;
    replaced.outputs.push_back(output);
  }
  replaced.opaque = std::move(opaque);
  graph.nodes.push_back(std::move(replaced));
  return {};
}

}  // namespace lagoon
