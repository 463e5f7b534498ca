#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>

namespace lagoon {

/// A vector of bytes that are all written after resize(), which leaves new ones as the memory was:
/// large tensors, whose pages the system then provides when they are written. It is no std::vector
/// with an allocator that fills nothing, as the vector would still visit each byte where the
/// compiler does not optimize.
class UnfilledBytes {
 public:
  UnfilledBytes() = default;
  explicit UnfilledBytes(std::size_t size) { resize(size); }
  ~UnfilledBytes() = default;
  UnfilledBytes(const UnfilledBytes& other) { assign(other.begin(), other.end()); }
  UnfilledBytes(UnfilledBytes&& other) noexcept { swap(other); }
  UnfilledBytes& operator=(const UnfilledBytes& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  UnfilledBytes& operator=(UnfilledBytes&& other) noexcept {
    UnfilledBytes(std::move(other)).swap(*this);
    return *this;
  }

  void resize(std::size_t size) {
    if (size > capacity_) {
      auto bytes = std::make_unique_for_overwrite<std::byte[]>(size);
      std::copy_n(bytes_.get(), size_, bytes.get());
      bytes_ = std::move(bytes);
      capacity_ = size;
    }
    size_ = size;
  }
  void assign(std::size_t size, std::byte value) {
    resize(size);
    std::fill_n(bytes_.get(), size, value);
  }
  /// The range is none of this object's own.
  template <typename Iterator>
  void assign(Iterator first, Iterator last) {
    size_ = 0;
    resize(static_cast<std::size_t>(std::distance(first, last)));
    std::copy(first, last, bytes_.get());
  }
  void swap(UnfilledBytes& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  std::byte* begin() { return data(); }
  std::byte* end() { return data() + size_; }
  const std::byte* begin() const { return data(); }
  const std::byte* end() const { return data() + size_; }
  std::byte& operator[](std::size_t i) { return bytes_[i]; }
  const std::byte& operator[](std::size_t i) const { return bytes_[i]; }
  friend bool operator==(const UnfilledBytes& a, const UnfilledBytes& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace lagoon
