#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sequence/attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/sequence/attention.h"
#include "kernels/sequence/matmul_micro-inl.h"
#include "kernels/simd/functions-inl.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_ATTENTION_ARGS_
#define LAGOON_KERNELS_ATTENTION_ARGS_
namespace lagoon {
namespace {

/// Depth of a packed panel, which is summed up at once.
constexpr std::size_t kAttentionDepth = 256;
/// The widest panel of two vectors.
constexpr std::size_t kPanelFloats = 32;
/// So few rows do not pay for packing keys and values: scores are then sums over the columns.
constexpr std::size_t kFewRows = 3;
constexpr std::size_t kKeysPerCheck = 256;
/// Vectors of values that few rows sum up at once.
constexpr std::size_t kWideColumns = 4;

/// A task is some rows of one head.
struct AttentionArgs {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* mask = nullptr;         // null: none
  const std::uint8_t* keep = nullptr;  // null: none
  float* y = nullptr;
  AttentionView q_view, k_view, v_view, y_view, mask_view, keep_view;
  std::size_t heads = 1, rows = 1, keys = 1, depth = 1, value_depth = 1, sharing = 1;
  std::size_t mask_batches = 1;
  std::size_t tile_rows = 1, row_tiles = 1, tasks = 1, blocks = 1;
  std::size_t score_pitch = 1, value_pitch = 1;  // in floats; multiples of whole panels
  float scale = 1, fill = 0, floor = 0;
  bool kept = true, has_floor = false;
  bool few_rows = false;
  bool skips = false;  // keys behind the last one that a row keeps are not read
};

inline std::size_t Offset(const AttentionView& view, std::size_t batch, std::size_t head,
                          std::size_t row) {
  return batch * view.batch + head * view.head + row * view.row;
}

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

/// The number of keys up to the last one of those behind `least` that `keep` keeps; `least` if
/// there is none.
size_t LastKept(const AttentionArgs& args, const std::uint8_t* keep, size_t least) {
  constexpr size_t kWord = sizeof(std::uint64_t);
  const size_t step = args.keep_view.column;
  size_t keys = args.keys;
  while (keys > least) {
    std::uint64_t word = 1;
    if (step == 1 && args.kept && keys >= least + kWord) {
      std::memcpy(&word, keep + keys - kWord, kWord);
    }
    if (word == 0) {
      keys -= kWord;
    } else if ((keep[(keys - 1) * step] != 0) == args.kept) {
      return keys;
    } else {
      --keys;
    }
  }
  return least;
}

/// Computes one task. Scratch: scores [rows, keys], sums [rows, value_depth], a reciprocal per row,
/// a panel.
class AttentionTile {
 public:
  AttentionTile(const AttentionArgs& args, size_t task, float* scratch, BlockContext* ctx)
      : args_(args),
        ctx_(ctx),
        batch_(task / args.row_tiles / args.heads),
        head_(task / args.row_tiles % args.heads),
        rows_(Share(args.rows, args.row_tiles, task % args.row_tiles)),
        keys_(args.skips ? KeptKeys() : args.keys),
        scores_(scratch),
        sums_(scores_ + args.tile_rows * args.score_pitch),
        reciprocals_(sums_ + args.tile_rows * args.value_pitch),
        panel_(reciprocals_ + args.tile_rows) {}

  /// Returns false if the block left; it has written nothing then.
  bool Run() {
    if (!Scores()) return false;
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (Leaves()) return false;
      Mask(row);
      reciprocals_[row] = Exponentials(scores_ + row * args_.score_pitch);
    }
    if (!WeighValues() || Leaves()) return false;
    Write();
    return true;
  }

 private:
  /// Always false if `ctx_` is null: other tasks of the block have written, so this one must
  /// finish.
  bool Leaves() { return ctx_ != nullptr && ctx_->ShouldLeave(); }
  size_t KeyHead() const { return head_ / args_.sharing; }

