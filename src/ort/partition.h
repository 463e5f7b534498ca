#pragma once

// Which nodes of a graph become one model each, where Lagoon does not run all of them.

#include <cstddef>
#include <span>
#include <vector>

namespace lagoon::plugin {

/// A node of a graph. Nodes are in topological order.
struct PartitionNode {
  bool supported = false;           // Lagoon runs it
  std::vector<std::size_t> inputs;  // the nodes whose outputs it reads; repetitions are allowed
};

/// Groups of supported nodes, of at least `min_nodes` each, each in topological order, the groups
/// in order of their first nodes. No path leaves a group and comes back, and groups do not wait for
/// one another in a circle, so that each group can be one node. Greedy: a node joins the groups
/// that it reads where that is allowed, and thereby joins them with one another. Cost: at most the
/// number of nodes times that of edges.
std::vector<std::vector<std::size_t>> Partition(std::span<const PartitionNode> nodes,
                                                std::size_t min_nodes);

}  // namespace lagoon::plugin
