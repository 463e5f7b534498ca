#include "plan/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace lagoon {
namespace {

// An arena that grows gets up to an eighth more than needed, so that a slightly larger plan needs
// no other one.
std::size_t RoundedUp(std::size_t bytes) {
  const std::size_t step = std::max<std::size_t>(std::bit_floor(bytes) / 8, 1);
  return (bytes + step - 1) / step * step;
}

void Write(DeviceControl& device, const Buffer& memory) {
  if (device.info().memory_on_host && memory.size() > 0) {
    std::memset(memory.data(), 0, memory.size());
  }
}

}  // namespace

std::unique_ptr<Instance> Instance::Create(DeviceControl& device) {
  std::unique_ptr<Instance> instance(new Instance);
  instance->device_ = &device;
  return instance;
}

Result<std::unique_ptr<Instance>> Instance::Create(std::shared_ptr<const LoadedPlan> loaded,
                                                   DeviceControl& device) {
  std::unique_ptr<Instance> instance = Create(device);
  LAGOON_ASSIGN_OR_RETURN(instance->first_, instance->Bind(std::move(loaded)));
  instance->Select(*instance->first_);
  return instance;
}

std::unique_ptr<Instance> Instance::CreateOver(std::byte* arena,
                                               std::shared_ptr<const LoadedPlan> loaded) {
  std::unique_ptr<Instance> instance(new Instance);
  LAGOON_CHECK(arena != nullptr || loaded->plan.arena_bytes == 0);
  instance->present_ = {arena, loaded->plan.arena_bytes};
  {
    const MutexLock lock(instance->bind_mutex_);
    instance->largest_ = instance->present_;
  }
  Result<std::unique_ptr<PlanBinding>> first = instance->Bind(std::move(loaded));
  LAGOON_CHECK(first.has_value());  // the arena suffices
  instance->first_ = *std::move(first);
  instance->Select(*instance->first_);
  return instance;
}

Instance::~Instance() {
  delete waiting_.load();
  for (Arena* former = former_.load(); former != nullptr;) {
    const std::unique_ptr<Arena> freed(former);
    former = freed->next;
  }
}

// ---- The side that binds

Result<std::unique_ptr<PlanBinding>> Instance::Bind(std::shared_ptr<const LoadedPlan> loaded,
                                                    Buffer memory) {
  std::unique_ptr<PlanBinding> binding(new PlanBinding(*this, std::move(loaded)));
  const std::size_t bytes = binding->plan().arena_bytes;
  const MutexLock lock(bind_mutex_);
  FreeUnusedLocked();
  if (bytes > largest_.bytes) {
    if (memory.size() < bytes) {
      LAGOON_ASSIGN_OR_RETURN(memory, Allocate(bytes));
    }
    Offer(std::move(memory));
  }
  if (bytes > replaced_.bytes) binding->claim_ = claim_;
  // A guess: Select() corrects the pointers if the present arena is another one by then.
  binding->PointTo(largest_.base);
  return binding;
}

Result<Buffer> Instance::AllocateFor(const Plan& plan) {
  const MutexLock lock(bind_mutex_);
  FreeUnusedLocked();
  if (plan.arena_bytes <= largest_.bytes) return Buffer();
  return Allocate(plan.arena_bytes);
}

Result<Buffer> Instance::Allocate(std::size_t bytes) {
  if (device_ == nullptr) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the plan needs an arena of {} bytes; the instance has one of {} bytes "
                            "that cannot grow",
                            bytes, largest_.bytes));
  }
  const std::size_t rounded = largest_.bytes == 0 ? bytes : RoundedUp(bytes);
  Result<Buffer> memory = device_->Allocate(rounded, MemoryKind::kDevice);
  if (!memory && rounded > bytes) memory = device_->Allocate(bytes, MemoryKind::kDevice);
  if (memory) Write(*device_, *memory);  // the system provides the memory here, not during a job
  return memory;
}

// Lets the arena wait until Select() takes it.
void Instance::Offer(Buffer memory) {
  auto arena = std::make_unique<Arena>(Arena{std::move(memory)});
  const Place larger{arena->memory.data(), arena->memory.size()};
  // acq_rel: the side that takes the arena sees its fields.
  const std::unique_ptr<Arena> unneeded(
      waiting_.exchange(arena.release(), std::memory_order_acq_rel));
  if (unneeded == nullptr) {  // no arena waited: `largest_` is the present one
    replaced_ = largest_;
    claim_ = std::make_shared<const int>();
  }
  largest_ = larger;
}

void Instance::FreeUnused() {
  const MutexLock lock(bind_mutex_);
  FreeUnusedLocked();
}

