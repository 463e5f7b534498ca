#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "device/device.h"

namespace lagoon {

/// A launch or copy on its way to a background pool.
struct Letter {
  bool is_copy = false;
  Launch launch;        // unless is_copy
  Body body = nullptr;  // of the launch's kernel
  Copy copy;            // if is_copy
};

/// Letters in the order in which they were sent, from one thread at a time to another one at a
/// time. Neither ever waits for the other. Allocates nothing after construction.
class Mailbox {
 public:
  explicit Mailbox(std::size_t capacity) : letters_(capacity) {}

  /// Returns false if the mailbox is full.
  bool Send(const Letter& letter) {
    const std::size_t sent = sent_.load(std::memory_order_relaxed);
    // acquire: the letter that had this place has been read.
    if (sent - read_.load(std::memory_order_acquire) == letters_.size()) return false;
    letters_[sent % letters_.size()] = letter;
    sent_.store(sent + 1, std::memory_order_release);
    return true;
  }

  /// The oldest letter that was not taken, until Take(). Null: none.
  const Letter* Front() const {
    const std::size_t read = read_.load(std::memory_order_relaxed);
    if (read == sent_.load(std::memory_order_acquire)) return nullptr;
    return &letters_[read % letters_.size()];
  }
  void Take() { read_.store(read_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  /// A guess for other threads.
  bool empty() const {
    return read_.load(std::memory_order_acquire) == sent_.load(std::memory_order_acquire);
  }

 private:
  std::vector<Letter> letters_;
  std::atomic<std::size_t> sent_{0}, read_{0};
};

}  // namespace lagoon
