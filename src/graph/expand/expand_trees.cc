// Ensembles of decision trees. All trees are walked at once: a table has the node that each row is
// at in each tree, and one round of ops goes one level down. A leaf leads to itself.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/expand/expand.h"
#include "graph/expand/expand_ml.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kMostLevels = 256;

/// The nodes of all trees, as the attributes nodes_* list them.
struct Trees {
  std::vector<std::string> modes;
  Ints features, yes, no;  // yes, no: where a row goes on, as indices of nodes
  std::vector<float> values;
  Ints missing_goes_yes;  // NaN counts as yes; may be empty
  Ints roots;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> index;  // by tree and node id
  std::int64_t levels = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(modes.size()); }
  bool IsLeaf(std::size_t node) const { return modes[node] == "LEAF"; }
};

void Refuse(Writer& w, const std::string& why) { w.Refuse(w.context().Invalid(why)); }

std::vector<std::string> TextsOf(const Writer& w, const std::string& attribute) {
  const auto found = w.node().attributes.find(attribute);
  if (found == w.node().attributes.end()) return {};
  const auto* const texts = std::get_if<std::vector<std::string>>(&found->second);
  return texts == nullptr ? std::vector<std::string>() : *texts;
}

/// Replaces ids of nodes by indices; those of leaves lead to themselves.
void Link(Writer& w, const Ints& tree_of, Trees& trees) {
  std::vector<bool> is_root(trees.modes.size(), true);
  for (std::size_t i = 0; i < trees.modes.size(); ++i) {
    for (Ints* const way : {&trees.yes, &trees.no}) {
      std::int64_t& to = (*way)[i];
      if (trees.IsLeaf(i)) {
        to = static_cast<std::int64_t>(i);
        continue;
      }
      const auto found = trees.index.find({tree_of[i], to});
      if (found == trees.index.end()) {
        return Refuse(
            w, fmt::format("tree {} has no node {}, to which another node leads", tree_of[i], to));
      }
      to = found->second;
      is_root[static_cast<std::size_t>(to)] = false;
    }
  }
  for (std::size_t i = 0; i < is_root.size(); ++i) {
    if (is_root[i]) trees.roots.push_back(static_cast<std::int64_t>(i));
  }
  if (trees.roots.empty()) Refuse(w, "has no node at which a tree begins");
}

/// Counts the levels between the roots and the lowest leaf.
void CountLevels(Writer& w, Trees& trees) {
  Ints level = trees.roots;
  while (w.status()) {
    Ints below;
    for (const std::int64_t node : level) {
      const auto i = static_cast<std::size_t>(node);
      if (!trees.IsLeaf(i)) below.insert(below.end(), {trees.yes[i], trees.no[i]});
    }
    if (below.empty()) return;
    std::ranges::sort(below);
    below.erase(std::unique(below.begin(), below.end()), below.end());
    level = std::move(below);
    if (++trees.levels > kMostLevels) {
      w.Refuse(w.context().Unimplemented(fmt::format(
          "has a tree of more than {} levels, or one that leads back to a node", kMostLevels)));
    }
  }
}

Trees ReadTrees(Writer& w) {
  Trees trees;
  trees.modes = TextsOf(w, "nodes_modes");
  trees.features = w.node().Ints("nodes_featureids", {});
  trees.yes = w.node().Ints("nodes_truenodeids", {});
  trees.no = w.node().Ints("nodes_falsenodeids", {});
  trees.values = FloatsOf(w, "nodes_values");
  trees.missing_goes_yes = w.node().Ints("nodes_missing_value_tracks_true", {});
  const Ints tree_of = w.node().Ints("nodes_treeids", {}), ids = w.node().Ints("nodes_nodeids", {});
  const std::size_t count = trees.modes.size();
  const bool fits = count > 0 && trees.features.size() == count && trees.yes.size() == count &&
                    trees.no.size() == count && trees.values.size() == count &&
                    tree_of.size() == count && ids.size() == count &&
                    (trees.missing_goes_yes.empty() || trees.missing_goes_yes.size() == count);
  if (!fits) {
    Refuse(w, fmt::format("the lists nodes_* must all have as many entries as nodes_modes, {}",
                          count));
    return trees;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (trees.index.emplace(std::pair(tree_of[i], ids[i]), static_cast<std::int64_t>(i)).second) {
      continue;
    }
    Refuse(w, fmt::format("tree {} has node {} twice", tree_of[i], ids[i]));
    return trees;
  }
  Link(w, tree_of, trees);
  CountLevels(w, trees);
  return trees;
}

/// Whether x takes the way "yes" in nodes of `mode`.
ValueId Compared(Writer& w, const std::string& mode, ValueId x, ValueId value) {
  static const std::map<std::string, std::string> kOps = {
      {"BRANCH_LEQ", "LessOrEqual"}, {"BRANCH_LT", "Less"},  {"BRANCH_GTE", "GreaterOrEqual"},
      {"BRANCH_GT", "Greater"},      {"BRANCH_EQ", "Equal"}, {"BRANCH_NEQ", "Equal"}};
  const auto found = kOps.find(mode);
  if (found == kOps.end()) {
    w.Refuse(w.context().Unimplemented(fmt::format("mode {} of a node is not supported", mode)));
    return kNoValue;
  }
  const ValueId result = w.Op(found->second, {x, value});
  return mode == "BRANCH_NEQ" ? w.Op("Not", {result}) : result;
}

