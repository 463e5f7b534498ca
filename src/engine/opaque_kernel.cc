#include "engine/opaque_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/guard.h"
#include "base/time.h"
#include "plan/strings.h"

namespace lagoon {
namespace {

/// The beginning of the argument image; the pointers follow.
struct OpaqueArgs {
  OpaqueKernel* kernel = nullptr;
  std::uint64_t pointers = 0;
};

bool HasElements(const EngineTensor& tensor) { return ElementCount(tensor.dims) > 0; }
bool EngineMakesRoom(const EngineTensor& tensor) {
  return ElementCount(tensor.dims) < 0 || tensor.type == DataType::kString;
}

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
      words_(std::move(words)),
      makes_room_(std::ranges::any_of(outputs_, EngineMakesRoom)) {}

std::shared_ptr<const MadeTensor> OpaqueKernel::Take(const void* status, std::size_t output) const {
  const MutexLock lock(mutex_);
  const auto found = made_.find(status);
  if (found == made_.end()) return nullptr;
  std::shared_ptr<const MadeTensor> taken = std::move(found->second.at(output));
  const auto left = [](const auto& made) { return made != nullptr; };
  if (std::ranges::none_of(found->second, left)) made_.erase(found);
  return taken;
}

void OpaqueKernel::TakeStrings(const void* status,
                               std::vector<std::shared_ptr<const MadeTensor>>& to) const {
  for (const std::uint32_t output : words_.strings) {
    if (auto taken = Take(status, output)) to.push_back(std::move(taken));
  }
}

std::shared_ptr<const Error> OpaqueKernel::TakeError(const void* status) const {
  const MutexLock lock(mutex_);
  const auto found = errors_.find(status);
  if (found == errors_.end()) return no_memory_;
  std::shared_ptr<const Error> taken = std::move(found->second);
  errors_.erase(found);
  return taken;
}

/// That of an earlier run, which was not taken.
void OpaqueKernel::ForgetError(const void* status) const {
  const MutexLock lock(mutex_);
  errors_.erase(status);
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
  void* place = nullptr;  // of the status: the last pointer
  std::memcpy(&place, static_cast<const std::byte*>(image) + kernel.OffsetOf(args.pointers - 1),
              sizeof(place));
  kernel.ForgetError(place);
  const Status ran = WithoutExceptions([&] {
    std::vector<void*> inputs, outputs;
    for (const EngineTensor& input : kernel.inputs_) {
      inputs.push_back(HasElements(input) ? take() : nullptr);
    }
    for (const EngineTensor& output : kernel.outputs_) {
      outputs.push_back(HasElements(output) ? take() : nullptr);
    }
    return kernel.Run(inputs, outputs, place);
  });
  const std::int64_t status = ran ? 0 : 1;
  std::memcpy(place, &status, sizeof(status));
  return true;
}

Status OpaqueKernel::Run(std::span<void* const> inputs, std::span<void* const> outputs,
                         const void* status) {
  const TimePoint begin = Now();
  std::vector<void*> pointers(inputs.begin(), inputs.end());
  pointers.insert(pointers.end(), outputs.begin(), outputs.end());
  Status ran = WithoutExceptions([&] { return RunBound(std::move(pointers), status); });
  if (!ran && assumed() && ShapesDiffer(inputs)) {
    words_.engine->AddUnsized(words_.assumed);
    outdated_.store(true, std::memory_order_release);
  }
  Observe(Now() - begin);
  if (ran) return {};
  Error error = std::move(ran).error();
  error.message = fmt::format("{}, which runs {}: {}", words_.engine->name(),
                              fmt::join(words_.ops, ", "), error.message);
  // Not the client's fault, as far as Lagoon can tell: shapes and types were checked.
  if (error.code != ErrorCode::kResourceExhausted) error.code = ErrorCode::kInternal;
  const MutexLock lock(mutex_);
  errors_[status] = std::make_shared<const Error>(error);
  return tl::unexpected(std::move(error));
}

Status OpaqueKernel::RunBound(std::vector<void*> pointers, const void* status) {
  LAGOON_ASSIGN_OR_RETURN(Bound bound, FindOrBind(std::move(pointers)));
  Status ran = bound.binding->Run();
  if (!makes_room_) {
    PutBack(std::move(bound));
  } else if (ran && words_.made.size() + words_.strings.size() > 0) {
    ran = Keep(status, bound);
  }
  return ran;
}

/// Whether a run with room by the engine makes other shapes than the plan has.
bool OpaqueKernel::ShapesDiffer(std::span<void* const> inputs) const {
  std::vector<void*> pointers(inputs.begin(), inputs.end());
  std::vector<EngineTensor> outputs = outputs_;
  for (EngineTensor& output : outputs) output.dims = {-1};
  pointers.resize(inputs_.size() + outputs.size(), nullptr);
  const OpaqueKernel open(model_, inputs_, std::move(outputs), words_);
  const auto binding = open.Bind(pointers);
  if (!binding || !(*binding)->Run()) return false;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (ElementCount(outputs_[i].dims) < 0) continue;
    if ((*binding)->outputs()[i].dims != outputs_[i].dims) return true;
  }
  return false;
}

namespace {

/// A copy of the output, and of the strings in it.
std::shared_ptr<const MadeTensor> CopyOf(const EngineTensor& from) {
  const auto elements = static_cast<std::size_t>(ElementCount(from.dims));
  const std::size_t bytes = elements * SizeOf(from.type);
  const auto* const begin = static_cast<const std::byte*>(from.data);
  auto tensor = std::make_shared<MadeTensor>(MadeTensor{from.type, from.dims, {}, {}});
  if (bytes > 0) tensor->bytes.assign(begin, begin + bytes);
  if (from.type != DataType::kString) return tensor;
  std::size_t size = 1;  // an empty string has a place too
  for (std::size_t i = 0; i < elements; ++i) size += StringAt(begin, i).text().size();
  tensor->text.reserve(size);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::string_view text = StringAt(begin, i).text();
    const StringElement element{tensor->text.data() + tensor->text.size(), text.size()};
    tensor->text.insert(tensor->text.end(), text.begin(), text.end());
    std::memcpy(tensor->bytes.data() + i * sizeof(element), &element, sizeof(element));
  }
  return tensor;
}

}  // namespace

