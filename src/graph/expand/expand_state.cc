// Ops that carry a state from one run of the model to the next: caches of keys and values, and
// layers that are convolutions or recurrences.

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/text.h"
#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

// Places in the cache: [batch or 1, rows].
ValueId PlacesOf(Writer& w, std::int64_t rows, std::int64_t room) {
  const ValueId counted = w.Reshape(Counted(w, rows), {1, rows});
  if (w.In(2) == kNoValue) return counted;
  const ValueId places = w.Add(w.Reshape(w.In(2), {w.Dim(w.In(0), 0), 1}), counted);
  const std::string mode = w.node().String("mode", "linear");
  if (mode == "linear") return places;
  if (mode != "circular") {
    w.Refuse(w.context().Invalid(fmt::format("mode is {}, not linear or circular", Quoted(mode))));
  }
  return w.Op("Mod", {places, w.Number(static_cast<double>(room), DataType::kInt64)});
}

// cache, new rows, [the place of the first new row of each batch]
void ExpandTensorScatter(Writer& w) {
  const Dims cache = w.DimsOf(w.In(0)), update = w.DimsOf(w.In(1));
  const Result<std::int64_t> axis = w.context().Axis(w.node().Int("axis", -2), cache.size());
  if (!axis) return w.Refuse(tl::unexpected(axis.error()));
  const auto at = static_cast<std::size_t>(*axis);
  Dims expected = cache;
  if (update.size() == cache.size()) expected[at] = update[at];
  if (at == 0 || update != expected || update[at] > cache[at]) {
    return w.Refuse(w.context().Invalid(fmt::format("does not write {} into {} along axis {}",
                                                    ToString(update), ToString(cache), at)));
  }
  if (ElementCount(update) == 0) return w.SetOutput(0, w.In(0));
  const ValueId places = PlacesOf(w, update[at], cache[at]);
  Dims spread(cache.size(), 1);
  spread[0] = w.Dim(places, 0);
  spread[at] = update[at];
  const ValueId index = w.Op("Expand", {w.Reshape(places, spread), w.Ints(update)});
  w.SetOutput(0, w.Op("ScatterElements", {w.In(0), index, w.In(1)}, {{"axis", *axis}}));
}

ValueId Zeros(Writer& w, DataType type, const Dims& dims) {
  return w.Op("Expand", {w.Number(0, type), w.Ints(dims)});
}

// x [batch,channels,length], weights [channels,1,taps], [bias], [the taps - 1 columns before x]
void ExpandCausalConv(Writer& w) {
  const Dims x = w.DimsOf(w.In(0)), taps = w.DimsOf(w.In(1));
  if (x.size() != 3 || taps.size() != 3 || taps[0] != x[1] || taps[1] != 1 || taps[2] < 1) {
    return w.Refuse(
        w.context().Invalid(fmt::format("weights {} do not fit {}", ToString(taps), ToString(x))));
  }
  const std::int64_t before = taps[2] - 1;
  const ValueId past =
      w.In(3) != kNoValue ? w.In(3) : Zeros(w, w.TypeOf(w.In(0)), {x[0], x[1], before});
  if (w.status() && w.DimsOf(past) != Dims{x[0], x[1], before}) {
    w.Refuse(w.context().Invalid(fmt::format("past_state has shape {}, expected is {}",
                                             ToString(w.DimsOf(past)),
                                             ToString(Dims{x[0], x[1], before}))));
  }
  const ValueId whole = before > 0 ? w.Concat({past, w.In(0)}, 2) : w.In(0);
  ValueId y = w.Op("Conv", {whole, w.In(1), w.In(2)}, {{"group", x[1]}});
  const std::string activation = w.node().String("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = w.Mul(y, w.Op("Sigmoid", {y}));
  } else if (activation != "none") {
    w.Refuse(w.context().Invalid(
        fmt::format("activation is {}, not none, silu or swish", Quoted(activation))));
  }
  w.SetOutput(0, y);
  if (w.HasOutput(1)) w.SetOutput(1, w.Slice(whole, 2, x[2], x[2] + before));
}

/// A linear attention: the state S [batch,heads,K,V] of each head takes in a key k [K] and a value
/// v [V] in each step, and gives q S.
struct LinearAttention {
  std::int64_t batch = 0, steps = 0, heads = 0, shared = 0;  // `shared` states serve all heads
  std::int64_t key = 0, value = 0;
  bool gated = false, delta = false;
  std::vector<ValueId> q, k, v, decay, beta;  // by step
  ValueId state = kNoValue;
};

// [batch,steps,..] as FP32, each step as `dims`.
std::vector<ValueId> Steps(Writer& w, ValueId x, const LinearAttention& a, const Dims& dims) {
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(a.steps), 1);
  std::vector<ValueId> steps = w.Split(w.Cast(x, DataType::kFloat32), ones, 1);
  for (ValueId& step : steps) step = w.Reshape(step, dims);
  return steps;
}

