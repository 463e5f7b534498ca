#pragma once

// Elementwise ops and moves of elements.

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

/// x and y must be aligned to 16 bytes.
LAGOON_DEVICE bool UnaryBody(const UnaryArgs& args, u32 tile, unsigned char* /*shared*/,
                             const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const auto op = static_cast<UnaryOp>(args.op);
  const u32 end = Min(args.count, (tile + 1) * kElementTile);
  LAGOON_NO_UNROLL
  for (u32 i = tile * kElementTile + threadIdx.x * 4; i < end; i += kBodyThreads * 4) {
    float values[4];
    const u32 count = Min(end - i, 4u);
    if (count == 4) {
      const float4 four = *reinterpret_cast<const float4*>(args.x + i);
      values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
    } else {
      for (u32 j = 0; j < 4; ++j) values[j] = j < count ? args.x[i + j] : 0;
    }
    LAGOON_UNROLL
    for (u32 j = 0; j < 4; ++j) values[j] = ApplyUnary(op, values[j], args.alpha, args.beta);
    if (count == 4) {
      *reinterpret_cast<float4*>(args.y + i) =
          make_float4(values[0], values[1], values[2], values[3]);
    } else {
      for (u32 j = 0; j < count; ++j) args.y[i + j] = values[j];
    }
  }
  return true;
}

LAGOON_DEVICE bool BinaryBody(const BinaryArgs& args, u32 tile, unsigned char* /*shared*/,
                              const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 end = Min(args.count, (tile + 1) * kElementTile);
  LAGOON_NO_UNROLL
  for (u32 i = tile * kElementTile + threadIdx.x; i < end; i += kBodyThreads) {
    i64 offsets[2];
    OffsetsAt(args.axes, i, offsets);
    const float y =
        ApplyBinary(static_cast<BinaryOp>(args.op), args.a[offsets[0]], args.b[offsets[1]]);
    args.y[i] = Finished(args.epilogue, y, 0, i);
  }
  return true;
}

/// Calls Elements::Move<T> with a T that has as many bytes as an element: 1, 2, 4 or 8.
template <typename Elements, typename Args>
LAGOON_DEVICE void ByElementBytes(const Args& args, u32 begin, u32 end) {
  if (args.element_bytes == 4) {
    Elements::template Move<u32>(args, begin, end);
  } else if (args.element_bytes == 2) {
    Elements::template Move<u16>(args, begin, end);
  } else if (args.element_bytes == 1) {
    Elements::template Move<u8>(args, begin, end);
  } else {
    Elements::template Move<u64>(args, begin, end);
  }
}

struct CopyElements {
  template <typename T>
  LAGOON_DEVICE static void Move(const StridedCopyArgs& args, u32 begin, u32 end) {
    LAGOON_NO_UNROLL
    for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) {
      i64 offset[1];
      OffsetsAt(args.axes, i, offset);
      static_cast<T*>(args.y)[i] = static_cast<const T*>(args.x)[args.start + offset[0]];
    }
  }
};

LAGOON_DEVICE_CALL void CopyFinished(const StridedCopyArgs& args, u32 begin, u32 end) {
  LAGOON_NO_UNROLL
  for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) {
    i64 offset[1];
    OffsetsAt(args.axes, i, offset);
    const float x = static_cast<const float*>(args.x)[args.start + offset[0]];
    static_cast<float*>(args.y)[i] = Finished(args.epilogue, x, 0, i);
  }
}

LAGOON_DEVICE bool StridedCopyBody(const StridedCopyArgs& args, u32 tile, unsigned char* /*shared*/,
                                   const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 begin = tile * kElementTile;
  const u32 end = Min(args.count, begin + kElementTile);
  if (args.finished != 0) {
    CopyFinished(args, begin, end);
  } else {
    ByElementBytes<CopyElements>(args, begin, end);
  }
  return true;
}

/// `shared`: kFlipTile * (kFlipTile + 1) words. The odd pitch keeps columns on different banks.
LAGOON_DEVICE bool FlipBody(const FlipArgs& args, u32 tile, unsigned char* shared,
                            const BlockControl& control) {
  constexpr u32 kPitch = kFlipTile + 1;
  u32* const words = reinterpret_cast<u32*>(shared);
  const u32 per_matrix = args.row_tiles * args.column_tiles;
  const u64 matrix = u64{tile / per_matrix} * args.rows * args.columns;
  const u32 row0 = tile % per_matrix / args.column_tiles * kFlipTile;
  const u32 column0 = tile % args.column_tiles * kFlipTile;
  const u32 fast = threadIdx.x % kFlipTile, slow = threadIdx.x / kFlipTile;
  const bool leave = control.ShouldLeave();
  LAGOON_UNROLL
  for (u32 i = slow; i < kFlipTile; i += kBodyThreads / kFlipTile) {
    const u32 row = row0 + i, column = column0 + fast;
    if (row < args.rows && column < args.columns) {
      words[i * kPitch + fast] = args.x[matrix + u64{row} * args.columns + column];
    }
  }
  if (__syncthreads_or(leave)) return false;
  LAGOON_UNROLL
  for (u32 i = slow; i < kFlipTile; i += kBodyThreads / kFlipTile) {
    const u32 row = row0 + fast, column = column0 + i;
    if (row < args.rows && column < args.columns) {
      args.y[matrix + u64{column} * args.rows + row] = words[fast * kPitch + i];
    }
  }
  return true;
}

