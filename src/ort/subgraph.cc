#include "ort/subgraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>

#include "ort/api.h"
#include "ort/host.h"
#include "ort/tensor_types.h"

namespace lagoon::plugin {
namespace {

class Tagged;

/// The runs under way that have a tag. Never destroyed.
struct TaggedRuns {
  Mutex mutex;
  std::multimap<std::string, Tagged*> runs GUARDED_BY(mutex);
};
TaggedRuns& TheTaggedRuns() {
  static TaggedRuns& tagged = *new TaggedRuns;
  return tagged;
}

/// The run can be cancelled by its tag while this lives, also before it begins.
class Tagged {
 public:
  Tagged(const std::string& tag, Run& run) : tag_(tag), run_(run) {
    if (tag.empty()) return;
    TaggedRuns& tagged = TheTaggedRuns();
    const MutexLock lock(tagged.mutex);
    tagged.runs.emplace(tag, this);
  }
  ~Tagged() {
    if (tag_.empty()) return;
    TaggedRuns& tagged = TheTaggedRuns();
    const MutexLock lock(tagged.mutex);
    const auto [first, last] = tagged.runs.equal_range(tag_);
    const auto own = std::find_if(first, last, [&](const auto& at) { return at.second == this; });
    if (own != last) tagged.runs.erase(own);
  }
  Tagged(const Tagged&) = delete;
  Tagged& operator=(const Tagged&) = delete;

  /// Any thread.
  void Cancel() {
    cancelled_.store(true);
    run_.Cancel();
  }
  const std::atomic<bool>& cancelled() const { return cancelled_; }

 private:
  const std::string& tag_;
  Run& run_;
  std::atomic<bool> cancelled_ = false;
};

std::size_t PlaceOf(const std::vector<const ValueInfo*>& values, const std::string& name) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == nullptr) continue;
    if (name == TheApi().Get<ValueInfoName, const char*>(values[i])) return i;
  }
  throw Failed{kFail, fmt::format("lagoon: the fused node has no '{}'", name)};
}

/// Most dims of a tensor that Compute reads without allocation.
constexpr std::size_t kMostDims = 16;

struct InputTensor {
  std::array<std::int64_t, kMostDims> dims;
  std::size_t rank = 0;
  RunTensor tensor;
};

void Align(RunTensor& tensor, AlignedCopies& copies) {
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % SizeOf(tensor.type) == 0) return;
  copies.emplace_back(tensor.bytes / sizeof(std::max_align_t) + 1);
  std::memcpy(copies.back().data(), tensor.data, tensor.bytes);
  tensor.data = copies.back().data();
}

void ReadInput(const Value* value, InputTensor& to) {
  const Api& api = TheApi();
  TensorInfo* owned = api.Get<GetTypeAndShape, TensorInfo*>(value);
  const std::unique_ptr<TensorInfo, void (*)(TensorInfo*)> release(
      owned, [](TensorInfo* info) { TheApi().table().Call<ReleaseTensorInfo>(info); });
  const TensorInfo* info = owned;
  to.rank = api.Get<GetDimCount, std::size_t>(info);
  if (to.rank > kMostDims) {
    throw Failed{kInvalidArgument, fmt::format("lagoon: a tensor has {} dims, at most {} are taken",
                                               to.rank, kMostDims)};
  }
  if (to.rank > 0) api.Do<GetDims>(info, to.dims.data(), to.rank);
  const int element = api.Get<GetElementType, int>(info);
  const std::optional<DataType> type = TypeOfElement(element);
  if (!type) {
    throw Failed{kInvalidArgument, fmt::format("lagoon: a tensor has element type {}", element)};
  }
  to.tensor.type = *type;
  to.tensor.dims = {to.dims.data(), to.rank};
  to.tensor.bytes = api.Get<TensorBytes, std::size_t>(value);
  to.tensor.data = const_cast<void*>(api.Get<TensorData, const void*>(value));
}

}  // namespace

