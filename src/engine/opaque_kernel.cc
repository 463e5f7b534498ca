#include "engine/opaque_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/time.h"

namespace lagoon {
namespace {

/// The beginning of the argument image; the pointers follow.
struct OpaqueArgs {
  OpaqueKernel* kernel = nullptr;
  std::uint64_t pointers = 0;
};

bool HasElements(const EngineTensor& tensor) { return ElementCount(tensor.dims) > 0; }

std::size_t CountWithElements(const std::vector<EngineTensor>& tensors) {
  return static_cast<std::size_t>(std::ranges::count_if(tensors, HasElements));
}

// For tensors without elements. Engines may refuse a null pointer.
alignas(64) std::byte no_elements[64];

}  // namespace

OpaqueKernel::OpaqueKernel(std::shared_ptr<EngineModel> model, std::vector<EngineTensor> inputs,
                           std::vector<EngineTensor> outputs, Words words)
    : model_(std::move(model)),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      words_(std::move(words)) {}

std::shared_ptr<const Error> OpaqueKernel::error() const {
  const MutexLock lock(mutex_);
  return error_;
}

std::uint32_t OpaqueKernel::OffsetOf(std::size_t pointer) const {
  return static_cast<std::uint32_t>(sizeof(OpaqueArgs) + pointer * sizeof(void*));
}

std::vector<std::byte> OpaqueKernel::Args() const {
  OpaqueArgs args;
  args.kernel = const_cast<OpaqueKernel*>(this);  // the body runs it
  args.pointers = CountWithElements(inputs_) + CountWithElements(outputs_) + 1;
  std::vector<std::byte> image(OffsetOf(args.pointers));
  std::memcpy(image.data(), &args, sizeof(args));
  return image;
}

bool OpaqueKernel::Block(const void* image, std::uint32_t /*block*/, BlockContext& context) {
  if (context.ShouldLeave()) return false;
  OpaqueArgs args;
  std::memcpy(&args, image, sizeof(args));
  OpaqueKernel& kernel = *args.kernel;
  const std::byte* next = static_cast<const std::byte*>(image) + sizeof(args);
  const auto take = [&next] {
    void* pointer = nullptr;
    std::memcpy(&pointer, next, sizeof(pointer));
    next += sizeof(pointer);
    return pointer;
  };
  std::vector<void*> inputs, outputs;
  for (const EngineTensor& input : kernel.inputs_) {
    inputs.push_back(HasElements(input) ? take() : nullptr);
  }
  for (const EngineTensor& output : kernel.outputs_) {
    outputs.push_back(HasElements(output) ? take() : nullptr);
  }
  const Status ran = kernel.Run(inputs, outputs);
  const std::int64_t status = ran ? 0 : 1;
  std::memcpy(take(), &status, sizeof(status));
  return true;
}

Status OpaqueKernel::Run(std::span<void* const> inputs, std::span<void* const> outputs) {
  const TimePoint begin = Now();
  std::vector<void*> pointers(inputs.begin(), inputs.end());
  pointers.insert(pointers.end(), outputs.begin(), outputs.end());
  Status ran;
  if (Result<Bound> bound = Take(std::move(pointers))) {
    ran = bound->binding->Run();
    PutBack(*std::move(bound));
  } else {
    ran = tl::unexpected(std::move(bound).error());
  }
  Observe(Now() - begin);
  if (ran) return {};
  Error error = std::move(ran).error();
  error.message = fmt::format("{}, which runs {}: {}", words_.engine->name(),
                              fmt::join(words_.ops, ", "), error.message);
  // Not the client's fault, as far as Lagoon can tell: shapes and types were checked.
  error.code = ErrorCode::kInternal;
  const MutexLock lock(mutex_);
  error_ = std::make_shared<const Error>(error);
  return tl::unexpected(std::move(error));
}

Result<OpaqueKernel::Bound> OpaqueKernel::Take(std::vector<void*> pointers) {
  {
    const MutexLock lock(mutex_);
    const auto known = std::ranges::find(idle_, pointers, &Bound::pointers);
    if (known != idle_.end()) {
      Bound bound = std::move(*known);
      idle_.erase(known);
      return bound;
    }
  }
  std::vector<EngineTensor> inputs = inputs_, outputs = outputs_;
  std::size_t next = 0;
  for (std::vector<EngineTensor>* tensors : {&inputs, &outputs}) {
    for (EngineTensor& tensor : *tensors) {
      tensor.data = pointers[next++];
      if (tensor.data == nullptr && ElementCount(tensor.dims) == 0) tensor.data = no_elements;
    }
  }
  LAGOON_ASSIGN_OR_RETURN(auto binding, model_->Bind(inputs, outputs));
  return Bound{std::move(pointers), std::move(binding)};
}

void OpaqueKernel::PutBack(Bound bound) {
  const MutexLock lock(mutex_);
  if (idle_.size() == kMostBound) idle_.erase(idle_.begin());
  idle_.push_back(std::move(bound));
}

void OpaqueKernel::Observe(Nanoseconds duration) {
  words_.engine->Observe(duration);
  std::int64_t longest = longest_ns_.load(std::memory_order_relaxed);
  while (longest < duration.count() &&
         !longest_ns_.compare_exchange_weak(longest, duration.count(), std::memory_order_relaxed)) {
  }
}

}  // namespace lagoon
