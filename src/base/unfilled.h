#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace lagoon {

/// As std::allocator, but a vector that grows leaves its new elements as the memory was, where
/// std::vector would fill them with zeros.
template <typename T>
struct UnfilledAllocator : std::allocator<T> {
  UnfilledAllocator() = default;
  template <typename U>
  UnfilledAllocator(const UnfilledAllocator<U>& /*other*/) noexcept {}  // NOLINT: converts

  template <typename U>
  struct rebind {
    using other = UnfilledAllocator<U>;
  };
  template <typename U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};

/// Bytes that are all written after resize(): large tensors, whose pages the system then provides
/// when they are written.
using UnfilledBytes = std::vector<std::byte, UnfilledAllocator<std::byte>>;

}  // namespace lagoon