void Instance::FreeUnusedLocked() {
  // acquire: pairs with the push in TakeLargerArena().
  for (Arena* former = former_.exchange(nullptr, std::memory_order_acquire); former != nullptr;) {
    const std::unique_ptr<Arena> freed(former);
    former = freed->next;
  }
  // Claims are copied only under the mutex. Without other claims, all bindings that are left fit
  // into the present arena, so that no Select() needs the one that waits.
  if (claim_ == nullptr || claim_.use_count() > 1) return;
  const std::unique_ptr<Arena> unneeded(waiting_.exchange(nullptr, std::memory_order_acq_rel));
  if (unneeded != nullptr) largest_ = replaced_;  // else Select() has taken it
  claim_ = nullptr;
}

// ---- The side that runs jobs

void Instance::Select(PlanBinding& binding) {
  LAGOON_CHECK(binding.instance_ == this);
  const std::size_t bytes = binding.plan().arena_bytes;
  if (bytes > present_.bytes) TakeLargerArena(bytes);
  if (binding.arena_ != present_.base) binding.PointTo(present_.base);
  binding_ = &binding;
}

// Bind() made sure that there is an arena of `bytes`. If it is not the present one, it waits, or a
// still larger one does.
void Instance::TakeLargerArena(std::size_t bytes) {
  std::unique_ptr<Arena> larger(waiting_.exchange(nullptr, std::memory_order_acq_rel));
  LAGOON_CHECK(larger != nullptr && larger->memory.size() >= bytes);
  present_ = {larger->memory.data(), larger->memory.size()};
  arena_.swap(larger);
  if (larger == nullptr) return;
  Arena* const replaced = larger.release();  // freed by the other side
  replaced->next = former_.load(std::memory_order_relaxed);
  // release: the thread that frees the arena sees `next`, and comes after all that used the arena.
  while (!former_.compare_exchange_weak(replaced->next, replaced, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
}

Copy Instance::InputCopy(std::size_t input, const void* host) {
  const PlanTensor& tensor = plan().inputs[input];
  Copy copy;
  copy.to = arena(tensor.range);
  copy.from = host;
  copy.bytes = tensor.spec.bytes();
  copy.past_caches = binding_->past_caches_;
  copy.progress = binding_->progress_[plan().ops.size() + input];
  return copy;
}

Copy Instance::OutputCopy(std::size_t output, void* host) {
  const PlanTensor& tensor = plan().outputs[output];
  Copy copy;
  copy.to = host;
  copy.from = arena(tensor.range);
  copy.bytes = tensor.spec.bytes();
  copy.past_caches = binding_->past_caches_;
  copy.progress = binding_->progress_[plan().ops.size() + plan().inputs.size() + output];
  copy.deps = binding_->outputs_[output];
  return copy;
}

std::shared_ptr<const Error> Instance::Failure() const {
  for (const std::uint32_t index : plan().opaque) {
    const PlanOp& op = plan().ops[index];
    std::int64_t status = 0;
    std::memcpy(&status, present_.base + op.status, sizeof(status));
    if (status == 0) continue;
    std::shared_ptr<const Error> error = op.opaque->TakeError(present_.base + op.status);
    if (error != nullptr) return error;
    return std::make_shared<const Error>(Error{ErrorCode::kInternal, op.name + " failed"});
  }
  return nullptr;
}

std::vector<std::shared_ptr<const MadeTensor>> Instance::TakeMade() const {
  std::vector<std::shared_ptr<const MadeTensor>> strings;
  for (const std::uint32_t index : plan().opaque) {
    const PlanOp& op = plan().ops[index];
    op.opaque->TakeStrings(present_.base + op.status, strings);
  }
  std::vector<std::shared_ptr<const MadeTensor>> made;
  if (!plan().makes_outputs && strings.empty()) return made;
  for (const PlanTensor& output : plan().outputs) {
    made.emplace_back();
    if (!output.made) continue;
    const PlanOp& op = plan().ops[output.made->op];
    made.back() = op.opaque->Take(present_.base + op.status, output.made->output);
  }
  made.insert(made.end(), strings.begin(), strings.end());
  return made;
}

void Instance::Touch() {
  if (arena_ != nullptr) Write(*device_, arena_->memory);
}

void Instance::UseVersion(std::size_t index, std::uint32_t version) {
  LAGOON_CHECK(version < plan().ops[index].versions.size() && progress(index).done() == 0);
  if (binding_->ops_[index].version == version) return;
  std::vector<std::size_t>& recut = binding_->recut_;
  if (std::ranges::find(recut, index) == recut.end()) recut.push_back(index);
  binding_->Recut(index, version);
}

void Instance::Reset() { binding_->Reset(); }

}  // namespace lagoon