/// The walk of all rows through all trees.
class Descent {
 public:
  Descent(Writer& w, const Trees& trees) : w_(w), trees_(trees) {
    x_ = w.TypeOf(w.In(0)) == DataType::kFloat64 ? w.In(0) : w.Cast(w.In(0), DataType::kFloat32);
    if (w.RankOf(x_) == 1) x_ = w.Unsqueeze(x_, {0});
    if (w.status() && w.RankOf(x_) != 2) {
      Refuse(w,
             fmt::format("input 0 has shape {}, takes [rows, features]", ToString(w.DimsOf(x_))));
    }
    for (std::size_t i = 0; w.status() && i < trees.modes.size(); ++i) {
      const std::int64_t feature = trees.features[i];
      if (trees.IsLeaf(i) || (feature >= 0 && feature < w.Dim(x_, 1))) continue;
      Refuse(w, fmt::format("node {} reads feature {} of {}", i, feature, w.Dim(x_, 1)));
    }
    features_ = Table(DataType::kInt64, [&](std::size_t i) {
      return trees.IsLeaf(i) ? 0 : static_cast<double>(trees.features[i]);
    });
    values_ =
        Table(w.TypeOf(x_), [&](std::size_t i) { return static_cast<double>(trees.values[i]); });
    yes_ =
        Table(DataType::kInt64, [&](std::size_t i) { return static_cast<double>(trees.yes[i]); });
    no_ = Table(DataType::kInt64, [&](std::size_t i) { return static_cast<double>(trees.no[i]); });
    if (std::ranges::any_of(trees.missing_goes_yes, [](std::int64_t yes) { return yes != 0; })) {
      missing_ = Table(DataType::kBool,
                       [&](std::size_t i) { return trees.missing_goes_yes[i] != 0 ? 1.0 : 0.0; });
    }
    FindModes();
  }

  /// The leaf of each row in each tree, [rows, trees].
  ValueId Leaves() {
    const auto count = static_cast<std::int64_t>(trees_.roots.size());
    ValueId at = w_.Op(
        "Expand", {w_.Reshape(w_.Ints(trees_.roots), {1, count}), w_.Ints({w_.Dim(x_, 0), count})});
    for (std::int64_t level = 0; level < trees_.levels && w_.status(); ++level) {
      at = w_.Op("Where", {Yes(at), w_.Op("Gather", {yes_, at}), w_.Op("Gather", {no_, at})});
    }
    return at;
  }

 private:
  template <typename At>
  ValueId Table(DataType type, At&& at) {
    return TableOf(w_, type, {trees_.size()},
                   [&](std::int64_t i) { return at(static_cast<std::size_t>(i)); });
  }

  /// For each mode that branches have: which nodes have it.
  void FindModes() {
    for (std::size_t i = 0; i < trees_.modes.size(); ++i) {
      if (!trees_.IsLeaf(i)) modes_.emplace(trees_.modes[i], kNoValue);
    }
    if (modes_.size() < 2) return;
    for (auto& entry : modes_) {
      entry.second = Table(DataType::kBool, [&](std::size_t i) {
        return trees_.modes[i] == entry.first ? 1.0 : 0.0;
      });
    }
  }

  ValueId Yes(ValueId at) {
    const ValueId x = w_.Op("GatherElements", {x_, w_.Op("Gather", {features_, at})},
                            {{"axis", std::int64_t{1}}});
    const ValueId value = w_.Op("Gather", {values_, at});
    ValueId yes = kNoValue;
    for (const auto& [mode, nodes] : modes_) {
      ValueId one = Compared(w_, mode, x, value);
      if (nodes != kNoValue) one = w_.Op("And", {one, w_.Op("Gather", {nodes, at})});
      yes = yes == kNoValue ? one : w_.Op("Or", {yes, one});
    }
    if (missing_ == kNoValue) return yes;
    const ValueId missing = w_.Op("And", {w_.Op("IsNaN", {x}), w_.Op("Gather", {missing_, at})});
    return w_.Op("Or", {yes, missing});
  }

  Writer& w_;
  const Trees& trees_;
  ValueId x_ = kNoValue, features_ = kNoValue, values_ = kNoValue;
  ValueId yes_ = kNoValue, no_ = kNoValue, missing_ = kNoValue;
  std::map<std::string, ValueId> modes_;
};

