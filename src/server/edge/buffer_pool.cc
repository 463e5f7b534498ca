#include "server/edge/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace lagoon {
namespace {

// Sizes are rounded up so that requests of about the same size share buffers.
constexpr std::size_t kSmallest = 4096;
// Bigger buffers are rare, and the untouched pages of a fresh one cost nothing.
constexpr std::size_t kLargestRetained = std::size_t{8} << 20;

std::size_t SizeClass(std::size_t bytes) {
  if (bytes > kLargestRetained) return bytes;
  return std::bit_ceil(std::max(bytes, kSmallest));
}

}  // namespace

BufferPool::BufferPool(std::size_t max_retained) : max_retained_(max_retained) {
  // All buffers that fit, so that Release(), which must not throw, never allocates.
  free_.reserve(max_retained / kSmallest);
}

std::shared_ptr<BufferPool> BufferPool::Create(std::size_t max_retained) {
  return std::shared_ptr<BufferPool>(new BufferPool(max_retained));
}

BufferPool::Block BufferPool::TakeFree(std::size_t bytes) {
  MutexLock lock(mutex_);
  // The buffer that was released last is the one most likely to be in a CPU cache.
  const auto found =
      std::find_if(free_.rbegin(), free_.rend(), [&](const Block& b) { return b.bytes == bytes; });
  if (found == free_.rend()) return {nullptr, bytes};
  Block block = std::move(*found);
  retained_ -= block.bytes;
  free_.erase(std::next(found).base());
  return block;
}

std::shared_ptr<std::byte[]> BufferPool::Acquire(std::size_t bytes) {
  Block block = TakeFree(SizeClass(bytes));
  if (block.data == nullptr) block.data.reset(new (std::nothrow) std::byte[block.bytes]);
  if (block.data == nullptr) return nullptr;
  std::byte* data = block.data.get();
  auto owner = std::shared_ptr<Block>(new Block(std::move(block)),
                                      [pool = shared_from_this()](Block* released) {
                                        pool->Release(std::move(*released));
                                        delete released;
                                      });
  return {std::move(owner), data};
}

void BufferPool::Release(Block block) {
  MutexLock lock(mutex_);
  if (block.bytes > kLargestRetained || retained_ + block.bytes > max_retained_) return;
  retained_ += block.bytes;
  free_.push_back(std::move(block));
}

}  // namespace lagoon
