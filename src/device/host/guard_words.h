#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace lagoon {

/// The guard words of a device. Each has its own cache line, because running blocks read the words
/// all the time.
class GuardWords {
 public:
  explicit GuardWords(std::size_t capacity)
      : words_(std::make_unique<Line[]>(capacity)), capacity_(capacity) {}

  std::atomic<std::uint32_t>& word(std::size_t index) { return words_[index].word; }
  const std::atomic<std::uint32_t>& word(std::size_t index) const { return words_[index].word; }

  /// Index of `word`, which must be one of these words.
  std::size_t IndexOf(const std::atomic<std::uint32_t>* word) const {
    const auto* address = reinterpret_cast<const std::byte*>(word);
    return static_cast<std::size_t>(address - reinterpret_cast<const std::byte*>(words_.get())) /
           sizeof(Line);
  }

  /// False for other words, such as a done count.
  bool Owns(const std::atomic<std::uint32_t>* word) const {
    const auto* address = static_cast<const void*>(word);
    return !std::less<>()(address, static_cast<const void*>(words_.get())) &&
           std::less<>()(address, static_cast<const void*>(words_.get() + capacity_));
  }

 private:
  struct alignas(64) Line {
    std::atomic<std::uint32_t> word{0};
  };
  std::unique_ptr<Line[]> words_;
  std::size_t capacity_;
};

}  // namespace lagoon