/// Where the run of the entry begins in x, or -1 if an index is out of range.
LAGOON_DEVICE i64 GatherTarget(const GatherArgs& args, u32 entry) {
  i64 offsets[2];
  OffsetsAt(args.entries, entry, offsets);
  i64 target = offsets[1];
  LAGOON_NO_UNROLL
  for (u32 n = 0; n < args.tuple; ++n) {
    const i64 at = offsets[0] + n;
    i64 index = args.wide != 0 ? static_cast<const i64*>(args.indices)[at]
                               : i64{static_cast<const i32*>(args.indices)[at]};
    if (index < 0) index += args.sizes[n];
    if (index < 0 || index >= args.sizes[n]) return -1;
    target += index * args.strides[n];
  }
  return target;
}

struct GatherElements {
  template <typename T>
  LAGOON_DEVICE static void Move(const GatherArgs& args, u32 begin, u32 end) {
    LAGOON_NO_UNROLL
    for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) {
      const i64 target = GatherTarget(args, i / args.run);
      reinterpret_cast<T*>(args.y)[i] =
          target < 0 ? T{0} : reinterpret_cast<const T*>(args.x)[target + i % args.run];
    }
  }
};

LAGOON_DEVICE bool GatherBody(const GatherArgs& args, u32 tile, unsigned char* /*shared*/,
                              const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 begin = tile * kElementTile;
  const u32 end = Min(args.count, begin + kElementTile);
  ByElementBytes<GatherElements>(args, begin, end);
  return true;
}

/// The part of `ends` that contains `at`. `begin`: where that part begins.
LAGOON_DEVICE u32 PartOf(const u32* ends, u32 parts, u32 at, u32& begin) {
  u32 part = 0;
  begin = 0;
  while (part + 1 < parts && at >= ends[part]) begin = ends[part++];
  return part;
}

struct ConcatElements {
  template <typename T>
  LAGOON_DEVICE static void Move(const ConcatArgs& args, u32 begin, u32 end) {
    const u32 axis = args.ends[args.parts - 1];
    LAGOON_NO_UNROLL
    for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) {
      const u32 at = i / args.inner % axis;
      u32 first;
      const u32 part = PartOf(args.ends, args.parts, at, first);
      const u64 row = u64{i / args.inner / axis} * (args.ends[part] - first) + (at - first);
      static_cast<T*>(args.y)[i] =
          static_cast<const T*>(args.x[part])[row * args.inner + i % args.inner];
    }
  }
};

LAGOON_DEVICE bool ConcatBody(const ConcatArgs& args, u32 tile, unsigned char* /*shared*/,
                              const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 begin = tile * kElementTile;
  const u32 end = Min(args.count, begin + kElementTile);
  ByElementBytes<ConcatElements>(args, begin, end);
  return true;
}

struct TakeElements {
  template <typename T>
  LAGOON_DEVICE static void Move(const TakeArgs& args, u32 begin, u32 end) {
    LAGOON_NO_UNROLL
    for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) {
      i64 from = 0;
      bool fill = false;
      u32 rest = i;
      LAGOON_NO_UNROLL
      for (u32 axis = args.rank; axis-- > 0;) {
        const i64 offset = args.table[args.begin[axis] + rest % args.dims[axis]];
        rest /= args.dims[axis];
        fill = fill || offset < 0;
        from += offset;
      }
      static_cast<T*>(args.y)[i] =
          fill ? static_cast<T>(args.fill) : static_cast<const T*>(args.x)[from];
    }
  }
};

LAGOON_DEVICE bool TakeBody(const TakeArgs& args, u32 tile, unsigned char* /*shared*/,
                            const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 begin = tile * kElementTile;
  const u32 end = Min(args.count, begin + kElementTile);
  ByElementBytes<TakeElements>(args, begin, end);
  return true;
}

LAGOON_DEVICE bool ChannelAffineBody(const ChannelAffineArgs& args, u32 tile,
                                     unsigned char* /*shared*/, const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 channels = args.ends[args.parts - 1];
  const u32 end = Min(args.count, (tile + 1) * kElementTile);
  LAGOON_NO_UNROLL
  for (u32 i = tile * kElementTile + threadIdx.x; i < end; i += kBodyThreads) {
    const u32 channel = i % channels;
    u32 first;
    const u32 part = PartOf(args.ends, args.parts, channel, first);
    const u64 at = u64{i / channels} * (args.ends[part] - first) + (channel - first);
    const float value = args.x[part][at] * args.scale[channel] + args.shift[channel];
    args.y[i] = Finished(args.epilogue, value, channel, i);
  }
  return true;
}

}  // namespace lagoon::cuda