  /// The number of keys up to the last one that a row keeps. A row that keeps none reads them all.
  size_t KeptKeys() const {
    size_t keys = 0;
    for (size_t row = rows_.end; row-- > rows_.begin;) {
      const std::uint8_t* const keep = args_.keep + Offset(args_.keep_view, batch_, head_, row);
      keys = LastKept(args_, keep, keys);
      size_t first = 0;
      while (first < keys && (keep[first * args_.keep_view.column] != 0) != args_.kept) ++first;
      if (first == keys) return args_.keys;
    }
    return keys;
  }

  /// sums [rows, columns] = a * b, in panels of columns and of the depth.
  bool Multiply(LeftRows a, const RightPanel& b, size_t depth, size_t columns, PanelSums sums) {
    const size_t width = 2 * simd::Lanes();
    simd::Fill(0, a.rows * sums.pitch, sums.data);
    for (size_t p = 0; p < depth; p += kAttentionDepth) {
      for (size_t j = 0; j < columns; j += width) {
        if (Leaves()) return false;
        const LeftRows left{a.data + p * a.k, a.row, a.k, a.rows};
        const RightPanel right{b.data + p * b.k + j * b.column, b.k, b.column,
                               std::min(width, columns - j)};
        MultiplyPanel(left, right, std::min(kAttentionDepth, depth - p),
                      {sums.data + j, sums.pitch}, panel_);
      }
    }
    return true;
  }

  bool Scores() {
    if (args_.few_rows) return DotScores();
    const float* const q = args_.q + Offset(args_.q_view, batch_, head_, rows_.begin);
    const float* const k = args_.k + Offset(args_.k_view, batch_, KeyHead(), 0);
    return Multiply({q, args_.q_view.row, args_.q_view.column, rows_.size()},
                    {k, args_.k_view.column, args_.k_view.row, keys_}, args_.depth, keys_,
                    {scores_, args_.score_pitch});
  }

  /// For few rows, where the columns of q and k lie side by side.
  bool DotScores() {
    const float* const k = args_.k + Offset(args_.k_view, batch_, KeyHead(), 0);
    for (size_t row = 0; row < rows_.size(); ++row) {
      const float* const q = args_.q + Offset(args_.q_view, batch_, head_, rows_.begin + row);
      float* const scores = scores_ + row * args_.score_pitch;
      size_t key = 0;
      for (; key + 4 <= keys_; key += 4) {
        if (key % kKeysPerCheck == 0 && Leaves()) return false;
        Dot<4>(q, k + key * args_.k_view.row, scores + key);
      }
      for (; key < keys_; ++key) Dot<1>(q, k + key * args_.k_view.row, scores + key);
    }
    return true;
  }

  template <size_t kKeys>
  HWY_INLINE void Dot(const float* q, const float* k, float* scores) const {
    V sums[kKeys];
    LAGOON_UNROLL for (size_t i = 0; i < kKeys; ++i) sums[i] = hn::Zero(D());
    const auto add = [&](const auto& io, size_t c) HWY_ATTR {
      const V factor = io.Load(q + c);
      LAGOON_UNROLL for (size_t i = 0; i < kKeys; ++i) {
        sums[i] = hn::MulAdd(factor, io.Load(k + i * args_.k_view.row + c), sums[i]);
      }
    };
    size_t c = 0;
    for (; c + simd::Lanes() <= args_.depth; c += simd::Lanes()) add(simd::Whole(), c);
    if (c < args_.depth) add(simd::Part(args_.depth - c), c);
    LAGOON_UNROLL for (size_t i = 0; i < kKeys; ++i) {
      scores[i] = hn::GetLane(hn::SumOfLanes(D(), sums[i]));
    }
  }

  bool WeighValues() {
    const float* const v = args_.v + Offset(args_.v_view, batch_, KeyHead(), 0);
    if (args_.few_rows) return AddValues(v);
    return Multiply({scores_, args_.score_pitch, 1, rows_.size()},
                    {v, args_.v_view.row, 1, args_.value_depth}, keys_, args_.value_depth,
                    {sums_, args_.value_pitch});
  }

