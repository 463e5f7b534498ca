#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"

namespace lagoon {

/// Protobuf messages for reuse. A cleared message keeps the memory of its strings, so that parsing
/// the next request of the same size neither allocates nor touches fresh pages. Any thread.
template <typename Message>
class MessagePool : public std::enable_shared_from_this<MessagePool<Message>> {
 public:
  /// Keeps at most `max_messages`, none larger than `max_bytes_each`.
  static std::shared_ptr<MessagePool> Create(std::size_t max_messages, std::size_t max_bytes_each) {
    return std::shared_ptr<MessagePool>(new MessagePool(max_messages, max_bytes_each));
  }

  /// An empty message. It keeps the pool alive, and returns to the pool when its last owner
  /// releases it.
  std::shared_ptr<Message> Acquire() {
    std::unique_ptr<Message> message = TakeFree();
    if (message == nullptr) message = std::make_unique<Message>();
    return {message.release(), [pool = this->shared_from_this()](Message* used) {
              pool->Release(std::unique_ptr<Message>(used));
            }};
  }

  std::size_t free() const {
    MutexLock lock(mutex_);
    return free_.size();
  }

 private:
  MessagePool(std::size_t max_messages, std::size_t max_bytes_each)
      : max_messages_(max_messages), max_bytes_each_(max_bytes_each) {}

  std::unique_ptr<Message> TakeFree() {
    MutexLock lock(mutex_);
    if (free_.empty()) return nullptr;
    std::unique_ptr<Message> message = std::move(free_.back());
    free_.pop_back();
    return message;
  }

  void Release(std::unique_ptr<Message> message) {
    message->Clear();
    if (message->SpaceUsedLong() > max_bytes_each_) return;
    MutexLock lock(mutex_);
    if (free_.size() < max_messages_) free_.push_back(std::move(message));
  }

  const std::size_t max_messages_;
  const std::size_t max_bytes_each_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Message>> free_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
