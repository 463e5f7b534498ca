#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"

namespace lagoon {

/// The newest records of one writer, which other threads may read while the writer goes on. A
/// record is `kWords` words. Writing allocates nothing, waits for nothing and takes no lock.
template <std::size_t kWords>
class alignas(64) RecentRing {
 public:
  using Record = std::array<std::uint64_t, kWords>;

  explicit RecentRing(std::size_t capacity)
      : capacity_(capacity), words_(std::make_unique<Word[]>(capacity * kWords)) {
    LAGOON_CHECK(capacity > 0);
  }

  // ---- The writer: one thread at a time, or calls that happen one after the other

  /// A new record takes the place of the oldest one.
  void Push(const Record& record) {
    const std::uint64_t number = begun_.load(std::memory_order_relaxed);
    begun_.store(number + 1, std::memory_order_relaxed);
    Write(number, record);
    // release: who sees the number sees the record.
    done_.store(number + 1, std::memory_order_release);
  }
  /// Changes the newest record. A reader may see some words of the old one and some of the new one.
  void Amend(const Record& record) { Write(begun_.load(std::memory_order_relaxed) - 1, record); }

  // ---- Any thread

  struct Copy {
    std::vector<Record> records;  // the oldest one first
    bool lost = false;            // older records were replaced
  };
  Copy Read() const {
    Copy copy;
    const std::uint64_t done = done_.load(std::memory_order_acquire);
    std::uint64_t first = done - std::min<std::uint64_t>(done, capacity_);
    copy.records.resize(done - first);
    for (std::uint64_t number = first; number < done; ++number) {
      for (std::size_t word = 0; word < kWords; ++word) {
        // acquire: who sees a word of a newer record sees that it was begun.
        copy.records[number - first][word] = At(number, word).load(std::memory_order_acquire);
      }
    }
    const std::uint64_t begun = begun_.load(std::memory_order_relaxed);
    const std::uint64_t left = begun - std::min<std::uint64_t>(begun, capacity_);
    if (left > first) {
      const auto replaced = static_cast<std::ptrdiff_t>(std::min(left, done) - first);
      copy.records.erase(copy.records.begin(), copy.records.begin() + replaced);
      first += static_cast<std::uint64_t>(replaced);
    }
    copy.lost = first > 0;
    return copy;
  }

 private:
  using Word = std::atomic<std::uint64_t>;

  Word& At(std::uint64_t number, std::size_t word) const {
    return words_[(number % capacity_) * kWords + word];
  }
  void Write(std::uint64_t number, const Record& record) {
    for (std::size_t word = 0; word < kWords; ++word) {
      At(number, word).store(record[word], std::memory_order_release);
    }
  }

  const std::size_t capacity_;
  const std::unique_ptr<Word[]> words_;
  std::atomic<std::uint64_t> begun_{0};  // records whose writing has begun
  std::atomic<std::uint64_t> done_{0};   // records that can be read
};

}  // namespace lagoon
