#pragma once

// What attention with a cache does before its scores, in one kernel.

#include <cstddef>

#include "kernels/kernel.h"

namespace lagoon {

/// Turns the heads of queries and keys by the angles of their positions, and puts keys and values
/// into the caches, at their positions.
struct RotateAppendSpec {
  std::size_t batch = 1, rows = 1;       // new tokens: `rows` for each of `batch` texts
  std::size_t heads = 1, key_heads = 1;  // of queries; of keys and of values
  std::size_t depth = 1;                 // columns of a head
  std::size_t room = 1;                  // tokens that a cache has room for
  std::size_t pairs = 0;                 // of columns that turn, the first ones; 0: none turn
  std::size_t positions = 1;             // rows of the tables of cosines and sines
  bool interleaved = false;              // pairs are neighbours; else a column of each half
  bool in_place = false;                 // the caches have the old tokens already
};

/// Inputs: x [batch, rows, (heads + 2 * key_heads) * depth], the heads of queries, keys and values
/// side by side; the positions of the tokens, int64 [batch, rows]; with pairs, cosines and sines
/// [positions, pairs]; unless in_place, the old caches of keys and of values. Outputs: the queries
/// [batch, heads, rows, depth], and the caches of keys and of values [batch, key_heads, room,
/// depth]. In place, only the rows at the positions are written. A token whose position is not
/// below `room` is not kept, and one whose position is not below `positions` does not turn.
Result<Kernel> MakeRotateAppend(const RotateAppendSpec& spec);

}  // namespace lagoon
