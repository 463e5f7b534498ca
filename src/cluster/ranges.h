#pragma once

// Where on a device the shares lie: each is a run of granules. A change moves as few models as
// possible, in an order in which no two shares overlap.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lagoon {

/// A run of granules of a device. Not units: a granule may be several.
struct GranuleRange {
  std::uint32_t first = 0, count = 0;

  std::uint32_t end() const { return first + count; }
  bool Overlaps(const GranuleRange& other) const {
    return first < other.end() && other.first < end();
  }
  bool operator==(const GranuleRange&) const = default;
};

struct RangeWanted {
  std::optional<GranuleRange> now;  // empty: the model is new
  std::uint32_t count = 0;          // granules that the model gets, at least 1
  bool pinned = false;              // must not move; `count` is that of `now`
};

struct Repacking {
  std::vector<GranuleRange> ranges;  // by the index of the models
  std::vector<std::size_t> order;    // models whose range changes, in a safe order
};

/// Places the models in their present order. A model whose size stays the same stays in place if it
/// can, so that as few models move as this order allows; a new model goes where the fewest others
/// move. In Repacking::order, each move goes to granules that no other model has at that time, so
/// that models that shrink move before those that grow into their granules.
///
/// The present ranges are disjoint and within `granules`, and the sum of the counts is at most
/// `granules`. nullopt: not possible without moving a pinned model.
std::optional<Repacking> Repack(std::span<const RangeWanted> models, std::uint32_t granules);

}  // namespace lagoon
