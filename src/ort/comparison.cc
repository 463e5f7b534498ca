#include "ort/comparison.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "local/run.h"
#include "ort/api.h"
#include "ort/graph_to_model.h"
#include "ort/tensor_types.h"

namespace lagoon::plugin {
namespace {

/// An object of ONNX Runtime that R releases.
template <typename T, typename R>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (object_ != nullptr) TheApi().table().Call<R>(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T** place() { return &object_; }
  T* get() const { return object_; }

 private:
  T* object_ = nullptr;
};

/// Made-up inputs: small numbers of both signs, and zeros where numbers are places or sizes.
class Inputs {
 public:
  Inputs(const std::vector<DeclaredTensor>& declared, const std::vector<Dims>& dims) : dims_(dims) {
    for (std::size_t i = 0; i < declared.size(); ++i) {
      types_.push_back(declared[i].type);
      const auto count = static_cast<std::size_t>(ElementCount(dims[i]));
      bytes_.emplace_back(count * SizeOf(declared[i].type) / sizeof(std::max_align_t) + 1);
      if (declared[i].type != DataType::kFloat32) continue;
      auto* const numbers = reinterpret_cast<float*>(bytes_.back().data());
      for (std::size_t n = 0; n < count; ++n) {
        numbers[n] = static_cast<float>(n * 2654435761u % 2001) / 1000 - 1;
      }
    }
  }
  std::size_t size() const { return dims_.size(); }
  RunTensor operator[](std::size_t i) {
    const auto count = static_cast<std::size_t>(ElementCount(dims_[i]));
    return {types_[i], dims_[i], bytes_[i].data(), count * SizeOf(types_[i])};
  }

 private:
  const std::vector<Dims>& dims_;
  std::vector<DataType> types_;
  std::vector<std::vector<std::max_align_t>> bytes_;
};

/// A session of ONNX Runtime itself.
class OtherSession {
 public:
  OtherSession(const ConvertedGraph& model, Inputs& inputs) {
    const Api& api = TheApi();
    api.Do<CreateEnv>(int{kError}, "lagoon", env_.place());
    Owned<SessionOptions, ReleaseOptions> options;
    api.Do<CreateOptions>(options.place());
    api.Do<SetIntraThreads>(options.get(), 1);
    api.Do<CreateSession>(static_cast<const Env*>(env_.get()),
                          static_cast<const void*>(model.bytes.data()), model.bytes.size(),
                          static_cast<const SessionOptions*>(options.get()), session_.place());
    constexpr int kDeviceAllocator = 0, kDefaultMemory = 0;
    api.Do<CpuMemory>(kDeviceAllocator, kDefaultMemory, memory_.place());
    for (const std::string& name : model.inputs) input_names_.push_back(name.c_str());
    for (const std::string& name : model.outputs) output_names_.push_back(name.c_str());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const RunTensor tensor = inputs[i];
      auto value = std::make_unique<Owned<Value, ReleaseValue>>();
      api.Do<CreateTensor>(static_cast<const MemoryInfo*>(memory_.get()), tensor.data, tensor.bytes,
                           tensor.dims.data(), tensor.dims.size(), ElementOfType(tensor.type),
                           value->place());
      values_.push_back(value->get());
      owned_.push_back(std::move(value));
    }
  }
  void Run() {
    std::vector<Value*> outputs(output_names_.size());
    AbiStatus* const status = TheApi().table().Call<RunSession>(
        session_.get(), static_cast<const RunOptions*>(nullptr), input_names_.data(),
        values_.data(), values_.size(), output_names_.data(), output_names_.size(), outputs.data());
    for (Value* output : outputs) {
      if (output != nullptr) TheApi().table().Call<ReleaseValue>(output);
    }
    TheApi().Check(status);
  }

 private:
  Owned<Env, ReleaseEnv> env_;
  Owned<MemoryInfo, ReleaseMemory> memory_;
  Owned<Session, ReleaseSession> session_;
  std::vector<const char*> input_names_, output_names_;
  std::vector<std::unique_ptr<Owned<Value, ReleaseValue>>> owned_;
  std::vector<const Value*> values_;
};

Nanoseconds Median(std::vector<Nanoseconds> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

std::optional<Comparison> Compare(const Graph* graph, const std::vector<Dims>& dims,
                                  LocalModelOptions options, LocalDevice& device) try {
  const ConvertedGraph converted = ConvertGraph(graph, nullptr);
  const int runs = std::exchange(options.profile_runs, 0);
  options.name = "comparison";
  ModelBytes bytes;
  bytes.bytes = std::as_bytes(std::span(converted.bytes));
  const auto model = LocalModel::LoadBytes(device, bytes, std::move(options));
  if (!model || (*model)->inputs().size() != dims.size()) return std::nullopt;
  Inputs inputs((*model)->inputs(), dims);
  Run own(**model);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (own.SetInput(i, inputs[i]) != RunCode::kOk) return std::nullopt;
  }
  OtherSession other(converted, inputs);
  std::vector<Nanoseconds> ours, theirs;
  for (int i = -1; i < runs; ++i) {  // the first one is for both to warm up
    const TimePoint begin = Now();
    if (own.Sync(kNoDeadline) != RunCode::kOk) return std::nullopt;
    const TimePoint middle = Now();
    other.Run();
    const TimePoint end = Now();
    if (i < 0) continue;
    ours.push_back(middle - begin);
    theirs.push_back(end - middle);
  }
  return Comparison{Median(std::move(ours)), Median(std::move(theirs))};
} catch (const Failed&) {
  return std::nullopt;
}

}  // namespace lagoon::plugin
