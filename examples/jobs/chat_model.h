#pragma once

// What chat.cc expects of its models.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sched/programs/job_program.h"

namespace chat {

using lagoon::Dims;
using lagoon::ErrorCode;
using lagoon::Fail;
using lagoon::JobContext;
using lagoon::JobInstance;
using lagoon::JobModel;
using lagoon::JobSetup;
using lagoon::JobSignal;
using lagoon::JobWait;
using lagoon::Nanoseconds;
using lagoon::Result;
using lagoon::Status;

inline std::size_t Size(std::int64_t number) { return static_cast<std::size_t>(number); }

struct Shape {
  std::int64_t rows = 0;    // requests that decode together
  std::int64_t length = 0;  // length of the cache, in tokens
  std::int64_t vocabulary = 0;
  std::int64_t heads = 0, head_size = 0;
  std::size_t caches = 0;       // keys and values of all layers
  bool in_place = false;        // the model puts the new entry into the cache, behind those in use
  bool positions = false;       // the model has an input for the positions of the tokens
  std::size_t first_cache = 0;  // among the inputs

  // Of the cache [h,n,d] of one request: its bytes, those of one token of a head, and the place of
  // a head.
  std::size_t CacheBytes() const { return HeadAt(heads); }
  std::size_t TokenBytes() const { return Size(head_size) * sizeof(float); }
  std::size_t HeadAt(std::int64_t head) const { return Size(head * length) * TokenBytes(); }
};

inline Status Expect(const lagoon::TensorSpec& tensor, const Dims& dims, lagoon::DataType type) {
  if (tensor.dims == dims && tensor.type == type) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("tensor '{}' is {}, expected {} of type {}", tensor.name, tensor.dims,
                          dims, type == lagoon::DataType::kInt64 ? "INT64" : "FP32"));
}

/// Checks `count` caches behind the other inputs, each [rows,h,n,d], and behind the first output,
/// each [rows,h,keys,d].
inline Status ExpectCaches(const JobModel& model, const Shape& shape, std::int64_t rows,
                           std::int64_t keys) {
  const std::size_t first = model.inputs.size() - shape.caches;
  for (std::size_t i = 0; i < shape.caches; ++i) {
    LAGOON_RETURN_IF_ERROR(Expect(model.inputs[first + i],
                                  {rows, shape.heads, shape.length, shape.head_size},
                                  lagoon::DataType::kFloat32));
    LAGOON_RETURN_IF_ERROR(Expect(model.outputs[1 + i], {rows, shape.heads, keys, shape.head_size},
                                  lagoon::DataType::kFloat32));
  }
  return {};
}

/// Whether the model writes each new cache into the place of the old one.
inline bool ReplacesCaches(const JobModel& model, std::size_t caches) {
  if (model.inputs.size() < caches || model.outputs.size() != caches + 1) return false;
  for (std::size_t i = 0; i < caches; ++i) {
    if (model.replaces[1 + i] != model.inputs.size() - caches + i) return false;
  }
  return true;
}

/// Checks the inputs and outputs of the model that decodes. With the new token's entry last, as
/// GPT-2's exports:
///
/// input_ids [b,1], attention_mask [b,n+1], position_ids [b,1], caches [b,h,n,d]
///     -> logits [b,1,v], then caches [b,h,n+1,d]
///
/// or with GroupQueryAttention, whose past is a buffer, with or without positions:
///
/// input_ids [b,1], attention_mask [b,n], [position_ids [b,1]], caches [b,h,n,d]
///     -> logits [b,1,v], then caches [b,h,n,d]
inline Result<Shape> CheckDecode(const JobModel& model) {
  using enum lagoon::DataType;
  const std::size_t caches = model.outputs.size() - 1, inputs = model.inputs.size();
  const bool positions = inputs == caches + 3;
  if (model.outputs.size() < 3 || (!positions && inputs != caches + 2) ||
      model.inputs[0].dims.size() != 2 || model.inputs.back().dims.size() != 4 ||
      model.outputs[0].dims.size() != 3 || model.outputs[1].dims.size() != 4) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'decode' has {} inputs and {} outputs: no decoder with caches", inputs,
                            model.outputs.size()));
  }
  const Dims cache = model.inputs.back().dims;
  const bool in_place = !positions || model.outputs[1].dims[2] == cache[2];
  const Shape shape{model.inputs[0].dims[0],
                    cache[2],
                    model.outputs[0].dims[2],
                    cache[1],
                    cache[3],
                    caches,
                    in_place,
                    positions,
                    inputs - caches};
  const std::int64_t b = shape.rows, keys = in_place ? shape.length : shape.length + 1;
  LAGOON_RETURN_IF_ERROR(Expect(model.inputs[0], {b, 1}, kInt64));
  LAGOON_RETURN_IF_ERROR(Expect(model.inputs[1], {b, keys}, kInt64));
  if (positions) LAGOON_RETURN_IF_ERROR(Expect(model.inputs[2], {b, 1}, kInt64));
  LAGOON_RETURN_IF_ERROR(Expect(model.outputs[0], {b, 1, shape.vocabulary}, kFloat32));
  LAGOON_RETURN_IF_ERROR(ExpectCaches(model, shape, b, keys));
  return shape;
}

