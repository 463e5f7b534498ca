#include "graph/random_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "graph/model_file.h"
#include "graph/tensor_import.h"
#include "graph/text.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 30;  // of one weight

struct Normal {
  float mean = 0, deviation = 0;
};

/// What is to be written, and where.
struct Weight {
  std::string location;
  std::size_t offset = 0, count = 0;
  Normal normal;
};

tl::unexpected<Error> Invalid(const onnx::TensorProto& tensor, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("weight {}: {}", Quoted(tensor.name()), what));
}

Result<Normal> NormalOf(const onnx::TensorProto& tensor) {
  Normal normal;
  int read = 0;
  const std::string& text = tensor.doc_string();
  if (std::sscanf(text.c_str(), "normal %f %f%n", &normal.mean, &normal.deviation, &read) != 2 ||
      static_cast<std::size_t>(read) != text.size() || !std::isfinite(normal.mean) ||
      !(normal.deviation >= 0) || !std::isfinite(normal.deviation)) {
    return Invalid(tensor, "has no data, and its doc_string is not \"normal MEAN DEVIATION\"");
  }
  return normal;
}

Result<std::size_t> CountOf(const onnx::TensorProto& tensor) {
  if (tensor.data_type() != onnx::TensorProto::FLOAT) {
    return Invalid(tensor, "only fp32 can be random");
  }
  std::size_t count = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0 || __builtin_mul_overflow(count, static_cast<std::size_t>(dim), &count) ||
        count > kMostBytes / sizeof(float)) {
      return Invalid(tensor, fmt::format("more than {} bytes", kMostBytes));
    }
  }
  return count;
}

Result<Weight> WeightOf(const onnx::TensorProto& tensor) {
  Weight weight;
  LAGOON_ASSIGN_OR_RETURN(weight.normal, NormalOf(tensor));
  LAGOON_ASSIGN_OR_RETURN(weight.count, CountOf(tensor));
  const Result<ExternalRange> range = ReadExternalRange(tensor);
  if (!range) return Invalid(tensor, range.error().message);
  if (range->offset > kMostBytes) {
    return Invalid(tensor, fmt::format("offset {} is not a place in a file", range->offset));
  }
  weight.location = range->location;
  weight.offset = range->offset;
  const std::filesystem::path path(weight.location);
  if (weight.location.empty() || path.filename() != path || path == "..") {
    return Invalid(tensor, fmt::format("location {} is not the name of a file beside the model",
                                       Quoted(weight.location)));
  }
  return weight;
}

void Write(const Weight& weight, unsigned seed, std::ofstream& to) {
  constexpr std::size_t kChunk = 1 << 16;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(weight.normal.mean, weight.normal.deviation);
  std::vector<float> chunk;
  to.seekp(static_cast<std::streamoff>(weight.offset));
  for (std::size_t left = weight.count; left > 0; left -= chunk.size()) {
    chunk.resize(std::min(left, kChunk));
    for (float& element : chunk) element = normal(random);
    to.write(reinterpret_cast<const char*>(chunk.data()),
             static_cast<std::streamsize>(chunk.size() * sizeof(float)));
  }
}

}  // namespace

Result<std::size_t> MakeRandomWeights(const std::string& model_file) {
  constexpr std::size_t kMostInside = std::size_t{2} << 30;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<onnx::ModelProto> model,
                          ReadModelFile(model_file, kMostInside));
  std::vector<Weight> weights;
  for (const onnx::TensorProto& tensor : model->graph().initializer()) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) continue;
    LAGOON_ASSIGN_OR_RETURN(weights.emplace_back(), WeightOf(tensor));
  }
  std::map<std::string, std::ofstream> files;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto path = std::filesystem::path(model_file).parent_path() / weights[i].location;
    const auto [file, is_new] = files.try_emplace(weights[i].location);
    if (is_new) file->second.open(path, std::ios::binary | std::ios::trunc);
    Write(weights[i], static_cast<unsigned>(i), file->second);
    if (!file->second.flush()) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("cannot write {}: no permission, or no room", Quoted(path.string())));
    }
    bytes += weights[i].count * sizeof(float);
  }
  return bytes;
}

}  // namespace lagoon