  /// For few rows: sums of the rows of v as they lie there, in the order of the keys.
  bool AddValues(const float* v) {
    const size_t wide = kWideColumns * simd::Lanes();
    for (size_t row = 0; row < rows_.size(); ++row) {
      const float* const weights = scores_ + row * args_.score_pitch;
      float* const sums = sums_ + row * args_.value_pitch;
      size_t c = 0;
      for (; c + wide <= args_.value_depth; c += wide) {
        if (!AddColumns<kWideColumns>(simd::Whole(), v + c, weights, sums + c)) return false;
      }
      for (; c + simd::Lanes() <= args_.value_depth; c += simd::Lanes()) {
        if (!AddColumns<1>(simd::Whole(), v + c, weights, sums + c)) return false;
      }
      if (c == args_.value_depth) continue;
      const simd::Part rest(args_.value_depth - c);
      if (!AddColumns<1>(rest, v + c, weights, sums + c)) return false;
    }
    return true;
  }

  template <size_t kVectors, typename Io>
  HWY_INLINE bool AddColumns(const Io& io, const float* v, const float* weights, float* to) {
    V sums[kVectors];
    LAGOON_UNROLL for (size_t i = 0; i < kVectors; ++i) sums[i] = hn::Zero(D());
    for (size_t key = 0; key < keys_; ++key) {
      if (key % kKeysPerCheck == 0 && Leaves()) return false;
      const V weight = hn::Set(D(), weights[key]);
      const float* const values = v + key * args_.v_view.row;
      LAGOON_UNROLL for (size_t i = 0; i < kVectors; ++i) {
        sums[i] = hn::MulAdd(weight, io.Load(values + i * simd::Lanes()), sums[i]);
      }
    }
    LAGOON_UNROLL for (size_t i = 0; i < kVectors; ++i) io.Store(sums[i], to + i * simd::Lanes());
    return true;
  }

  HWY_INLINE void Mask(size_t row) {
    float* const scores = scores_ + row * args_.score_pitch;
    const size_t at = rows_.begin + row;
    Scale(scores);
    if (args_.keep != nullptr) {
      const std::uint8_t* keep = args_.keep + Offset(args_.keep_view, batch_, head_, at);
      for (size_t j = 0; j < keys_; ++j) {
        if ((keep[j * args_.keep_view.column] != 0) != args_.kept) scores[j] = args_.fill;
      }
    }
    if (args_.mask != nullptr) {
      const size_t batch = batch_ % args_.mask_batches;
      AddMask(args_.mask + Offset(args_.mask_view, batch, head_, at), scores);
    }
    if (args_.has_floor) {
      for (size_t j = 0; j < keys_; ++j) {
        if (scores[j] < args_.floor) scores[j] = args_.floor;
      }
    }
  }

  HWY_INLINE void AddMask(const float* mask, float* scores) const {
    if (args_.mask_view.column == 1) return Add(mask, scores);
    for (size_t j = 0; j < keys_; ++j) scores[j] += mask[j * args_.mask_view.column];
  }

  /// Scores are padded to whole vectors.
  HWY_INLINE void Scale(float* scores) const {
    const V scale = hn::Set(D(), args_.scale);
    for (size_t j = 0; j < keys_; j += simd::Lanes()) {
      simd::Whole::Store(hn::Mul(scale, simd::Whole::Load(scores + j)), scores + j);
    }
  }

  HWY_INLINE void Add(const float* mask, float* scores) const {
    const auto add = [&](const auto& io, size_t j) HWY_ATTR {
      io.Store(hn::Add(io.Load(scores + j), io.Load(mask + j)), scores + j);
    };
    size_t j = 0;
    for (; j + simd::Lanes() <= keys_; j += simd::Lanes()) add(simd::Whole(), j);
    if (j < keys_) add(simd::Part(keys_ - j), j);
  }

