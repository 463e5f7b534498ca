#include "engine/engine_outputs.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "base/time.h"
#include "plan/strings.h"

namespace lagoon {
namespace {

/// Made-up contents of an input, aligned as EngineTensor::data.
class MadeUp {
 public:
  explicit MadeUp(std::size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(bytes + 1, kAlignment))) {
    std::memset(data_, 0, bytes + 1);
  }
  MadeUp(MadeUp&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  MadeUp& operator=(MadeUp&&) = delete;
  ~MadeUp() { ::operator delete(data_, kAlignment); }
  std::byte* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  std::byte* data_;
};

/// The number 1 in the type, little-endian.
std::uint64_t One(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return 0x3f800000;
    case DataType::kFloat64:
      return 0x3ff0000000000000;
    case DataType::kFloat16:
      return 0x3c00;
    case DataType::kBFloat16:
      return 0x3f80;
    default:
      return 1;
  }
}

/// Writes ones.
void Fill(DataType type, std::size_t count, std::byte* data) {
  static constexpr StringElement kOne{"1", 1};
  const std::uint64_t one = One(type);
  const void* const from = type == DataType::kString ? static_cast<const void*>(&kOne) : &one;
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(data + i * SizeOf(type), from, SizeOf(type));
  }
}

/// Longest run whose only purpose is to learn shapes.
constexpr std::chrono::seconds kMostOfOneRun{30};
/// After a longer run on zeros there is none on ones.
constexpr std::chrono::seconds kShortRun{1};

/// Runs and stops the run after `limit`.
Status RunAtMost(EngineBinding& binding, std::chrono::seconds limit) {
  const std::jthread watch([&binding, limit](const std::stop_token& done) {
    NameThisThread("lagoon-limit");
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

/// The outputs of a run in which all inputs are zeros or ones.
Result<std::vector<EngineTensor>> TryRun(EngineModel& model, std::vector<EngineTensor> inputs,
                                         std::span<const EngineTensor> outputs, bool ones) {
  std::vector<MadeUp> contents;
  for (EngineTensor& input : inputs) {
    const auto count = static_cast<std::size_t>(ElementCount(input.dims));
    std::byte* const data = contents.emplace_back(count * SizeOf(input.type)).data();
    if (ones) Fill(input.type, count, data);
    input.data = data;
  }
  LAGOON_ASSIGN_OR_RETURN(const auto binding, model.Bind(inputs, outputs));
  LAGOON_RETURN_IF_ERROR(RunAtMost(*binding, kMostOfOneRun));
  std::vector<EngineTensor> made = binding->outputs();
  for (EngineTensor& tensor : made) tensor.data = nullptr;
  return made;
}

}  // namespace

Result<EngineOutputs> OutputsOf(EngineModel& model, std::vector<EngineTensor> inputs,
                                Assume assume) {
  EngineOutputs outputs;
  for (const TensorSpec& output : model.Describe().outputs) {
    outputs.tensors.push_back({output.type, output.dims, nullptr});
    outputs.unsized.push_back(IsOpen(output.dims));
  }
  const std::vector<bool> open = outputs.unsized;
  if (std::ranges::find(open, true) == open.end()) return outputs;
  std::vector<EngineTensor> first, second;
  if (assume == Assume::kAllowed) {
    const TimePoint begin = Now();
    LAGOON_ASSIGN_OR_RETURN(first, TryRun(model, inputs, outputs.tensors, /*ones=*/false));
    second = first;
    if (Now() - begin <= kShortRun) {
      auto ones = TryRun(model, std::move(inputs), outputs.tensors, /*ones=*/true);
      if (ones) second = *std::move(ones);
    }
  }
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (!open[i]) continue;
    outputs.unsized[i] = first.empty() || first[i].dims != second[i].dims;
    outputs.assumed = outputs.assumed || !outputs.unsized[i];
    if (outputs.unsized[i]) {
      outputs.tensors[i].dims = {0};
    } else {
      outputs.tensors[i] = first[i];
    }
  }
  return outputs;
}

}  // namespace lagoon