/// What the leaves give to each of `count` targets; `kind`: "target" or "class".
ValueId LeafTable(Writer& w, const Trees& trees, const std::string& kind, std::int64_t count) {
  const Ints tree_of = w.node().Ints(kind + "_treeids", {}), ids = w.node().Ints(kind + "_ids", {});
  const Ints nodes = w.node().Ints(kind + "_nodeids", {});
  const std::vector<float> weights = FloatsOf(w, kind + "_weights");
  if (ids.size() != weights.size() || tree_of.size() != ids.size() || nodes.size() != ids.size()) {
    Refuse(w, fmt::format("the lists {}_* have different sizes", kind));
  }
  if (!w.status()) return kNoValue;
  std::map<std::int64_t, double> table;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto leaf = trees.index.find({tree_of[i], nodes[i]});
    if (leaf == trees.index.end() || ids[i] < 0 || ids[i] >= count) {
      Refuse(w, fmt::format("{} {} of node {} in tree {} does not fit the trees and {} {}s", kind,
                            ids[i], nodes[i], tree_of[i], count, kind));
      return kNoValue;
    }
    table[leaf->second * count + ids[i]] += static_cast<double>(weights[i]);
  }
  return TableOf(w, DataType::kFloat32, {trees.size(), count}, [&](std::int64_t i) {
    const auto found = table.find(i);
    return found == table.end() ? 0 : found->second;
  });
}

/// The results of all trees, [rows, count], with base_values.
ValueId Aggregated(Writer& w, const Trees& trees, ValueId leaves, std::int64_t count) {
  const std::string how = w.node().String("aggregate_function", "SUM");
  static const std::map<std::string, std::string> kOps = {
      {"SUM", "ReduceSum"}, {"AVERAGE", "ReduceMean"}, {"MIN", "ReduceMin"}, {"MAX", "ReduceMax"}};
  const auto found = kOps.find(how);
  if (found == kOps.end()) Refuse(w, fmt::format("aggregate_function {} is not known", how));
  if (!w.status()) return kNoValue;
  Descent descent(w, trees);
  const ValueId given = w.Op("Gather", {leaves, descent.Leaves()});  // [rows, trees, count]
  const ValueId y = w.Op(found->second, {given, w.Ints({1})}, {{"keepdims", std::int64_t{0}}});
  const std::vector<float> base = FloatsOf(w, "base_values");
  if (base.empty()) return y;
  if (w.status() && base.size() != 1 && static_cast<std::int64_t>(base.size()) != count) {
    Refuse(w, fmt::format("has {} base_values for {} results", base.size(), count));
  }
  const auto base_at = [&](std::int64_t i) { return double{base[static_cast<std::size_t>(i)]}; };
  const auto size = static_cast<std::int64_t>(base.size());
  return w.Add(y, TableOf(w, DataType::kFloat32, {size}, base_at));
}

void ExpandRegressor(Writer& w) {
  const std::int64_t targets = w.node().Int("n_targets", 1);
  if (targets < 1) return Refuse(w, fmt::format("n_targets is {}", targets));
  const Trees trees = ReadTrees(w);
  const ValueId leaves = LeafTable(w, trees, "target", targets);
  w.SetOutput(0, PostTransformed(w, Aggregated(w, trees, leaves, targets)));
}

void ExpandClassifier(Writer& w) {
  constexpr const char* kLabels = "classlabels_int64s";
  const std::int64_t classes = ClassCount(w, kLabels);
  const Trees trees = ReadTrees(w);
  const Ints ids = w.node().Ints("class_ids", {});
  const bool one_score = std::ranges::all_of(ids, [](std::int64_t id) { return id == 0; });
  if (classes != 2 || !one_score || FloatsOf(w, "base_values").size() > 1) {
    const ValueId leaves = LeafTable(w, trees, "class", classes);
    return SetClasses(w, Aggregated(w, trees, leaves, classes), kLabels);
  }
  // One score for two classes: a probability, or a number with a sign.
  const std::vector<float> weights = FloatsOf(w, "class_weights");
  const bool signs = std::ranges::any_of(weights, [](float weight) { return weight < 0; });
  const ValueId score = Aggregated(w, trees, LeafTable(w, trees, "class", 1), 1);
  SetBinaryClasses(w, {score, signs ? 0 : 0.5, signs}, kLabels);
}

constexpr std::string_view kRegressorAttributes =
    "s:aggregate_function F:base_values i:n_targets I:nodes_falsenodeids I:nodes_featureids "
    "F:nodes_hitrates I:nodes_missing_value_tracks_true S:nodes_modes I:nodes_nodeids "
    "I:nodes_treeids I:nodes_truenodeids F:nodes_values s:post_transform I:target_ids "
    "I:target_nodeids I:target_treeids F:target_weights";
constexpr std::string_view kClassifierAttributes =
    "F:base_values I:class_ids I:class_nodeids I:class_treeids F:class_weights "
    "I:classlabels_int64s S:classlabels_strings I:nodes_falsenodeids I:nodes_featureids "
    "F:nodes_hitrates I:nodes_missing_value_tracks_true S:nodes_modes I:nodes_nodeids "
    "I:nodes_treeids I:nodes_truenodeids F:nodes_values s:post_transform";

constexpr Expansion kTreeExpansions[] = {
    {kMl, {"TreeEnsembleRegressor", 1, 1, 1, 1, kRegressorAttributes}, ExpandRegressor},
    {kMl, {"TreeEnsembleClassifier", 1, 1, 1, 2, kClassifierAttributes}, ExpandClassifier},
};

}  // namespace

std::span<const Expansion> TreeExpansions() { return kTreeExpansions; }

}  // namespace lagoon