Status CheckLinear(const Writer& w, const LinearAttention& a) {
  constexpr std::int64_t kMostSteps = 512;  // each is a dozen kernels
  const OpContext& context = w.context();
  if (a.heads < 1 || a.shared < 1 || a.heads % a.shared != 0) {
    return context.Invalid(fmt::format("q_num_heads is {}, kv_num_heads is {}", a.heads, a.shared));
  }
  if (a.steps < 1 || a.steps > kMostSteps) {
    return context.Unimplemented(fmt::format(
        "has a sequence of {}, supported are 1 to {}: run a longer one in parts, with the state",
        a.steps, kMostSteps));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const Dims dims = w.DimsOf(w.In(i));
    const std::int64_t heads = i == 0 ? a.heads : a.shared;
    if (dims.size() == 3 && dims[0] == a.batch && dims[1] == a.steps && dims[2] % heads == 0) {
      continue;
    }
    return context.Invalid(fmt::format("input {} has shape {}", i, ToString(dims)));
  }
  if (w.Dim(w.In(1), 2) / a.shared != w.Dim(w.In(0), 2) / a.heads) {
    return context.Invalid("the heads of query and key differ in size");
  }
  for (const auto& [i, needed] : {std::pair<std::size_t, bool>{4, a.gated}, {5, a.delta}}) {
    if ((w.In(i) != kNoValue) == needed) continue;
    return context.Invalid(fmt::format("input {} {} this update_rule", i,
                                       needed ? "is left out, but needed by" : "is not taken by"));
  }
  return {};
}

Result<LinearAttention> LinearOf(const Writer& w) {
  LinearAttention a;
  const std::string rule = w.node().String("update_rule", "gated_delta");
  a.gated = rule == "gated" || rule == "gated_delta";
  a.delta = rule == "delta" || rule == "gated_delta";
  if (rule != "linear" && !a.gated && !a.delta) {
    return w.context().Invalid(fmt::format("update_rule {} is unknown", Quoted(rule)));
  }
  a.batch = w.Dim(w.In(0), 0);
  a.steps = w.Dim(w.In(0), 1);
  a.heads = w.node().Int("q_num_heads", 0);
  a.shared = w.node().Int("kv_num_heads", 0);
  LAGOON_RETURN_IF_ERROR(CheckLinear(w, a));
  a.key = w.Dim(w.In(1), 2) / a.shared;
  a.value = w.Dim(w.In(2), 2) / a.shared;
  return a;
}

void CutIntoSteps(Writer& w, LinearAttention& a) {
  a.q = Steps(w, w.In(0), a, {a.batch, a.shared, a.heads / a.shared, a.key});
  a.k = Steps(w, w.In(1), a, {a.batch, a.shared, 1, a.key});
  a.v = Steps(w, w.In(2), a, {a.batch, a.shared, 1, a.value});
  if (a.gated) {
    const ValueId decay = w.Op("Exp", {w.Cast(w.In(4), DataType::kFloat32)});
    const std::int64_t columns = w.Dim(decay, 2) == a.shared ? 1 : a.key;
    a.decay = Steps(w, decay, a, {a.batch, a.shared, columns, 1});
  }
  if (a.delta) a.beta = Steps(w, w.In(5), a, {a.batch, w.Dim(w.In(5), 2), 1, 1});
  const Dims state{a.batch, a.shared, a.key, a.value};
  const ValueId past = w.In(3);
  if (past != kNoValue && w.status() && w.DimsOf(past) != state) {
    w.Refuse(w.context().Invalid(fmt::format("past_state has shape {}, expected is {}",
                                             ToString(w.DimsOf(past)), ToString(state))));
  }
  a.state =
      past == kNoValue ? Zeros(w, DataType::kFloat32, state) : w.Cast(past, DataType::kFloat32);
}

// Takes in step `i` and gives its row of the output [batch,1,columns].
ValueId Step(Writer& w, LinearAttention& a, std::size_t i) {
  if (a.gated) a.state = w.Mul(a.state, a.decay[i]);
  ValueId v = a.v[i];
  if (a.delta) v = w.Mul(w.Sub(v, w.MatMul(a.k[i], a.state)), a.beta[i]);
  const ValueId k = w.Reshape(a.k[i], {a.batch, a.shared, a.key, 1});
  a.state = w.Add(a.state, w.Mul(k, v));
  return w.Reshape(w.MatMul(a.q[i], a.state), {a.batch, 1, a.heads * a.value});
}

// query, key, value, [state], [decay], [beta]
void ExpandLinearAttention(Writer& w) {
  Result<LinearAttention> linear = LinearOf(w);
  if (!linear) return w.Refuse(tl::unexpected(linear.error()));
  LinearAttention& a = *linear;
  CutIntoSteps(w, a);
  std::vector<ValueId> rows;
  for (std::size_t i = 0; w.status() && i < static_cast<std::size_t>(a.steps); ++i) {
    rows.push_back(Step(w, a, i));
  }
  const float scale = w.node().Float("scale", 0);
  const double factor = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(a.key));
  const ValueId y = w.Scaled(w.Concat(std::move(rows), 1), factor);
  const DataType type = w.TypeOf(w.In(0));
  w.SetOutput(0, w.Cast(y, type));
  if (!w.HasOutput(1)) return;
  w.SetOutput(1, w.Cast(a.state, w.In(3) == kNoValue ? type : w.TypeOf(w.In(3))));
}

constexpr std::string_view kLinearAttributes =
    "i:chunk_size i:kv_num_heads i:q_num_heads f:scale s:update_rule";

constexpr Expansion kStateExpansions[] = {
    {"", {"TensorScatter", 24, 2, 3, 1, "i:axis s:mode"}, ExpandTensorScatter},
    {"", {"CausalConvWithState", 27, 2, 4, 2, "s:activation"}, ExpandCausalConv},
    {"", {"LinearAttention", 27, 3, 6, 2, kLinearAttributes}, ExpandLinearAttention},
};

}  // namespace

std::span<const Expansion> StateExpansions() { return kStateExpansions; }

}  // namespace lagoon
