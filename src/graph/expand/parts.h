#pragma once

// Parts of compositions that several families share. They write nodes with `w` and return a value.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/expand/writer.h"

namespace lagoon {

/// The activation function of a fused op. `op`: empty for none. `parameters`: in the order of ONNX
/// Runtime's attribute activation_params.
struct ActivationOf {
  std::string op;
  std::vector<float> parameters = {};
};
ValueId Activated(Writer& w, ValueId x, const ActivationOf& activation);

/// `approximate`: "none" or "tanh".
ValueId Gelu(Writer& w, ValueId x, const char* approximate);

/// Floats as an attribute of the replaced node; empty if it is left out.
std::vector<float> FloatsOf(const Writer& w, const std::string& attribute);

/// The attributes of the replaced node without those named in `without`.
Writer::Attributes AttributesWithout(const Writer& w, const std::vector<std::string>& without);

/// The number in input `i`, which must be a constant of one element; 0, and an error, otherwise.
/// `what`: the name of the input in errors.
double NumberIn(Writer& w, std::size_t i, std::string_view what);
/// The same for an integer.
std::int64_t IntegerIn(Writer& w, std::size_t i, std::string_view what);

/// A constant of shape `dims`. `at` gives the elements in row-major order, by their index. They are
/// rounded to `type`.
ValueId TableOf(Writer& w, DataType type, const Dims& dims,
                const std::function<double(std::int64_t)>& at);

/// The type in which a composition of several products computes on floats of `type`: FP64, or FP32
/// for all other types. Refuses what is no float.
DataType WideType(Writer& w, ValueId x);

/// The order of the axes of `rank` axes that moves axis `from` to place `to`.
std::vector<std::int64_t> MovedAxis(std::size_t rank, std::size_t from, std::size_t to);

/// x / sqrt(mean of the squares over the axes from `axis` on + epsilon) * scale. If
/// `inverse_deviation` is not null, it becomes the factor of each row.
struct RootMeanSquare {
  std::int64_t axis = -1;
  float epsilon = 1e-5f;
};
ValueId NormalizedRootMeanSquare(Writer& w, ValueId x, ValueId scale, const RootMeanSquare& norm,
                                 ValueId* inverse_deviation);

/// Attention over heads: softmax(scale * q * transposed k + masks) * v. q [B,N,S,H], k [B,N,T,H],
/// v [B,N,T,W], with y [B,N,S,W]. k and v may have fewer heads (a divisor of N): each of
/// them serves several heads of q.
struct HeadAttention {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;
  ValueId bias = kNoValue;  // added to the scores [B,N,S,T], to which it broadcasts
  ValueId keep = kNoValue;  // bool; where it is false the score is the lowest number
  double scale = 1;
  double softcap = 0;  // 0: none. Otherwise: softcap * tanh(score / softcap)
  /// If not null, these become values: scale * q * transposed k, the same after softcap, and the
  /// result of the softmax.
  ValueId* scores = nullptr;
  ValueId* capped = nullptr;
  ValueId* weights = nullptr;
};
ValueId Attend(Writer& w, const HeadAttention& heads);

/// [B,S,N*H] as [B,N,S,H], and back.
ValueId SplitHeads(Writer& w, ValueId x, std::int64_t heads);
ValueId JoinHeads(Writer& w, ValueId x);

/// A bool constant [1,1,rows,columns]: row i keeps column i + `offset`, the `before` columns before
/// that one and the `after` columns behind it. A negative number keeps all of that side. kNoValue
/// if all columns are kept.
struct Band {
  std::int64_t rows = 0, columns = 0, offset = 0, before = -1, after = -1;
};
ValueId KeepBand(Writer& w, const Band& band);

/// The integers 0, 1, ... below `count` (INT64).
ValueId Counted(Writer& w, std::int64_t count);

/// Turns pairs of columns of x [B,N,S,H] by an angle. cos and sin: of the angles, and broadcast to
/// [B,N,S,R/2]. R: the number of columns that turn, the first ones.
struct Rotation {
  ValueId cos = kNoValue, sin = kNoValue;
  bool interleaved = false;  // pairs are neighbours; otherwise a column of each half
};
ValueId Rotated(Writer& w, ValueId x, const Rotation& rotation);

/// Both conditions; either may be kNoValue.
ValueId Both(Writer& w, ValueId a, ValueId b);

/// The float that a quantised tensor stands for. `zero` may be kNoValue. `axis`: of a scale with
/// several elements.
struct Quantized {
  ValueId x = kNoValue, scale = kNoValue, zero = kNoValue;
  std::int64_t axis = 0;
};
ValueId Dequantized(Writer& w, const Quantized& from);
/// The integers for x: with the type of `zero`, or with `type` if there is no zero point.
ValueId QuantizedTo(Writer& w, ValueId x, ValueId scale, ValueId zero, DataType type);

}  // namespace lagoon
