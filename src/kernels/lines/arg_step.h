#pragma once

// The step of an ArgMax or ArgMin of fp32, for many columns at once.

#include <cstddef>
#include <cstdint>

namespace lagoon {

/// Compares row `at` of `columns` elements with the best elements of the rows before, `best`, and
/// keeps in `index` the row of each column's best. Start with infinitely bad elements and index 0.
/// `best` and `index` have room for `columns`, rounded up to a multiple of 16.
using ArgStep = void (*)(const float* x, std::size_t columns, std::int32_t at, float* best,
                         std::int32_t* index);

/// `least`, `last`: as ArgSpec has them.
ArgStep FindArgStep(bool least, bool last);

}  // namespace lagoon
