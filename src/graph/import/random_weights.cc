#include "graph/import/random_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <vector>

#include "base/text.h"
#include "graph/import/model_file.h"
#include "graph/import/tensor_import.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 30;  // limit for one weight

// The sum of four integers below 2^16 is about normal, and never more than 3.5 deviations from the
// mean.
constexpr std::int64_t kSumMean = 131070;
constexpr double kSumDeviation = 37837.227230;
// Bits for the number of an element; the bits above are the number of the weight.
constexpr unsigned kElementBits = 40;

struct Normal {
  float mean = 0, deviation = 0;
};

/// What to write, and where.
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

// Output `number`, counted from 1, of splitmix64 from state 0 (Steele, Lea and Flood 2014, section
// 6).
std::uint64_t SplitMix64(std::uint64_t number) {
  std::uint64_t state = number * 0x9E3779B97F4A7C15;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EB;
  return state ^ (state >> 31);
}

// Gives the same bits on every machine and with every compiler (and as
// models/generators/made_up.py). The sum is a whole number of 18 bits and `step` is a float, so
// their product is exact in double, whether or not it is fused with the addition. The addition and
// the conversion are each rounded once, to nearest.
class Elements {
 public:
  Elements(const Normal& normal, std::size_t weight)
      : mean_(normal.mean),
        step_(static_cast<float>(normal.deviation / kSumDeviation)),
        number_(static_cast<std::uint64_t>(weight) << kElementBits) {}

  float Next() {
    const std::uint64_t bits = SplitMix64(++number_);
    std::int64_t sum = -kSumMean;
    for (int shift = 0; shift < 64; shift += 16) {
      sum += static_cast<std::int64_t>((bits >> shift) & 0xFFFF);
    }
    return static_cast<float>(mean_ + step_ * static_cast<double>(sum));
  }

 private:
  const double mean_, step_;
  std::uint64_t number_;
};

void Write(const Weight& weight, std::size_t index, std::ofstream& to) {
  constexpr std::size_t kChunk = 1 << 16;
  Elements elements(weight.normal, index);
  std::vector<float> chunk;
  to.seekp(static_cast<std::streamoff>(weight.offset));
  for (std::size_t left = weight.count; left > 0; left -= chunk.size()) {
    chunk.resize(std::min(left, kChunk));
    for (float& element : chunk) element = elements.Next();
    to.write(reinterpret_cast<const char*>(chunk.data()),
             static_cast<std::streamsize>(chunk.size() * sizeof(float)));
  }
}

}  // namespace

Result<std::size_t> MakeRandomWeights(const std::string& model_file) {
  constexpr std::size_t kMostInside = std::size_t{2} << 30;
  LAGOON_ASSIGN_OR_RETURN(const ModelFile read, ReadModelFile(model_file, kMostInside));
  std::vector<Weight> weights;
  for (const onnx::TensorProto& tensor : read.model->graph().initializer()) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) continue;
    LAGOON_ASSIGN_OR_RETURN(weights.emplace_back(), WeightOf(tensor));
  }
  std::map<std::string, std::ofstream> files;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto path = std::filesystem::path(model_file).parent_path() / weights[i].location;
    const auto [file, is_new] = files.try_emplace(weights[i].location);
    if (is_new) file->second.open(path, std::ios::binary | std::ios::trunc);
    Write(weights[i], i, file->second);
    if (!file->second.flush()) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("cannot write {}: no permission, or no room", Quoted(path.string())));
    }
    bytes += weights[i].count * sizeof(float);
  }
  return bytes;
}

}  // namespace lagoon
