#pragma once

// Elementwise ops on elements of any type, with the results of the CPU's row functions.

#include "kernels/cuda/bodies/elementwise.cuh"

namespace lagoon::cuda {

template <typename From, typename To>
LAGOON_DEVICE void CastElements(const CastArgs& args, u32 begin, u32 end) {
  LAGOON_NO_UNROLL
  for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) {
    static_cast<To*>(args.y)[i] = FromFloat<To>(ToFloat(static_cast<const From*>(args.x)[i]));
  }
}

LAGOON_DEVICE double RealAt(ElementType type, const void* x, u32 i) {
  switch (type) {
    case ElementType::kBf16:
      return ToFloat(static_cast<const Bf16*>(x)[i]);
    case ElementType::kF16:
      return ToFloat(static_cast<const F16*>(x)[i]);
    case ElementType::kF64:
      return static_cast<const double*>(x)[i];
    default:
      return static_cast<const float*>(x)[i];
  }
}

/// Element `i` as i64. u64 values from 2^63 on become negative.
LAGOON_DEVICE i64 IntegerAt(ElementType type, const void* x, u32 i) {
  switch (type) {
    case ElementType::kBool:  // any byte but 0 is true
      return static_cast<const u8*>(x)[i] != 0 ? 1 : 0;
    case ElementType::kI8:
      return static_cast<const signed char*>(x)[i];
    case ElementType::kI16:
      return static_cast<const short*>(x)[i];
    case ElementType::kI32:
      return static_cast<const i32*>(x)[i];
    case ElementType::kU16:
      return static_cast<const u16*>(x)[i];
    case ElementType::kU32:
      return static_cast<const u32*>(x)[i];
    case ElementType::kI64:
    case ElementType::kU64:
      return static_cast<const i64*>(x)[i];
    default:
      return static_cast<const u8*>(x)[i];
  }
}

/// Stores `value`; narrower types wrap around.
LAGOON_DEVICE void PutInteger(ElementType type, void* y, u32 i, i64 value) {
  switch (type) {
    case ElementType::kBool:
      static_cast<u8*>(y)[i] = value != 0 ? 1 : 0;
      break;
    case ElementType::kI16:
    case ElementType::kU16:
      static_cast<u16*>(y)[i] = static_cast<u16>(value);
      break;
    case ElementType::kI32:
    case ElementType::kU32:
      static_cast<u32*>(y)[i] = static_cast<u32>(value);
      break;
    case ElementType::kI64:
    case ElementType::kU64:
      static_cast<i64*>(y)[i] = value;
      break;
    default:
      static_cast<u8*>(y)[i] = static_cast<u8>(value);
      break;
  }
}

LAGOON_DEVICE void PutFloat(ElementType type, void* y, u32 i, float value) {
  switch (type) {
    case ElementType::kBf16:
      static_cast<Bf16*>(y)[i] = FromFloat<Bf16>(value);
      break;
    case ElementType::kF16:
      static_cast<F16*>(y)[i] = FromFloat<F16>(value);
      break;
    default:
      static_cast<float*>(y)[i] = value;
      break;
  }
}

/// `value` rounded towards zero and limited to the type's range; NaN becomes 0.
LAGOON_DEVICE i64 Saturated(ElementType type, double value) {
  if (value != value) return 0;
  constexpr double kTwo63 = 9223372036854775808.0;
  if (type == ElementType::kU64) {
    if (value <= 0) return 0;
    if (value >= 2 * kTwo63) return -1;
    return value >= kTwo63 ? static_cast<i64>(static_cast<u64>(value)) : static_cast<i64>(value);
  }
  const bool is_signed = type <= ElementType::kI64;
  const u32 bits = BitsOf(type);
  if (bits == 64) {
    if (value <= -kTwo63) return static_cast<i64>(u64{1} << 63);
    return value >= kTwo63 ? static_cast<i64>(~u64{0} >> 1) : static_cast<i64>(value);
  }
  const i64 high = (i64{1} << (is_signed ? bits - 1 : bits)) - 1;
  const i64 low = is_signed ? -high - 1 : 0;
  if (value <= static_cast<double>(low)) return low;
  return value >= static_cast<double>(high) ? high : static_cast<i64>(value);
}

/// Converts as ConvertElement() of plan/element.h.
LAGOON_DEVICE_CALL void CastAny(const CastArgs& args, u32 begin, u32 end) {
  const auto from = static_cast<ElementType>(args.from), to = static_cast<ElementType>(args.to);
  LAGOON_NO_UNROLL
  for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) {
    if (from <= ElementType::kF64) {
      const double value = RealAt(from, args.x, i);
      if (to < ElementType::kF64) {
        PutFloat(to, args.y, i, static_cast<float>(value));
      } else if (to == ElementType::kF64) {
        static_cast<double*>(args.y)[i] = value;
      } else {
        PutInteger(to, args.y, i, to == ElementType::kBool ? value != 0 : Saturated(to, value));
      }
      continue;
    }
    const i64 value = IntegerAt(from, args.x, i);
    const bool large = from == ElementType::kU64;
    if (to < ElementType::kF64) {
      PutFloat(to, args.y, i,
               large ? static_cast<float>(static_cast<u64>(value)) : static_cast<float>(value));
    } else if (to == ElementType::kF64) {
      static_cast<double*>(args.y)[i] =
          large ? static_cast<double>(static_cast<u64>(value)) : static_cast<double>(value);
    } else {
      PutInteger(to, args.y, i, value);
    }
  }
}

