#include "ort/partition.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace lagoon::plugin {
namespace {

/// The graph whose nodes are groups. A group of one node is that node, supported or not.
class Groups {
 public:
  explicit Groups(std::span<const PartitionNode> nodes)
      : group_of_(nodes.size()), members_(nodes.size()), reads_(nodes.size()) {
    std::iota(group_of_.begin(), group_of_.end(), 0);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      members_[i] = {i};
      reads_[i].insert(nodes[i].inputs.begin(), nodes[i].inputs.end());
    }
  }

  std::size_t Of(std::size_t node) const { return group_of_[node]; }
  const std::vector<std::size_t>& Members(std::size_t group) const { return members_[group]; }

  /// Whether `from` reads `to` through a third group. Joining the two would make a circle.
  bool ReadsThroughOthers(std::size_t from, std::size_t to) const {
    std::vector<std::size_t> waiting;
    std::set<std::size_t> seen;
    for (const std::size_t node : reads_[from]) {
      const std::size_t next = group_of_[node];
      if (next != from && next != to && seen.insert(next).second) waiting.push_back(next);
    }
    while (!waiting.empty()) {
      const std::size_t group = waiting.back();
      waiting.pop_back();
      for (const std::size_t node : reads_[group]) {
        const std::size_t next = group_of_[node];
        if (next == to) return true;
        if (seen.insert(next).second) waiting.push_back(next);
      }
    }
    return false;
  }

  /// `other` becomes a part of `group`.
  void Join(std::size_t group, std::size_t other) {
    for (const std::size_t node : members_[other]) group_of_[node] = group;
    members_[group].insert(members_[group].end(), members_[other].begin(), members_[other].end());
    reads_[group].merge(reads_[other]);
    members_[other].clear();
    reads_[other].clear();
  }

 private:
  std::vector<std::size_t> group_of_;              // by node
  std::vector<std::vector<std::size_t>> members_;  // by group; empty: it has joined another
  std::vector<std::set<std::size_t>> reads_;       // by group: nodes, its own included
};

}  // namespace

std::vector<std::vector<std::size_t>> Partition(std::span<const PartitionNode> nodes,
                                                std::size_t min_nodes) {
  Groups groups(nodes);
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (!nodes[node].supported) continue;
    for (const std::size_t input : nodes[node].inputs) {
      const std::size_t own = groups.Of(node), other = groups.Of(input);
      if (own == other || !nodes[input].supported) continue;
      // A path in the other direction would be a circle already.
      if (!groups.ReadsThroughOthers(own, other)) groups.Join(other, own);
    }
  }
  std::vector<std::vector<std::size_t>> found;
  for (std::size_t group = 0; group < nodes.size(); ++group) {
    std::vector<std::size_t> members = groups.Members(group);
    if (members.empty() || !nodes[members.front()].supported) continue;
    if (members.size() < min_nodes) continue;
    std::sort(members.begin(), members.end());
    found.push_back(std::move(members));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace lagoon::plugin
