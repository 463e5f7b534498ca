#include "capi/handles.h"

#include <algorithm>
#include <cstring>

#include "base/thread.h"

namespace lagoon::capi {

bool Gate::Enter() {
  if ((word_.fetch_add(1, std::memory_order_acq_rel) & kClosed) == 0) return true;
  Leave();
  return false;
}

void Gate::Leave() {
  const std::atomic<std::uint32_t>* const word = &word_;
  if ((word_.fetch_sub(1, std::memory_order_acq_rel) & kClosed) != 0) WakeWord(word);
}

void Gate::AwaitEmpty(TimePoint until) const {
  while (true) {
    const std::uint32_t word = word_.load(std::memory_order_acquire);
    if (word == kClosed || (until != kNoDeadline && Now() >= until)) return;
    WaitOnWord(word_, word, until);
  }
}

void KeptDevice::Close(TimePoint until) {
  closed.store(true);
  const std::vector<std::shared_ptr<KeptModel>> models = Models();
  for (const auto& model : models) {
    model->gate.Close();
    model->CancelAll();
  }
  for (const auto& model : models) model->gate.AwaitEmpty(until);
}

void KeptDevice::Add(KeptModel& model) {
  const MutexLock lock(mutex_);
  models_.emplace_back(&model, model.weak_from_this());
  if (closed.load()) model.gate.Close();
}

void KeptDevice::Remove(KeptModel& model) {
  const MutexLock lock(mutex_);
  std::erase_if(models_, [&](const auto& one) { return one.first == &model; });
}

std::vector<std::shared_ptr<KeptModel>> KeptDevice::Models() {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<KeptModel>> models;
  for (const auto& [address, model] : models_) {
    if (auto held = model.lock()) models.push_back(std::move(held));
  }
  return models;
}

void KeptModel::CancelAll() {
  const MutexLock lock(mutex_);
  for (lagoon_run* const run : runs_) run->run->Cancel();
}

void KeptModel::Add(lagoon_run& run) {
  const MutexLock lock(mutex_);
  runs_.push_back(&run);
}

void KeptModel::Remove(lagoon_run& run) {
  const MutexLock lock(mutex_);
  std::erase(runs_, &run);
}

std::size_t KeptModel::runs() {
  const MutexLock lock(mutex_);
  return runs_.size();
}

lagoon_code ToCode(RunCode code) { return static_cast<lagoon_code>(code); }
lagoon_code ToCode(ErrorCode code) { return ToCode(CodeOf(code)); }

namespace {

struct TypePair {
  DataType ours;
  lagoon_type theirs;
};
constexpr TypePair kTypes[] = {
    {DataType::kFloat32, LAGOON_FLOAT32}, {DataType::kUInt8, LAGOON_UINT8},
    {DataType::kInt8, LAGOON_INT8},       {DataType::kUInt16, LAGOON_UINT16},
    {DataType::kInt16, LAGOON_INT16},     {DataType::kInt32, LAGOON_INT32},
    {DataType::kInt64, LAGOON_INT64},     {DataType::kString, LAGOON_STRING},
    {DataType::kBool, LAGOON_BOOL},       {DataType::kFloat16, LAGOON_FLOAT16},
    {DataType::kFloat64, LAGOON_FLOAT64}, {DataType::kUInt32, LAGOON_UINT32},
    {DataType::kUInt64, LAGOON_UINT64},   {DataType::kBFloat16, LAGOON_BFLOAT16},
};

}  // namespace

lagoon_type ToType(DataType type) {
  return std::ranges::find(kTypes, type, &TypePair::ours)->theirs;
}

std::optional<DataType> FromType(int type) {
  const auto* const found =
      std::ranges::find(kTypes, type, [](const TypePair& pair) { return int{pair.theirs}; });
  if (found == std::end(kTypes)) return std::nullopt;
  return found->ours;
}

std::optional<TimePoint> ToTime(std::int64_t due_ns) {
  if (due_ns == 0) return std::nullopt;
  return TimePoint(Nanoseconds(due_ns));
}

std::int64_t FromTime(TimePoint time) { return time.time_since_epoch().count(); }

lagoon_code Report(lagoon_error* error, lagoon_code code, const std::string& message) noexcept {
  if (error == nullptr) return code;
  error->code = code;
  std::size_t bytes = std::min(message.size(), sizeof(error->message) - 1);
  // Not in the middle of a character of UTF-8.
  while (bytes > 0 && bytes < message.size() && (message[bytes] & 0xC0) == 0x80) --bytes;
  std::memcpy(error->message, message.data(), bytes);
  error->message[bytes] = '\0';
  return code;
}

}  // namespace lagoon::capi
