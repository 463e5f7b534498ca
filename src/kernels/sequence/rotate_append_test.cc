// Turned queries and keys, and caches, against plain loops.

#include "kernels/sequence/rotate_append.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/testing/ops.h"
#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using testing::Bytes;
using testing::Floats;
using testing::FromBytes;
using testing::ToBytes;
using Positions = std::vector<std::int64_t>;

constexpr float kOld = 7;  // what a cache has where nothing is written

struct Problem {
  Problem(const RotateAppendSpec& s, Positions at_in) : spec(s), at(std::move(at_in)) {
    const std::size_t columns = (s.heads + 2 * s.key_heads) * s.depth;
    x = testing::RandomFloats(s.batch * s.rows * columns);
    for (std::size_t i = 0; i < s.positions * s.pairs; ++i) {
      cos.push_back(std::cos(0.37F * static_cast<float>(i)));
      sin.push_back(std::sin(0.37F * static_cast<float>(i)));
    }
    cache.assign(s.batch * s.key_heads * s.room * s.depth, kOld);
    q.resize(s.batch * s.heads * s.rows * s.depth);
    keys = values = cache;
    for (std::size_t token = 0; token < s.batch * s.rows; ++token) Add(token, columns);
  }

  void Add(std::size_t token, std::size_t columns) {
    const std::size_t text = token / spec.rows, row = token % spec.rows;
    for (std::size_t head = 0; head < spec.heads + 2 * spec.key_heads; ++head) {
      const float* const from = &x[token * columns + head * spec.depth];
      const bool value = head >= spec.heads + spec.key_heads;
      const Floats turned = value ? Floats(from, from + spec.depth) : Turned(from, at[token]);
      if (head < spec.heads) {
        std::ranges::copy(turned, &q[((text * spec.heads + head) * spec.rows + row) * spec.depth]);
        continue;
      }
      if (at[token] < 0 || at[token] >= static_cast<std::int64_t>(spec.room)) continue;
      const std::size_t of = (head - spec.heads) % spec.key_heads;
      const std::size_t place =
          (text * spec.key_heads + of) * spec.room + static_cast<std::size_t>(at[token]);
      std::ranges::copy(turned, &(value ? values : keys)[place * spec.depth]);
    }
  }

  Floats Turned(const float* from, std::int64_t position) const {
    Floats turned(from, from + spec.depth);
    if (position < 0 || position >= static_cast<std::int64_t>(spec.positions)) return turned;
    for (std::size_t i = 0; i < spec.pairs; ++i) {
      const std::size_t a = spec.interleaved ? 2 * i : i;
      const std::size_t b = spec.interleaved ? 2 * i + 1 : i + spec.pairs;
      const std::size_t angle = static_cast<std::size_t>(position) * spec.pairs + i;
      turned[a] = from[a] * cos[angle] - from[b] * sin[angle];
      turned[b] = from[a] * sin[angle] + from[b] * cos[angle];
    }
    return turned;
  }

  RotateAppendSpec spec;
  Positions at;
  Floats x, cos, sin, cache, q, keys, values;
};

void ExpectNear(const Bytes& got, const Floats& expected) {
  const Floats floats = FromBytes<float>(got);
  ASSERT_EQ(floats.size(), expected.size());
  for (std::size_t i = 0; i < floats.size(); ++i) ASSERT_NEAR(floats[i], expected[i], 1e-6) << i;
}

void Check(RotateAppendSpec spec, const Positions& at) {
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place);
    spec.in_place = in_place;
    const Problem p(spec, at);
    std::vector<Bytes> inputs{ToBytes(p.x), ToBytes(at)};
    if (spec.pairs > 0) inputs.insert(inputs.end(), {ToBytes(p.cos), ToBytes(p.sin)});
    if (!in_place) inputs.insert(inputs.end(), {ToBytes(p.cache), ToBytes(p.cache)});
    Result<Kernel> kernel = MakeRotateAppend(spec);
    ASSERT_TRUE(kernel) << kernel.error().message;
    testing::TypedRun run(*kernel, inputs,
                          {p.q.size() * 4, p.cache.size() * 4, p.cache.size() * 4});
    std::vector<Bytes> outputs = run.Run();
    if (in_place) {  // what the poison is still there was not written
      const std::vector<Bytes> others = run.Run(std::byte{0x5a});
      for (std::size_t i = 1; i < outputs.size(); ++i) {
        for (std::size_t byte = 0; byte < outputs[i].size(); byte += 4) {
          if (std::memcmp(&outputs[i][byte], &others[i][byte], 4) == 0) continue;
          std::memcpy(&outputs[i][byte], &kOld, 4);
        }
      }
    } else {
      run.ExpectTiles();
    }
    ExpectNear(outputs[0], p.q);
    ExpectNear(outputs[1], p.keys);
    ExpectNear(outputs[2], p.values);
  }
}

TEST(RotateAppend, PutsATokenOfEachTextAtItsPlace) {
  Check(
      {.batch = 3, .heads = 4, .key_heads = 2, .depth = 8, .room = 9, .pairs = 4, .positions = 16},
      {0, 8, 3});
  Check({.batch = 1,
         .heads = 14,
         .key_heads = 2,
         .depth = 64,
         .room = 2000,
         .pairs = 32,
         .positions = 4096},
        {1777});
}

TEST(RotateAppend, TurnsNeighboursOrSomeColumnsOrNone) {
  for (const std::size_t pairs : {0u, 2u, 4u}) {
    for (const bool interleaved : {false, true}) {
      Check({.batch = 2,
             .rows = 2,
             .heads = 2,
             .key_heads = 1,
             .depth = 8,
             .room = 5,
             .pairs = pairs,
             .positions = 8,
             .interleaved = interleaved},
            {0, 1, 3, 4});
    }
  }
}

TEST(RotateAppend, CutsPromptsIntoManyBlocks) {
  Positions at(300);
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<std::int64_t>(i) + 100;
  Check({.rows = 300,
         .heads = 4,
         .key_heads = 2,
         .depth = 64,
         .room = 512,
         .pairs = 32,
         .positions = 512},
        at);
}

TEST(RotateAppend, APlaceOutsideIsNotWritten) {
  Check({.batch = 4, .heads = 2, .key_heads = 1, .depth = 4, .room = 6, .pairs = 2, .positions = 5},
        {-1, 6, 1000, 5});  // the last one does not turn
}

TEST(RotateAppend, RefusesBadSpecsByName) {
  testing::ExpectInvalid(MakeRotateAppend({.depth = 8, .pairs = 5}),
                         {"rotate_append", "5 pairs of 8"});
  testing::ExpectInvalid(MakeRotateAppend({.room = 0}), {"rotate_append", "room"});
}

}  // namespace
}  // namespace lagoon
