#pragma once

// Attention of several heads in fp32: scores and probabilities stay on the SM. A block has some
// queries of one head and walks over the keys. Its sums are rescaled when a greater score comes
// (online softmax: Milakov and Gimelshein 2018).

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

/// The walk of one block. Thread t has query t / 16. Of the keys of a step it has numbers t % 16
/// and t % 16 + 16, and of the columns of the values every 16th one from t % 16 on. So one half of
/// a warp has all that a query needs.
class AttentionWalk {
 public:
  LAGOON_DEVICE AttentionWalk(const AttentionArgs& args, u32 tile, unsigned char* shared)
      : args_(args),
        batch_(tile / args.row_tiles / args.heads),
        head_(tile / args.row_tiles % args.heads),
        row0_(tile % args.row_tiles * kAttentionRows),
        queries_(reinterpret_cast<float*>(shared)),
        keys_(queries_ + kAttentionRows * args.pitch),
        values_(keys_ + kAttentionKeys * args.pitch),
        weights_(values_ + kAttentionKeys * args.pitch) {}

  LAGOON_DEVICE void LoadQueries() {
    Load(args_.q, args_.q_view, head_, row0_, args_.rows, kAttentionRows, args_.depth, queries_);
  }

  LAGOON_DEVICE void LoadKeys(u32 key0) {
    const u32 head = head_ / args_.sharing;
    Load(args_.k, args_.k_view, head, key0, args_.keys, kAttentionKeys, args_.depth, keys_);
    Load(args_.v, args_.v_view, head, key0, args_.keys, kAttentionKeys, args_.value_depth, values_);
  }

  /// Call after a barrier behind the loads. The next loads need another barrier.
  LAGOON_DEVICE void Step(u32 key0) {
    const float scores[2] = {Score(key0, Lane()), Score(key0, Lane() + 16)};
    float max = fmaxf(scores[0], scores[1]);
    LAGOON_UNROLL
    for (i32 lanes = 8; lanes > 0; lanes /= 2) {
      max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, lanes));
    }
    max = fmaxf(max, max_);
    // No score so far is above -infinity: the sums are zero, so there is nothing to rescale.
    const bool none = max == -Infinity();
    const float correction = none ? 1 : expf(max_ - max);
    max_ = max;
    float sum = 0;
    LAGOON_UNROLL
    for (u32 i = 0; i < 2; ++i) {
      const float weight = none ? 0 : expf(scores[i] - max);
      weights_[Query() * kWeightPitch + Lane() + i * 16] = weight;
      sum += weight;
    }
    LAGOON_UNROLL
    for (i32 lanes = 8; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
    total_ = total_ * correction + sum;
    __syncwarp();
    AddValues(correction);
  }

  LAGOON_DEVICE void Write() const {
    const u32 row = row0_ + Query();
    if (row >= args_.rows) return;
    const AttentionOperand& view = args_.y_view;
    float* const y = args_.y + batch_ * view.batch + head_ * view.head + row * view.row;
    LAGOON_UNROLL
    for (u32 i = 0; i < kColumns; ++i) {
      const u32 column = Lane() + i * 16;
      if (column < args_.value_depth) y[column] = sums_[i] / total_;
    }
  }

 private:
  static constexpr u32 kColumns = kMaxAttentionDepth / 16;
  static constexpr u32 kWeightPitch = kAttentionKeys + 1;

  static LAGOON_DEVICE u32 Query() { return threadIdx.x / 16; }
  static LAGOON_DEVICE u32 Lane() { return threadIdx.x % 16; }

  /// Loads rows to shared memory. Rows behind the last one become zero.
  LAGOON_DEVICE void Load(const float* from, const AttentionOperand& view, u32 head, u32 row0,
                          u32 rows, u32 count, u32 depth, float* shared) const {
    const float* const operand = from + batch_ * view.batch + head * view.head;
    LAGOON_UNROLL_BY_8
    for (u32 i = threadIdx.x; i < count * depth; i += kBodyThreads) {
      const u32 row = row0 + i / depth, column = i % depth;
      shared[i / depth * args_.pitch + column] =
          row < rows ? operand[row * view.row + column * view.column] : 0;
    }
  }

  LAGOON_DEVICE float Score(u32 key0, u32 at) const {
    const u32 key = key0 + at, row = row0_ + Query();
    if (key >= args_.keys || row >= args_.rows) return -Infinity();
    const float* const q = queries_ + Query() * args_.pitch;
    const float* const k = keys_ + at * args_.pitch;
    float score = 0;
    LAGOON_UNROLL_BY_8
    for (u32 d = 0; d < args_.depth; ++d) score += q[d] * k[d];
    score *= args_.scale;
    if (args_.keep != nullptr &&
        (args_.keep[PlaceOf(args_.keep_view, row, key)] != 0) != (args_.kept != 0)) {
      score = args_.fill;
    }
    if (args_.mask != nullptr) score += args_.mask[PlaceOf(args_.mask_view, row, key)];
    return score < args_.floor ? args_.floor : score;
  }

  LAGOON_DEVICE i64 PlaceOf(const AttentionOperand& view, u32 row, u32 key) const {
    return batch_ * view.batch + head_ * view.head + row * view.row + key * view.column;
  }

  LAGOON_DEVICE void AddValues(float correction) {
    LAGOON_UNROLL
    for (u32 i = 0; i < kColumns; ++i) {
      const u32 column = Lane() + i * 16;
      if (column >= args_.value_depth) continue;
      float sum = sums_[i] * correction;
      LAGOON_UNROLL_BY_8
      for (u32 key = 0; key < kAttentionKeys; ++key) {
        sum += weights_[Query() * kWeightPitch + key] * values_[key * args_.pitch + column];
      }
      sums_[i] = sum;
    }
  }

  const AttentionArgs& args_;
  u32 batch_, head_, row0_;
  float* queries_;
  float* keys_;
  float* values_;
  float* weights_;
  float max_ = -Infinity(), total_ = 0;
  float sums_[kColumns] = {};
};

LAGOON_DEVICE bool AttentionBody(const AttentionArgs& args, u32 tile, unsigned char* shared,
                                 const BlockControl& control) {
  AttentionWalk walk(args, tile, shared);
  walk.LoadQueries();
  LAGOON_NO_UNROLL
  for (u32 step = 0, key0 = 0; key0 < args.keys; ++step, key0 += kAttentionKeys) {
    const bool leave = step % kAttentionStepsPerCheck == 0 && control.ShouldLeave();
    walk.LoadKeys(key0);
    if (__syncthreads_or(leave)) return false;
    walk.Step(key0);
    __syncthreads();
  }
  if (control.SyncShouldLeave()) return false;
  walk.Write();
  return true;
}

}  // namespace lagoon::cuda
