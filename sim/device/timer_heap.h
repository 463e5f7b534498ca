#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace lagoon {

/// The timers of a simulation: at most one per id, earliest first, equal times in the order in
/// which they were set. A four-ary heap that stores the place of each id. So a timer can be moved
/// or dropped, and the heap never has more entries than ids. Allocates only when built.
class TimerHeap {
 public:
  explicit TimerHeap(std::uint32_t ids) : place_(ids, kUnset) { heap_.reserve(ids); }

  bool empty() const { return heap_.empty(); }
  /// kNoDeadline if no timer is set.
  TimePoint next() const { return heap_.empty() ? kNoDeadline : heap_.front().at; }
  bool IsSet(std::uint32_t id) const { return place_[id] != kUnset; }

  /// Sets the timer of `id`, or moves it.
  void Set(std::uint32_t id, TimePoint at) {
    const Entry entry{at, next_order_++, id};
    if (place_[id] == kUnset) {
      heap_.push_back(entry);
      Up(heap_.size() - 1, entry);
    } else {
      Settle(place_[id], entry);
    }
  }

  /// Drops the timer of `id`, if it is set.
  void Drop(std::uint32_t id) {
    const std::uint32_t at = place_[id];
    if (at == kUnset) return;
    place_[id] = kUnset;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at < heap_.size()) Settle(at, last);
  }

  /// Removes the earliest timer and returns its id. There must be one.
  std::uint32_t Pop() {
    const std::uint32_t id = heap_.front().id;
    Drop(id);
    return id;
  }

 private:
  static constexpr std::uint32_t kUnset = ~std::uint32_t{0};
  static constexpr std::size_t kChildren = 4;

  struct Entry {
    TimePoint at;
    std::uint64_t order;
    std::uint32_t id;
    bool Before(const Entry& other) const {
      return at != other.at ? at < other.at : order < other.order;
    }
  };

  void Put(std::size_t at, const Entry& entry) {
    heap_[at] = entry;
    place_[entry.id] = static_cast<std::uint32_t>(at);
  }

  // `entry` belongs at `at` or somewhere above or below it.
  void Settle(std::size_t at, const Entry& entry) {
    if (at > 0 && entry.Before(heap_[(at - 1) / kChildren])) {
      Up(at, entry);
    } else {
      Down(at, entry);
    }
  }

  void Up(std::size_t at, const Entry& entry) {
    while (at > 0) {
      const std::size_t parent = (at - 1) / kChildren;
      if (!entry.Before(heap_[parent])) break;
      Put(at, heap_[parent]);
      at = parent;
    }
    Put(at, entry);
  }

  void Down(std::size_t at, const Entry& entry) {
    for (;;) {
      const std::size_t first = at * kChildren + 1;
      if (first >= heap_.size()) break;
      const std::size_t end = std::min(first + kChildren, heap_.size());
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (heap_[child].Before(heap_[least])) least = child;
      }
      if (!heap_[least].Before(entry)) break;
      Put(at, heap_[least]);
      at = least;
    }
    Put(at, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> place_;  // by id: index in heap_
  std::uint64_t next_order_ = 0;
};

}  // namespace lagoon