/// Keeps what is to be taken, and writes the strings of known shapes to their places.
Status OpaqueKernel::Keep(const void* status, const Bound& bound) {
  Made made(outputs_.size());
  const std::vector<EngineTensor>& outputs = bound.binding->outputs();
  for (const std::uint32_t i : words_.made) made[i] = CopyOf(outputs[i]);
  for (const std::uint32_t i : words_.strings) {
    const EngineTensor &from = outputs[i], &expected = outputs_[i];
    if (from.type != expected.type || from.dims != expected.dims) {
      return Fail(
          ErrorCode::kInternal,
          fmt::format("an output is {} {}, expected was {} {}", OipName(from.type),
                      ToString(from.dims), OipName(expected.type), ToString(expected.dims)));
    }
    made[i] = CopyOf(from);
    void* const place = bound.pointers[inputs_.size() + i];
    if (place != nullptr) std::memcpy(place, made[i]->bytes.data(), made[i]->bytes.size());
  }
  const MutexLock lock(mutex_);
  made_[status] = std::move(made);
  return {};
}

Result<OpaqueKernel::Bound> OpaqueKernel::FindOrBind(std::vector<void*> pointers) {
  {
    const MutexLock lock(mutex_);
    const auto known = std::ranges::find(idle_, pointers, &Bound::pointers);
    if (known != idle_.end()) {
      Bound bound = std::move(*known);
      idle_.erase(known);
      return bound;
    }
  }
  LAGOON_ASSIGN_OR_RETURN(auto binding, Bind(pointers));
  return Bound{std::move(pointers), std::move(binding)};
}

Result<std::unique_ptr<EngineBinding>> OpaqueKernel::Bind(std::span<void* const> pointers) const {
  std::vector<EngineTensor> inputs = inputs_, outputs = outputs_;
  std::size_t next = 0;
  for (std::vector<EngineTensor>* tensors : {&inputs, &outputs}) {
    for (EngineTensor& tensor : *tensors) {
      tensor.data = pointers[next++];
      if (tensors == &outputs && tensor.type == DataType::kString) {
        tensor.data = nullptr;
        continue;
      }
      if (tensor.data == nullptr && ElementCount(tensor.dims) == 0) tensor.data = no_elements;
    }
  }
  return model_->Bind(inputs, outputs);
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