LAGOON_DEVICE bool CastBody(const CastArgs& args, u32 tile, unsigned char* /*shared*/,
                            const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 begin = tile * kElementTile;
  const u32 end = Min(args.count, begin + kElementTile);
  const auto from = static_cast<ElementType>(args.from), to = static_cast<ElementType>(args.to);
  if (from == ElementType::kF32 && to == ElementType::kBf16) {  // before every bf16 product
    CastElements<float, Bf16>(args, begin, end);
  } else {
    CastAny(args, begin, end);
  }
  return true;
}

/// Flags are 0 and 1, so that And and Or use the functions for numbers.
LAGOON_DEVICE void TypedBinaryElement(const TypedBinaryArgs& args, u32 i, u32 a, u32 b) {
  const auto op = static_cast<BinaryOp>(args.op);
  const auto type = static_cast<ElementType>(args.type);
  const auto out = IsCompare(op) ? ElementType::kBool : type;
  if (type > ElementType::kF64) {
    PutInteger(out, args.y, i,
               ApplyInteger(op, type, IntegerAt(type, args.a, a), IntegerAt(type, args.b, b)));
    return;
  }
  const double x = RealAt(type, args.a, a), y = RealAt(type, args.b, b);
  if (IsCompare(op)) {
    PutInteger(out, args.y, i, Compared(op, x, y) ? 1 : 0);
  } else if (type == ElementType::kF64) {
    static_cast<double*>(args.y)[i] = Arithmetic(op, x, y);
  } else {
    PutFloat(type, args.y, i, ApplyBinary(op, static_cast<float>(x), static_cast<float>(y)));
  }
}

LAGOON_DEVICE_CALL void TypedBinaryElements(const TypedBinaryArgs& args, u32 begin, u32 end) {
  LAGOON_NO_UNROLL
  for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) {
    i64 offsets[2];
    OffsetsAt(args.axes, i, offsets);
    TypedBinaryElement(args, i, static_cast<u32>(offsets[0]), static_cast<u32>(offsets[1]));
  }
}

LAGOON_DEVICE bool TypedBinaryBody(const TypedBinaryArgs& args, u32 tile, unsigned char* /*shared*/,
                                   const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 begin = tile * kElementTile;
  TypedBinaryElements(args, begin, Min(args.count, begin + kElementTile));
  return true;
}

LAGOON_DEVICE void TypedUnaryElement(const TypedUnaryArgs& args, u32 i) {
  const auto op = static_cast<UnaryOp>(args.op);
  const auto type = static_cast<ElementType>(args.type);
  if (type > ElementType::kF64) {
    PutInteger(type, args.y, i, UnaryInteger(op, type, IntegerAt(type, args.x, i)));
    return;
  }
  const double x = RealAt(type, args.x, i);
  if (op == UnaryOp::kIsNaN) {
    PutInteger(ElementType::kBool, args.y, i, x != x ? 1 : 0);
  } else if (op == UnaryOp::kIsInf) {
    const bool infinite = x - x != x - x && x == x;
    const bool counts = (x < 0 ? args.alpha : args.beta) != 0;
    PutInteger(ElementType::kBool, args.y, i, infinite && counts ? 1 : 0);
  } else {
    PutFloat(type, args.y, i, ApplyUnary(op, static_cast<float>(x), args.alpha, args.beta));
  }
}

LAGOON_DEVICE_CALL void TypedUnaryElements(const TypedUnaryArgs& args, u32 begin, u32 end) {
  LAGOON_NO_UNROLL
  for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) TypedUnaryElement(args, i);
}

LAGOON_DEVICE bool TypedUnaryBody(const TypedUnaryArgs& args, u32 tile, unsigned char* /*shared*/,
                                  const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 begin = tile * kElementTile;
  TypedUnaryElements(args, begin, Min(args.count, begin + kElementTile));
  return true;
}

struct WhereElements {
  template <typename T>
  LAGOON_DEVICE static void Move(const WhereArgs& args, u32 begin, u32 end) {
    LAGOON_NO_UNROLL
    for (u32 i = begin + threadIdx.x; i < end; i += kBodyThreads) {
      i64 offsets[3];
      OffsetsAt(args.axes, i, offsets);
      static_cast<T*>(args.y)[i] = args.condition[offsets[0]] != 0
                                       ? static_cast<const T*>(args.a)[offsets[1]]
                                       : static_cast<const T*>(args.b)[offsets[2]];
    }
  }
};

LAGOON_DEVICE_CALL void WhereAny(const WhereArgs& args, u32 begin, u32 end) {
  ByElementBytes<WhereElements>(args, begin, end);
}

LAGOON_DEVICE bool WhereBody(const WhereArgs& args, u32 tile, unsigned char* /*shared*/,
                             const BlockControl& control) {
  if (!control.SyncShouldStart()) return false;
  const u32 begin = tile * kElementTile;
  WhereAny(args, begin, Min(args.count, begin + kElementTile));
  return true;
}

}  // namespace lagoon::cuda
