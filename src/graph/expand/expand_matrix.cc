// Matrices: Einsum with diagonals, and determinants.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"
#include "graph/ops/einsum.h"

namespace lagoon {
namespace {

// An operand of an Einsum, with a label per axis.
struct Operand {
  ValueId x = kNoValue;
  std::string labels;
};

std::size_t RepeatedAt(const std::string& labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels.find(labels[i]) < i) return i;
  }
  return std::string::npos;
}

// The diagonal of the axes `first` and `second`, as the last axis. In a row of n * n elements the
// diagonal is every element number n + 1.
Operand Diagonal(Writer& w, const Operand& operand, std::size_t first, std::size_t second) {
  std::vector<std::int64_t> order;
  Operand diagonal;
  Dims dims;
  for (std::size_t i = 0; i < operand.labels.size(); ++i) {
    if (i == first || i == second) continue;
    order.push_back(static_cast<std::int64_t>(i));
    diagonal.labels.push_back(operand.labels[i]);
    dims.push_back(w.Dim(operand.x, order.back()));
  }
  const auto axis = static_cast<std::int64_t>(order.size());
  const std::int64_t size = w.Dim(operand.x, static_cast<std::int64_t>(first));
  order.push_back(static_cast<std::int64_t>(first));
  order.push_back(static_cast<std::int64_t>(second));
  dims.push_back(size * size);
  const ValueId rows = w.Reshape(w.Transpose(operand.x, order), dims);
  diagonal.x =
      w.Op("Slice", {rows, w.Ints({0}), w.Ints({size * size}), w.Ints({axis}), w.Ints({size + 1})});
  diagonal.labels.push_back(operand.labels[first]);
  return diagonal;
}

Result<Einsum> EinsumOf(const OpContext& context) {
  std::vector<Dims> shapes;
  for (std::size_t i = 0; i < context.input_count(); ++i) shapes.push_back(context.dims(i));
  return ParseEinsum(context.node().String("equation", ""), shapes);
}

// Letters for the labels of hidden axes, which are digits.
std::string WithLetters(std::string labels, const Einsum& einsum) {
  std::string unused;
  for (const char first : {'a', 'A'}) {
    for (int i = 0; i < 26; ++i) {
      const char letter = static_cast<char>(first + i);
      if (!einsum.sizes.contains(letter)) unused.push_back(letter);
    }
  }
  for (char& label : labels) {
    if (label >= '0' && label <= '9') label = unused.at(static_cast<std::size_t>(label - '0'));
  }
  return labels;
}

bool HasDiagonal(const OpContext& context) {
  const Result<Einsum> einsum = EinsumOf(context);
  return einsum &&
         std::any_of(einsum->inputs.begin(), einsum->inputs.end(), [](const std::string& labels) {
           return RepeatedAt(labels) != std::string::npos;
         });
}

// The same Einsum of diagonals.
void ExpandEinsum(Writer& w) {
  const Result<Einsum> einsum = EinsumOf(w.context());
  if (!einsum) return w.Refuse(tl::unexpected(einsum.error()));
  std::string equation;
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < einsum->inputs.size(); ++i) {
    Operand operand{w.In(i), einsum->inputs[i]};
    for (std::size_t second = 0; (second = RepeatedAt(operand.labels)) != std::string::npos;) {
      operand = Diagonal(w, operand, operand.labels.find(operand.labels[second]), second);
    }
    equation += (i == 0 ? "" : ",") + WithLetters(operand.labels, *einsum);
    inputs.push_back(operand.x);
  }
  equation += "->" + WithLetters(einsum->output, *einsum);
  w.SetOutput(0, w.Op("Einsum", std::move(inputs), {{"equation", std::move(equation)}}));
}

constexpr std::int64_t kMostDeterminant = 4;

// The determinant of the last columns.size() rows, by the rule of Laplace along the first of them.
// `elements`: of the whole matrix of `size` columns.
ValueId Determinant(Writer& w, const std::vector<ValueId>& elements, std::size_t size,
                    const std::vector<std::size_t>& columns) {
  const std::size_t row = size - columns.size();
  ValueId sum = kNoValue;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const ValueId factor = elements[row * size + columns[i]];
    if (columns.size() == 1) return factor;
    std::vector<std::size_t> others = columns;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const ValueId term = w.Mul(factor, Determinant(w, elements, size, others));
    if (i == 0) {
      sum = term;
    } else {
      sum = w.Op(i % 2 == 0 ? "Add" : "Sub", {sum, term});
    }
  }
  return sum;
}

void ExpandDet(Writer& w) {
  const ValueId x = w.In(0);
  const std::int64_t size = w.Dim(x, -1);
  if (w.RankOf(x) < 2 || w.Dim(x, -2) != size) {
    return w.Refuse(w.context().Invalid(
        fmt::format("input 0 has shape {}, takes square matrices", ToString(w.DimsOf(x)))));
  }
  if (size < 1 || size > kMostDeterminant) {
    return w.Refuse(w.context().Unimplemented(
        fmt::format("matrices of {} rows, supported are 1 to {}", size, kMostDeterminant)));
  }
  Dims dims = w.DimsOf(x);
  dims.resize(dims.size() - 2);
  Dims flat = dims;
  flat.push_back(size * size);
  const ValueId rows = w.Reshape(w.Cast(x, WideType(w, x)), flat);
  const std::vector<ValueId> elements =
      w.Split(rows, std::vector<std::int64_t>(static_cast<std::size_t>(size * size), 1), -1);
  std::vector<std::size_t> columns(static_cast<std::size_t>(size));
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  const ValueId y = Determinant(w, elements, columns.size(), columns);
  w.SetOutput(0, w.Cast(w.Reshape(y, dims), w.TypeOf(x)));
}

constexpr Expansion kMatrixExpansions[] = {
    {"", {"Einsum", 12, 1, kMaxGraphEdges, 1, "s:equation"}, ExpandEinsum, HasDiagonal},
    {"", {"Det", 11, 1, 1, 1, ""}, ExpandDet},
};

}  // namespace

std::span<const Expansion> MatrixExpansions() { return kMatrixExpansions; }

}  // namespace lagoon
