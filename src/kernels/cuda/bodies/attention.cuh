#pragma once

// Attention of several heads in fp32: scores and probabilities stay on the SM. A block has some
// queries of one head and walks over the keys. Its sums are rescaled when a greater score comes
// (online softmax: Milakov and Gimelshein 2018).

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

/// The walk of one block. Thread t has query t / 16. Of the keys of a step it has every 16th one
/// from t % 16 on, and of the columns of the values four of every 64 from 4 * (t % 16) on. So one
/// half of a warp has all that a query needs. The operands of the next step arrive while a step is
/// computed.
class AttentionWalk {
 public:
  LAGOON_DEVICE AttentionWalk(const AttentionArgs& args, u32 tile, unsigned char* shared)
      : args_(args),
        batch_(tile / args.row_tiles / args.heads),
        mask_batch_(batch_ % args.mask_batches),
        head_(tile / args.row_tiles % args.heads),
        row0_(tile % args.row_tiles * kAttentionRows),
        queries_(reinterpret_cast<float*>(shared)),
        stages_(queries_ + kAttentionRows * args.pitch),
        weights_(stages_ + 4 * kAttentionKeys * args.pitch) {}

  LAGOON_DEVICE void LoadQueries() {
    Load(args_.q, args_.q_view, head_, row0_, args_.rows, kAttentionRows, args_.depth, queries_);
  }

  /// Begins to copy the keys and values of a step.
  LAGOON_DEVICE void LoadKeys(u32 step) {
    const u32 head = head_ / args_.sharing, key0 = step * kAttentionKeys;
    float* const keys = KeysOf(step);
    Load(args_.k, args_.k_view, head, key0, args_.keys, kAttentionKeys, args_.depth, keys);
    Load(args_.v, args_.v_view, head, key0, args_.keys, kAttentionKeys, args_.value_depth,
         ValuesOf(step));
  }

  /// Call after a barrier behind the copies. Copies to the same stage need another barrier.
  LAGOON_DEVICE void Step(u32 step) {
    float scores[kKeysOfLane];
    Scores(step, scores);
    float max = max_;
    LAGOON_UNROLL
    for (u32 i = 0; i < kKeysOfLane; ++i) max = fmaxf(max, scores[i]);
    LAGOON_UNROLL
    for (i32 lanes = 8; lanes > 0; lanes /= 2) {
      max = fmaxf(max, __shfl_xor_sync(kAllLanes, max, lanes));
    }
    // No score so far is above -infinity: the sums are zero, so there is nothing to rescale.
    const bool none = max == -Infinity();
    const float correction = none ? 1 : expf(max_ - max);
    max_ = max;
    float sum = 0;
    LAGOON_UNROLL
    for (u32 i = 0; i < kKeysOfLane; ++i) {
      const float weight = none ? 0 : expf(scores[i] - max);
      weights_[Query() * kWeightPitch + Lane() + i * 16] = weight;
      sum += weight;
    }
    LAGOON_UNROLL
    for (i32 lanes = 8; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
    total_ = total_ * correction + sum;
    __syncwarp();
    AddValues(ValuesOf(step), correction);
  }

  LAGOON_DEVICE void Write() const {
    const u32 row = row0_ + Query();
    if (row >= args_.rows) return;
    const AttentionOperand& view = args_.y_view;
    float* const y = args_.y + batch_ * view.batch + head_ * view.head + row * view.row;
    LAGOON_UNROLL
    for (u32 i = 0; i < kColumns; ++i) {
      LAGOON_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        const u32 column = Column(i) + j;
        if (column < args_.value_depth) y[column] = sums_[i][j] / total_;
      }
    }
  }

 private:
  static constexpr u32 kKeysOfLane = kAttentionKeys / 16;
  static constexpr u32 kColumns = kMaxAttentionDepth / 64;  // groups of four
  static constexpr u32 kWeightPitch = kAttentionWeightPitch;

  static LAGOON_DEVICE u32 Query() { return threadIdx.x / 16; }
  static LAGOON_DEVICE u32 Lane() { return threadIdx.x % 16; }
  static LAGOON_DEVICE u32 Column(u32 i) { return Lane() * 4 + i * 64; }
  static LAGOON_DEVICE float4 Four(const float* from) {
    return *reinterpret_cast<const float4*>(from);
  }

  LAGOON_DEVICE float* KeysOf(u32 step) const {
    return stages_ + step % 2 * 2 * kAttentionKeys * args_.pitch;
  }
  LAGOON_DEVICE float* ValuesOf(u32 step) const {
    return KeysOf(step) + kAttentionKeys * args_.pitch;
  }