  /// scores = exp(scores - largest). Returns the factor that makes their sum 1.
  HWY_INLINE float Exponentials(float* scores) const {
    const size_t lanes = simd::Lanes();
    const V lowest = hn::Set(D(), -std::numeric_limits<float>::infinity());
    for (size_t j = keys_; j % lanes != 0; ++j) scores[j] = hn::GetLane(lowest);
    V max = lowest;
    for (size_t j = 0; j < keys_; j += lanes) {
      max = hn::Max(max, simd::Whole::Load(scores + j));
    }
    max = hn::MaxOfLanes(D(), max);
    V sum = hn::Zero(D());
    for (size_t j = 0; j < keys_; j += lanes) {
      const V x = hn::Sub(simd::Whole::Load(scores + j), max);
      const V e = ExpOrZero(x);
      simd::Whole::Store(e, scores + j);
      sum = hn::Add(sum, e);
    }
    return 1 / hn::GetLane(hn::SumOfLanes(D(), sum));
  }

  HWY_INLINE void Write() const {
    float* y = args_.y + Offset(args_.y_view, batch_, head_, rows_.begin);
    for (size_t row = 0; row < rows_.size(); ++row, y += args_.y_view.row) {
      const V factor = hn::Set(D(), reciprocals_[row]);
      const float* const sums = sums_ + row * args_.value_pitch;
      const auto write = [&](const auto& io, size_t j)
                             HWY_ATTR { io.Store(hn::Mul(factor, io.Load(sums + j)), y + j); };
      size_t j = 0;
      for (; j + simd::Lanes() <= args_.value_depth; j += simd::Lanes()) write(simd::Whole(), j);
      if (j < args_.value_depth) write(simd::Part(args_.value_depth - j), j);
    }
  }

  const AttentionArgs& args_;
  BlockContext* ctx_;
  size_t batch_, head_;
  Range rows_;
  size_t keys_;  // that count
  float *scores_, *sums_, *reciprocals_, *panel_;
};

bool AttentionBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const AttentionArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  auto* const scratch = reinterpret_cast<float*>(ctx.scratch().data());
  BlockContext* const may_leave = tasks.size() == 1 ? &ctx : nullptr;
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    if (!AttentionTile(args, task, scratch, may_leave).Run()) return false;
  }
  return true;
}

}  // namespace

Body PickAttentionBody() { return &AttentionBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <tuple>

#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickAttentionBody);

constexpr char kName[] = "attention";

// Measured on a Xeon at 2 GHz, one thread: a multiply and add with AVX2; an exponential with the
// passes around it.
constexpr double kNsPerProduct = 0.03;
constexpr double kNsPerScore = 1.2;
/// A block of one task checks its guards between panels. Each task packs keys and values, so that
/// few rows cost more.
constexpr double kTaskNs = 100'000;
constexpr std::size_t kMostRows = 96;

Status Check(const AttentionSpec& spec) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(
      kName,
      {{"depth", spec.depth}, {"value_depth", spec.value_depth}, {"sharing", spec.sharing}}));
  LAGOON_RETURN_IF_ERROR(CheckElements(
      kName, "the scores",
      {{"batch", spec.batch}, {"heads", spec.heads}, {"rows", spec.rows}, {"keys", spec.keys}}));
  for (const auto& [name, rows, columns] : {std::tuple{"q", spec.rows, spec.depth},
                                            {"k", spec.keys, spec.depth},
                                            {"v", spec.keys, spec.value_depth},
                                            {"y", spec.rows, spec.value_depth}}) {
    LAGOON_RETURN_IF_ERROR(CheckElements(
        kName, name,
        {{"batch", spec.batch}, {"heads", spec.heads}, {"rows", rows}, {"columns", columns}}));
  }
  if (spec.keys > kMaxAttentionKeys || spec.heads % spec.sharing != 0) {
    return Invalid(kName, fmt::format("{} keys, at most {}; {} heads that share by {}", spec.keys,
                                      kMaxAttentionKeys, spec.heads, spec.sharing));
  }
  if (spec.mask_batches != 0 && spec.batch % spec.mask_batches != 0) {
    return Invalid(kName, fmt::format("a mask that repeats after {} of a batch of {}",
                                      spec.mask_batches, spec.batch));
  }
  if (spec.v.column != 1 || spec.y.column != 1) {
    return Invalid(kName, fmt::format("v and y have columns {} and {} apart, must be 1",
                                      spec.v.column, spec.y.column));
  }
  return {};
}

