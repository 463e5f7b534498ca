#pragma once

// Which replica of a model gets a request.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lagoon {

struct ReplicaState {
  double fraction = 0;      // wanted part of the model's requests, 0 or more
  std::uint64_t queue = 0;  // the model's requests that wait or run at the replica
  bool ready = false;       // can take requests
};

/// The shorter queue of two: two different replicas are drawn, each ready one with the probability
/// of its fraction, and the one with the smaller queue / fraction is picked. A tie goes to the
/// first that was drawn: fractions decide while all replicas keep up, and one that falls behind
/// gets less.
///
/// `draws`: two numbers in [0, 1). `avoid`: the index of a replica that must not be picked. If the
/// fraction of every replica that is left is 0, all of them count as equal. Nothing: no replica is
/// left.
std::optional<std::size_t> PickReplica(std::span<const ReplicaState> replicas,
                                       std::optional<std::size_t> avoid,
                                       const std::array<double, 2>& draws);

}  // namespace lagoon