  /// Begins to copy rows to shared memory. Rows behind the last one become zero, and so do columns
  /// up to the next multiple of four.
  LAGOON_DEVICE void Load(const float* from, const AttentionOperand& view, u32 head, u32 row0,
                          u32 rows, u32 count, u32 depth, float* shared) const {
    const float* const operand = from + batch_ * view.batch + head * view.head;
    const u32 fours = DivideUp(depth, 4);
    const bool whole =
        view.column == 1 && depth % 4 == 0 && (view.batch % 4 | view.head % 4 | view.row % 4) == 0;
    if (whole) {
      LAGOON_UNROLL_BY_4
      for (u32 i = threadIdx.x; i < count * fours; i += kBodyThreads) {
        const u32 at = i / fours, row = row0 + at, column = i % fours * 4;
        const bool there = row < rows;
        CopyAsync16(shared + at * args_.pitch + column,
                    there ? operand + row * view.row + column : from, there ? 16 : 0);
      }
      return;
    }
    LAGOON_UNROLL_BY_4
    for (u32 i = threadIdx.x; i < count * fours * 4; i += kBodyThreads) {
      const u32 at = i / (fours * 4), row = row0 + at, column = i % (fours * 4);
      const bool there = row < rows && column < depth;
      CopyAsync4(shared + at * args_.pitch + column,
                 there ? operand + row * view.row + column * view.column : from, there ? 4 : 0);
    }
  }

  LAGOON_DEVICE void Scores(u32 step, float (&scores)[kKeysOfLane]) const {
    const float* const q = queries_ + Query() * args_.pitch;
    const float* const k = KeysOf(step) + Lane() * args_.pitch;
    LAGOON_UNROLL
    for (u32 i = 0; i < kKeysOfLane; ++i) scores[i] = 0;
    LAGOON_UNROLL_BY_4
    for (u32 d = 0; d < args_.depth; d += 4) {
      const float4 left = Four(q + d);
      LAGOON_UNROLL
      for (u32 i = 0; i < kKeysOfLane; ++i) {
        const float4 right = Four(k + i * 16 * args_.pitch + d);
        scores[i] += left.x * right.x;
        scores[i] += left.y * right.y;
        scores[i] += left.z * right.z;
        scores[i] += left.w * right.w;
      }
    }
    LAGOON_UNROLL
    for (u32 i = 0; i < kKeysOfLane; ++i) {
      scores[i] = Masked(scores[i] * args_.scale, step * kAttentionKeys + Lane() + i * 16);
    }
  }

  LAGOON_DEVICE float Masked(float score, u32 key) const {
    const u32 row = row0_ + Query();
    if (key >= args_.keys || row >= args_.rows) return -Infinity();
    if (args_.keep != nullptr &&
        (args_.keep[PlaceOf(args_.keep_view, batch_, row, key)] != 0) != (args_.kept != 0)) {
      score = args_.fill;
    }
    if (args_.mask != nullptr) {
      score += args_.mask[PlaceOf(args_.mask_view, mask_batch_, row, key)];
    }
    return score < args_.floor ? args_.floor : score;
  }

  LAGOON_DEVICE i64 PlaceOf(const AttentionOperand& view, u32 batch, u32 row, u32 key) const {
    return batch * view.batch + head_ * view.head + row * view.row + key * view.column;
  }

  LAGOON_DEVICE void AddValues(const float* values, float correction) {
    const float* const weights = weights_ + Query() * kWeightPitch;
    LAGOON_UNROLL
    for (u32 i = 0; i < kColumns; ++i) {
      if (Column(i) >= args_.value_depth) continue;
      LAGOON_UNROLL
      for (u32 j = 0; j < 4; ++j) sums_[i][j] *= correction;
      LAGOON_UNROLL_BY_4
      for (u32 key = 0; key < kAttentionKeys; key += 4) {
        const float4 four = Four(weights + key);
        const float weight[4] = {four.x, four.y, four.z, four.w};
        LAGOON_UNROLL
        for (u32 j = 0; j < 4; ++j) {
          const float4 value = Four(values + (key + j) * args_.pitch + Column(i));
          sums_[i][0] += weight[j] * value.x;
          sums_[i][1] += weight[j] * value.y;
          sums_[i][2] += weight[j] * value.z;
          sums_[i][3] += weight[j] * value.w;
        }
      }
    }
  }

  const AttentionArgs& args_;
  u32 batch_, mask_batch_, head_, row0_;
  float* queries_;
  float* stages_;  // two of keys and values
  float* weights_;
  float max_ = -Infinity(), total_ = 0;
  float sums_[kColumns][4] = {};
};

LAGOON_DEVICE bool AttentionBody(const AttentionArgs& args, u32 tile, unsigned char* shared,
                                 const BlockControl& control) {
  AttentionWalk walk(args, tile, shared);
  const u32 steps = DivideUp(args.keys, kAttentionKeys);
  walk.LoadQueries();
  walk.LoadKeys(0);
  CommitCopies();
  LAGOON_NO_UNROLL
  for (u32 step = 0; step < steps; ++step) {
    const bool leave = control.ShouldLeave();
    if (step + 1 < steps) walk.LoadKeys(step + 1);
    CommitCopies();
    WaitCopies<1>();
    if (__syncthreads_or(leave)) {
      WaitCopies<0>();
      return false;
    }
    walk.Step(step);
    __syncthreads();  // the stage is free
  }
  WaitCopies<0>();
  walk.Write();  // the guards were read one step ago
  return true;
}

}  // namespace lagoon::cuda