/// A run of the pool for one Compute().
class Subgraph::Lent {
 public:
  explicit Lent(Subgraph& from) : from_(from) {
    {
      const MutexLock lock(from.mutex_);
      if (!from.idle_.empty()) {
        run_ = std::move(from.idle_.back());
        from.idle_.pop_back();
      }
    }
    if (run_ == nullptr) run_ = std::make_unique<Run>(from.model());
    const MutexLock lock(from.mutex_);
    from.idle_.reserve(from.idle_.size() + from.lent_ + 1);  // so that giving back never allocates
    ++from.lent_;
  }
  ~Lent() {
    const MutexLock lock(from_.mutex_);
    --from_.lent_;
    from_.idle_.push_back(std::move(run_));
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  Run& run() { return *run_; }

 private:
  Subgraph& from_;
  std::unique_ptr<Run> run_;
};

Subgraph::Subgraph(LocalDevice& device, const ConvertedGraph& graph, const Node* fused,
                   LocalModelOptions options, const std::shared_ptr<BorrowedWeights>& weights) {
  const Api& api = TheApi();
  const auto inputs = api.All<NodeInputCount, NodeInputs, ValueInfo>(fused);
  const auto outputs = api.All<NodeOutputCount, NodeOutputs, ValueInfo>(fused);
  for (const std::string& name : graph.inputs) inputs_.push_back(PlaceOf(inputs, name));
  for (const std::string& name : graph.outputs) outputs_.push_back(PlaceOf(outputs, name));
  ModelBytes model;
  model.bytes = std::as_bytes(std::span(graph.bytes));
  model.weights = weights;
  auto loaded = LocalModel::LoadBytes(device, model, std::move(options));
  if (!loaded) throw AsFailed(loaded.error());
  model_ = std::move(*loaded);
  if (!model_->MayReadWeights()) {
    weights->Forget();
  } else if (const Status kept = weights->Keep(); !kept) {
    throw AsFailed(kept.error());
  }
  EndBeforeNewStatics();
  if (model_->inputs().size() != inputs_.size()) {
    throw Failed{kFail, fmt::format("lagoon: model '{}' has {} inputs, its graph {}",
                                    model_->name(), model_->inputs().size(), inputs_.size())};
  }
}

Subgraph::~Subgraph() {
  const MutexLock lock(mutex_);
  idle_.clear();  // runs go before their model
}

void Subgraph::Throw(const Run& run, RunCode code) const {
  std::string text = run.message();  // names the model
  if (text.empty()) text = fmt::format("model '{}'", model_->name());
  throw Failed{code == RunCode::kInvalidArgument ? kInvalidArgument : kFail,
               fmt::format("lagoon: {}: {}", Name(code), text)};
}

void Subgraph::Bind(Run& run, KernelContext* context, AlignedCopies& copies) {
  const Api& api = TheApi();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    InputTensor input;
    ReadInput(
        api.Get<KernelInput, const Value*>(static_cast<const KernelContext*>(context), inputs_[i]),
        input);
    Align(input.tensor, copies);
    if (const RunCode code = run.SetInput(i, input.tensor); code != RunCode::kOk) Throw(run, code);
  }
  if (const RunCode code = run.Prepare(); code != RunCode::kOk) Throw(run, code);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    RunTensor output;
    output.type = run.OutputType(i);
    if (run.dims_known(i)) {
      output.dims = run.OutputDims(i);
      Value* value = api.Get<KernelOutput, Value*>(context, outputs_[i], output.dims.data(),
                                                   output.dims.size());
      output.data = api.Get<GetTensorMutable, void*>(value);
      output.bytes = api.Get<TensorBytes, std::size_t>(static_cast<const Value*>(value));
    }
    if (const RunCode code = run.SetOutput(i, output); code != RunCode::kOk) Throw(run, code);
  }
}

void Subgraph::Take(Run& run, KernelContext* context) {
  const Api& api = TheApi();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (run.dims_known(i)) continue;
    const std::span<const std::int64_t> dims = run.OutputDims(i);
    Value* value = api.Get<KernelOutput, Value*>(context, outputs_[i], dims.data(), dims.size());
    const auto bytes = api.Get<TensorBytes, std::size_t>(static_cast<const Value*>(value));
    if (bytes != run.OutputBytes(i)) {
      throw Failed{kFail, fmt::format("lagoon: output {} of model '{}' has {} bytes, ONNX Runtime "
                                      "has room for {}",
                                      i, model_->name(), run.OutputBytes(i), bytes)};
    }
    if (bytes > 0) std::memcpy(api.Get<GetTensorMutable, void*>(value), run.OutputData(i), bytes);
  }
}

void Subgraph::Compute(KernelContext* context, const RunOrder& order) {
  const InsideRun counted;
  if (const Status may = counted.Check(); !may) throw AsFailed(may.error());
  AlignedCopies copies;
  Lent lent(*this);
  Run& run = lent.run();
  Tagged tagged(order.tag, run);
  run.SetClass(order.job_class);
  Bind(run, context, copies);
  if (const RunCode code = run.Sync(order.due, &tagged.cancelled()); code != RunCode::kOk)
    Throw(run, code);
  Take(run, context);
}

void CancelRuns(const std::string& tag) {
  TaggedRuns& tagged = TheTaggedRuns();
  const MutexLock lock(tagged.mutex);
  const auto [first, last] = tagged.runs.equal_range(tag);
  for (auto at = first; at != last; ++at) at->second->Cancel();
}

}  // namespace lagoon::plugin
