#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace lagoon {

/// Events by time; those of the same time in the order in which they were pushed. A heap with four
/// children per node, which has half the depth of a binary one.
template <typename Event>
class EventHeap {
 public:
  bool empty() const { return nodes_.empty(); }
  Nanoseconds next() const { return nodes_.front().time; }

  void Push(Nanoseconds time, Event event) {
    nodes_.push_back({time, sequence_++, std::move(event)});
    std::size_t at = nodes_.size() - 1;
    while (at > 0 && nodes_[at].Before(nodes_[(at - 1) / kChildren])) {
      std::swap(nodes_[at], nodes_[(at - 1) / kChildren]);
      at = (at - 1) / kChildren;
    }
  }

  /// The heap is not empty.
  Event Pop() {
    LAGOON_CHECK(!nodes_.empty());
    Event event = std::move(nodes_.front().event);
    nodes_.front() = std::move(nodes_.back());
    nodes_.pop_back();
    for (std::size_t at = 0;;) {
      const std::size_t first = at * kChildren + 1;
      if (first >= nodes_.size()) break;
      std::size_t least = first;
      const std::size_t end = std::min(first + kChildren, nodes_.size());
      for (std::size_t child = first + 1; child < end; ++child) {
        if (nodes_[child].Before(nodes_[least])) least = child;
      }
      if (!nodes_[least].Before(nodes_[at])) break;
      std::swap(nodes_[at], nodes_[least]);
      at = least;
    }
    return event;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  struct Node {
    Nanoseconds time{0};
    std::uint64_t sequence = 0;
    Event event = {};

    bool Before(const Node& other) const {
      return time != other.time ? time < other.time : sequence < other.sequence;
    }
  };

  std::vector<Node> nodes_;
  std::uint64_t sequence_ = 0;
};

}  // namespace lagoon
