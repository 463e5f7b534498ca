#pragma once

// The rows of plan/elementwise_list.h as tables. Import, fusion, lowering, the kernels and their
// tests read here what they need to know about an elementwise op.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string_view>

#include "plan/elementwise_list.h"

namespace lagoon::elementwise {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Nanoseconds per element of the CPU's bodies for any type: a few instructions, or a function of
// the C library. Measured on a Xeon at 2 GHz, one thread.
inline constexpr double kShortNs = 2.5;
inline constexpr double kLibraryNs = 20;

/// The attribute of a node that is a parameter of its function.
struct Parameter {
  const char* attribute = nullptr;  // null: the function has no such parameter
  float otherwise = 0;              // if the node has no such attribute
  char kind = 'f';                  // 'f' or 'i', as in graph/import/attributes.h
};

struct UnaryRow {
  UnaryOp op = {};
  /// The function's name. If `since` is set, ONNX has an op of this name.
  std::string_view name = {};
  bool has_vector_body = false;  // on the CPU, for fp32
  bool gives_flags = false;      // the result is kBool; otherwise it has the type of x

  /// The first opset with the op. 0: ONNX has none, or its shape rule needs more than this row
  /// (graph/ops/shape_rules_elementwise.cc).
  int since = 0;
  Parameter alpha = {}, beta = {};
  bool takes_flags = false;  // import refuses other types
  bool folds = false;        // import computes it on constants (graph/fold/evaluate_arithmetic.cc)
  bool fuses = false;        // the op before may apply it; needs a vector body
  double vector_ns = 0;      // time per element, measured with AVX2; 0: faster than memory
  double row_ns = kLibraryNs;  // time per element of the body for any type
};

/// By type; halves are computed in fp32. Worst cases, on numbers far apart, because some functions
/// take longer for some numbers.
struct BinaryNs {
  double fp32 = kShortNs, fp64 = kShortNs, integer = kShortNs;
};

/// The fields that UnaryRow has too mean the same.
struct BinaryRow {
  BinaryOp op = {};
  std::string_view name = {};
  bool has_vector_body = false;
  bool gives_flags = false;

  int since = 0;
  bool any_inputs = false;  // from one on: combined from left to right
  bool takes_flags = false;
  bool folds = false;
  double vector_ns = 0;
  BinaryNs row_ns = {};
};

// clang-format off
#define LAGOON_UNARY(id, ...) {.op = UnaryOp::k##id, .name = #id, __VA_ARGS__},
#define LAGOON_VECTOR_UNARY(id, ...) LAGOON_UNARY(id, .has_vector_body = true, __VA_ARGS__)
#define LAGOON_TEST_UNARY(id, ...) LAGOON_UNARY(id, .gives_flags = true, __VA_ARGS__)
inline constexpr UnaryRow kUnaryRows[] = {  // in the order of UnaryOp
    LAGOON_VECTOR_UNARY_OPS(LAGOON_VECTOR_UNARY)
    LAGOON_SCALAR_UNARY_OPS(LAGOON_UNARY)
    LAGOON_BIT_UNARY_OPS(LAGOON_UNARY)
    LAGOON_TEST_UNARY_OPS(LAGOON_TEST_UNARY)
};
#undef LAGOON_UNARY
#undef LAGOON_VECTOR_UNARY
#undef LAGOON_TEST_UNARY

#define LAGOON_BINARY(id, ...) {.op = BinaryOp::k##id, .name = #id, __VA_ARGS__},
#define LAGOON_VECTOR_BINARY(id, ...) LAGOON_BINARY(id, .has_vector_body = true, __VA_ARGS__)
#define LAGOON_COMPARE_BINARY(id, ...) LAGOON_BINARY(id, .gives_flags = true, __VA_ARGS__)
inline constexpr BinaryRow kBinaryRows[] = {  // in the order of BinaryOp
    LAGOON_VECTOR_BINARY_OPS(LAGOON_VECTOR_BINARY)
    LAGOON_SCALAR_BINARY_OPS(LAGOON_BINARY)
    LAGOON_BIT_BINARY_OPS(LAGOON_BINARY)
    LAGOON_COMPARE_BINARY_OPS(LAGOON_COMPARE_BINARY)
};
#undef LAGOON_BINARY
#undef LAGOON_VECTOR_BINARY
#undef LAGOON_COMPARE_BINARY
// clang-format on

static_assert(std::all_of(std::begin(kUnaryRows), std::end(kUnaryRows),
                          [](const UnaryRow& row) { return row.has_vector_body || !row.fuses; }),
              "only a function with a vector body may be applied by the op before");

constexpr const UnaryRow& RowOf(UnaryOp op) { return kUnaryRows[static_cast<std::size_t>(op)]; }
constexpr const BinaryRow& RowOf(BinaryOp op) { return kBinaryRows[static_cast<std::size_t>(op)]; }

/// Null if no function has this name.
constexpr const UnaryRow* FindUnary(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kUnaryRows), std::end(kUnaryRows),
                                         [&](const UnaryRow& row) { return row.name == name; });
  return found == std::end(kUnaryRows) ? nullptr : found;
}
constexpr const BinaryRow* FindBinary(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kBinaryRows), std::end(kBinaryRows),
                                         [&](const BinaryRow& row) { return row.name == name; });
  return found == std::end(kBinaryRows) ? nullptr : found;
}

}  // namespace lagoon::elementwise