/// The same of a model for whole prompts:
///
/// input_ids, attention_mask [1,n] -> logits [1,n,v], then caches [1,h,n,d]
inline Status CheckWhole(const std::string& role, const JobModel& model, const Shape& shape) {
  using enum lagoon::DataType;
  if (model.outputs.size() != shape.caches + 1) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' has 2 inputs and {} outputs, expected {} outputs", role,
                            model.outputs.size(), shape.caches + 1));
  }
  const std::int64_t n = shape.length;
  for (const auto& input : model.inputs) LAGOON_RETURN_IF_ERROR(Expect(input, {1, n}, kInt64));
  LAGOON_RETURN_IF_ERROR(Expect(model.outputs[0], {1, n, shape.vocabulary}, kFloat32));
  for (std::size_t i = 0; i < shape.caches; ++i) {
    LAGOON_RETURN_IF_ERROR(
        Expect(model.outputs[1 + i], {1, shape.heads, n, shape.head_size}, kFloat32));
  }
  return {};
}

/// A model that reads a prompt in chunks.
struct ChunkModel {
  const JobModel* model = nullptr;
  std::int64_t tokens = 0;  // of a chunk
  bool positions = false;
  bool all_logits = false;  // of every token; otherwise of the last one
};

/// The same of a model that reads `c` tokens behind those in its caches, which it writes in place.
/// It gives the logits of all tokens or of the last one:
///
/// input_ids [1,c], attention_mask [1,n], [position_ids [1,c]], caches [1,h,n,d]
///     -> logits [1,c,v] or [1,1,v], then caches [1,h,n,d]
inline Result<ChunkModel> CheckChunk(const std::string& role, const JobModel& model,
                                     const Shape& shape) {
  using enum lagoon::DataType;
  const std::size_t inputs = model.inputs.size();
  const bool positions = inputs == shape.caches + 3;
  if ((!positions && inputs != shape.caches + 2) || model.outputs.size() != shape.caches + 1 ||
      model.inputs[0].dims.size() != 2 || model.outputs[0].dims.size() != 3) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' has {} inputs and {} outputs; it reads whole prompts by 2 and "
                            "{}, or chunks by {} or {} and {}",
                            role, inputs, model.outputs.size(), shape.caches + 1, shape.caches + 2,
                            shape.caches + 3, shape.caches + 1));
  }
  const ChunkModel chunk{&model, model.inputs[0].dims[1], positions,
                         model.outputs[0].dims[1] == model.inputs[0].dims[1]};
  const std::int64_t c = chunk.tokens;
  if (c < 1 || c > shape.length) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' reads {} tokens at a time, the cache of 'decode' has room for {}",
                            role, c, shape.length));
  }
  LAGOON_RETURN_IF_ERROR(Expect(model.inputs[0], {1, c}, kInt64));
  LAGOON_RETURN_IF_ERROR(Expect(model.inputs[1], {1, shape.length}, kInt64));
  if (positions) LAGOON_RETURN_IF_ERROR(Expect(model.inputs[2], {1, c}, kInt64));
  LAGOON_RETURN_IF_ERROR(
      Expect(model.outputs[0], {1, chunk.all_logits ? c : 1, shape.vocabulary}, kFloat32));
  LAGOON_RETURN_IF_ERROR(ExpectCaches(model, shape, 1, shape.length));
  if (!shape.in_place || !ReplacesCaches(model, shape.caches)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' and 'decode' need GroupQueryAttention, which puts new keys and "
                            "values into its caches in place: one of them does not",
                            role));
  }
  return chunk;
}

}  // namespace chat
