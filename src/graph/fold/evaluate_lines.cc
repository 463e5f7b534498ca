// Evaluators that go along one axis: CumSum, ArgMax, ArgMin, TopK.

#include <algorithm>
#include <numeric>

#include "graph/fold/elements.h"
#include "graph/fold/evaluate.h"

namespace lagoon {
namespace {

Lines LinesOf(const OpContext& context) {
  return {context.dims(0), static_cast<std::size_t>(context.node().Int("axis", 0))};
}

/// Sums along one line. Unsigned sums, because signed ones may overflow.
template <typename T>
void SumLine(const OpContext& context, const Lines& lines, std::int64_t before, std::int64_t behind,
             const T* x, T* y) {
  using Sum = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                          std::type_identity<T>>::type;
  const bool exclusive = context.node().Int("exclusive", 0) != 0;
  const bool reverse = context.node().Int("reverse", 0) != 0;
  Sum sum = 0;
  for (std::int64_t i = 0; i < lines.length; ++i) {
    const std::int64_t at = lines.At(before, reverse ? lines.length - 1 - i : i, behind);
    const Sum with = static_cast<Sum>(sum + static_cast<Sum>(x[at]));
    y[at] = static_cast<T>(exclusive ? sum : with);
    sum = with;
  }
}

/// The order of the elements of a line: the best one first, and of equals the first one.
template <typename T>
std::vector<std::int64_t> Ranked(const Lines& lines, std::int64_t before, std::int64_t behind,
                                 const T* x, bool largest) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(lines.length));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const T left = x[lines.At(before, a, behind)], right = x[lines.At(before, b, behind)];
    return largest ? Less(right, left) : Less(left, right);
  });
  return order;
}

template <typename F>
void ForEachLine(const Lines& lines, F f) {
  for (std::int64_t before = 0; before < lines.outer; ++before) {
    for (std::int64_t behind = 0; behind < lines.inner; ++behind) f(before, behind);
  }
}

}  // namespace

Result<ConstantBytes> EvaluateCumSum(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const Lines lines = LinesOf(context);
  return WithElements(context, context.input(0).type,
                      [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
                        if constexpr (std::is_same_v<T, bool>) {
                          return context.Unimplemented("of flags");
                        } else {
                          auto bytes = NewElements<T>(ElementCount(context.dims(0)));
                          ForEachLine(lines, [&](std::int64_t before, std::int64_t behind) {
                            SumLine<T>(context, lines, before, behind,
                                       Elements<T>(context.constant(0)->bytes),
                                       Elements<T>(*bytes));
                          });
                          return bytes;
                        }
                      });
}

Result<ConstantBytes> EvaluateArg(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const Lines lines = LinesOf(context);
  if (lines.length == 0) return context.Invalid("looks for the best of no elements");
  const bool largest = context.node().op == "ArgMax";
  const bool last = context.node().Int("select_last_index", 0) != 0;
  return WithElements(
      context, context.input(0).type,
      [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
        const auto* x = Elements<T>(context.constant(0)->bytes);
        auto bytes = NewElements<std::int64_t>(lines.outer * lines.inner);
        std::int64_t* to = Elements<std::int64_t>(*bytes);
        ForEachLine(lines, [&](std::int64_t before, std::int64_t behind) {
          std::int64_t best = 0;
          for (std::int64_t i = 1; i < lines.length; ++i) {
            const auto is = x[lines.At(before, i, behind)];
            const auto was = x[lines.At(before, best, behind)];
            // A NaN is better than every number.
            const bool nan = IsNan(is), was_nan = IsNan(was);
            const bool equal = nan || was_nan ? nan && was_nan : is == was;
            const bool better = nan || was_nan ? nan && !was_nan : largest ? is > was : is < was;
            if (better || (last && equal)) best = i;
          }
          *to++ = best;
        });
        return bytes;
      });
}

Result<ConstantBytes> EvaluateTopK(const OpContext& context, std::size_t output) {
  LAGOON_RETURN_IF_ERROR(CheckSmall(context, output));
  const Lines lines = LinesOf(context);
  const std::int64_t k = context.node().Int("k", 0);
  const bool largest = context.node().Int("largest", 1) != 0;
  const Lines out(context.output(output).dims,
                  static_cast<std::size_t>(context.node().Int("axis", 0)));
  return WithElements(
      context, context.input(0).type,
      [&]<typename T>(std::type_identity<T>) -> Result<ConstantBytes> {
        const auto* x = Elements<T>(context.constant(0)->bytes);
        const std::int64_t count = ElementCount(context.output(output).dims);
        auto bytes = output == 0 ? NewElements<T>(count) : NewElements<std::int64_t>(count);
        ForEachLine(lines, [&](std::int64_t before, std::int64_t behind) {
          const std::vector<std::int64_t> order = Ranked(lines, before, behind, x, largest);
          for (std::int64_t i = 0; i < k; ++i) {
            const std::int64_t index = order[static_cast<std::size_t>(i)];
            const std::int64_t to = out.At(before, i, behind);
            if (output == 0) Elements<T>(*bytes)[to] = x[lines.At(before, index, behind)];
            if (output != 0) Elements<std::int64_t>(*bytes)[to] = index;
          }
        });
        return bytes;
      });
}

}  // namespace lagoon
