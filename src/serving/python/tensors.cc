#include "serving/python/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/text.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostTensors = 4096;  // of a message
constexpr std::size_t kMostDims = 64;
constexpr std::size_t kMostErrorBytes = 4096;

constexpr DataType kTensorTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16,
                                     DataType::kFloat64, DataType::kInt8,    DataType::kInt16,
                                     DataType::kInt32,   DataType::kInt64,   DataType::kUInt8,
                                     DataType::kUInt16,  DataType::kUInt32,  DataType::kUInt64,
                                     DataType::kBool,    DataType::kString};

/// As pb_utils.TritonError names them.
constexpr std::array<std::pair<std::string_view, ErrorCode>, 7> kCodes = {{
    {"INTERNAL", ErrorCode::kInternal},
    {"NOT_FOUND", ErrorCode::kNotFound},
    {"INVALID_ARG", ErrorCode::kInvalidArgument},
    {"UNAVAILABLE", ErrorCode::kUnavailable},
    {"UNSUPPORTED", ErrorCode::kUnimplemented},
    {"ALREADY_EXISTS", ErrorCode::kAlreadyExists},
    {"CANCELLED", ErrorCode::kCancelled},
}};

/// Bytes of a tensor of numbers. Nothing: a dim is negative, or the number does not fit.
std::optional<std::size_t> BytesOfNumbers(DataType type, const Dims& dims) {
  std::size_t bytes = type == DataType::kString ? 1 : SizeOf(type);
  for (const std::int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

std::string WordOf(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

tl::unexpected<Error> BadTensor(const std::string& name, const std::string& what) {
  return Fail(ErrorCode::kInternal, fmt::format("the program's tensor {} {}", Quoted(name), what));
}

Result<ProgramTensor> ReadOneTensor(const nlohmann::json& object) {
  ProgramTensor tensor;
  tensor.name = WordOf(object, "name");
  const std::string type = WordOf(object, "type");
  const auto* const known = std::ranges::find(kTensorTypes, type, OipName);
  if (known == std::end(kTensorTypes)) return BadTensor(tensor.name, "has type " + Quoted(type));
  tensor.type = *known;
  const auto dims = object.find("dims");
  const auto is_number = [](const nlohmann::json& dim) { return dim.is_number_integer(); };
  if (dims == object.end() || !dims->is_array() || dims->size() > kMostDims ||
      !std::ranges::all_of(*dims, is_number)) {
    return BadTensor(tensor.name, "has no dims");
  }
  tensor.dims = dims->get<Dims>();
  const auto bytes = object.find("bytes");
  if (bytes == object.end() || !bytes->is_number_unsigned()) {
    return BadTensor(tensor.name, "does not say its number of bytes");
  }
  tensor.bytes = bytes->get<std::size_t>();
  const std::optional<std::size_t> expected = BytesOfNumbers(tensor.type, tensor.dims);
  const bool fits = expected && (tensor.type == DataType::kString || *expected == tensor.bytes);
  if (fits) return tensor;
  return BadTensor(tensor.name, fmt::format("is {} {} and has {} bytes", type,
                                            ToString(tensor.dims), tensor.bytes));
}

}  // namespace

nlohmann::json TensorObject(std::string_view name, DataType type, const Dims& dims,
                            std::size_t bytes) {
  return {{"name", name}, {"type", OipName(type)}, {"dims", dims}, {"bytes", bytes}};
}

Result<std::vector<ProgramTensor>> ReadTensors(const nlohmann::json& list, std::size_t bytes) {
  std::vector<ProgramTensor> tensors;
  if (!list.is_array() || list.size() > kMostTensors) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the program has sent no list of at most {} tensors", kMostTensors));
  }
  std::size_t offset = 0;
  for (const nlohmann::json& object : list) {
    if (!object.is_object()) return BadTensor("", "is no object");
    LAGOON_ASSIGN_OR_RETURN(ProgramTensor tensor, ReadOneTensor(object));
    if (tensor.bytes > bytes - offset) {
      return BadTensor(tensor.name,
                       fmt::format("has {} bytes, and its message {}", tensor.bytes, bytes));
    }
    tensor.offset = offset;
    offset += tensor.bytes;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

nlohmann::json ErrorObject(const Error& error) {
  const auto* const known =
      std::ranges::find(kCodes, error.code, &std::pair<std::string_view, ErrorCode>::second);
  return {{"code", known == kCodes.end() ? "UNKNOWN" : known->first}, {"message", error.message}};
}

Error ReadError(const nlohmann::json& object) {
  Error error{ErrorCode::kInternal, ""};
  if (object.is_object()) {
    const std::string code = WordOf(object, "code");
    const auto* const known =
        std::ranges::find(kCodes, code, &std::pair<std::string_view, ErrorCode>::first);
    if (known != kCodes.end()) error.code = known->second;
    error.message = WordOf(object, "message").substr(0, kMostErrorBytes);
  }
  if (error.message.empty()) error.message = "the program gives an error without a message";
  return error;
}

}  // namespace lagoon