double RowNs(const AttentionSpec& spec) {
  const auto keys = static_cast<double>(spec.keys);
  return keys * (kNsPerProduct * static_cast<double>(spec.depth + spec.value_depth) + kNsPerScore);
}

std::size_t WholePanels(std::size_t floats) {
  return CeilDivide(floats, kPanelFloats) * kPanelFloats;
}

AttentionArgs ArgsOf(const AttentionSpec& spec) {
  AttentionArgs args;
  args.q_view = spec.q;
  args.k_view = spec.k;
  args.v_view = spec.v;
  args.y_view = spec.y;
  args.mask_view = spec.mask_view;
  args.keep_view = spec.keep_view;
  args.heads = spec.heads;
  args.rows = spec.rows;
  args.keys = spec.keys;
  args.depth = spec.depth;
  args.value_depth = spec.value_depth;
  args.sharing = spec.sharing;
  args.mask_batches = spec.mask_batches == 0 ? spec.batch : spec.mask_batches;
  args.scale = spec.scale;
  args.fill = spec.fill;
  args.kept = spec.kept;
  args.floor = spec.floor;
  args.has_floor = spec.floor != -std::numeric_limits<float>::infinity();
  // The fill is so low that the exponential of its difference to any other score is 0.
  args.skips = spec.keep && !spec.mask && !args.has_floor && spec.fill <= -1e30F;
  args.score_pitch = WholePanels(spec.keys);
  args.value_pitch = WholePanels(spec.value_depth);
  const auto rows = static_cast<std::size_t>(std::max(1.0, kTaskNs / RowNs(spec)));
  args.row_tiles = CeilDivide(spec.rows, std::min(rows, kMostRows));
  args.tile_rows = CeilDivide(spec.rows, args.row_tiles);
  args.few_rows = args.tile_rows <= kFewRows && spec.q.column == 1 && spec.k.column == 1;
  args.tasks = spec.batch * spec.heads * args.row_tiles;
  return args;
}

}  // namespace

Result<Kernel> MakeAttention(const AttentionSpec& spec) {
  LAGOON_RETURN_IF_ERROR(Check(spec));
  AttentionArgs args = ArgsOf(spec);
  const auto rows = static_cast<double>(spec.batch * spec.heads * spec.rows);
  args.blocks = BlocksFor(rows * RowNs(spec), args.tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickAttentionBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.scratch_bytes = (args.tile_rows * (args.score_pitch + args.value_pitch + 1) +
                          kAttentionDepth * kPanelFloats) *
                         sizeof(float);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(AttentionArgs, q), offsetof(AttentionArgs, k),
                   offsetof(AttentionArgs, v)};
  if (spec.mask) kernel.inputs.push_back(offsetof(AttentionArgs, mask));
  if (spec.keep) kernel.inputs.push_back(offsetof(AttentionArgs, keep));
  kernel.outputs = {offsetof(AttentionArgs, y)};
  const auto keys = static_cast<double>(spec.keys);
  const auto depths = static_cast<double>(spec.depth + spec.value_depth);
  kernel.flops = rows * keys * (2 * depths + 4);
  const std::size_t key_heads = spec.batch * (spec.heads / spec.sharing);
  kernel.bytes_moved = sizeof(float) * depths * (rows + keys * static_cast<double>(key_heads));
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
