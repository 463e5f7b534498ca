#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/ids.h"
#include "base/status.h"

namespace lagoon {

/// The guard words of a device. Each has its own cache line, because running blocks read the words
/// all the time. The device's lock protects Create(). Any thread may call the other methods.
class GuardWords {
 public:
  explicit GuardWords(std::uint32_t capacity)
      : words_(std::make_unique<Line[]>(capacity)), capacity_(capacity) {}

  /// DeviceControl::CreateGuard() of the device named `device`. kResourceExhausted: all words are
  /// in use.
  Result<GuardId> Create(const std::string& device) {
    const std::uint32_t index = count_.load(std::memory_order_relaxed);
    if (index == capacity_) {
      return Fail(
          ErrorCode::kResourceExhausted,
          "device '" + device + "': all " + std::to_string(capacity_) + " guards are in use");
    }
    count_.store(index + 1, std::memory_order_release);
    return GuardId(index);
  }

  /// The word of a guard that was created.
  std::atomic<std::uint32_t>& word(GuardId guard) { return words_[Check(guard)].word; }
  const std::atomic<std::uint32_t>& word(GuardId guard) const { return words_[Check(guard)].word; }

  /// True if `value` is later than the word of `guard`. Values wrap around.
  bool IsLater(GuardId guard, std::uint32_t value) const {
    // relaxed: only the caller of DeviceQueue::Raise() changes the word.
    return static_cast<std::int32_t>(value - word(guard).load(std::memory_order_relaxed)) > 0;
  }
  /// relaxed: a guard is a hint to running blocks. The device's lock orders it for everything else.
  void Set(GuardId guard, std::uint32_t value) {
    word(guard).store(value, std::memory_order_relaxed);
  }

  /// Index of `word`, which must be one of these words.
  std::size_t IndexOf(const std::atomic<std::uint32_t>* word) const {
    const auto* address = reinterpret_cast<const std::byte*>(word);
    return static_cast<std::size_t>(address - reinterpret_cast<const std::byte*>(words_.get())) /
           sizeof(Line);
  }

  /// Returns false for other words, such as a done count.
  bool Owns(const std::atomic<std::uint32_t>* word) const {
    const auto* address = static_cast<const void*>(word);
    return !std::less<>()(address, static_cast<const void*>(words_.get())) &&
           std::less<>()(address, static_cast<const void*>(words_.get() + capacity_));
  }

 private:
  struct alignas(64) Line {
    std::atomic<std::uint32_t> word{0};
  };

  std::uint32_t Check(GuardId guard) const {
    LAGOON_CHECK(Raw(guard) < count_.load(std::memory_order_acquire));
    return Raw(guard);
  }

  std::unique_ptr<Line[]> words_;
  const std::uint32_t capacity_;
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace lagoon
