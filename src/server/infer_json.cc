#include "server/infer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace lagoon {
namespace {

// "data" nests as deep as a tensor has dimensions; no model has more.
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxTensors = 1024;
constexpr std::size_t kMaxRank = 16;
constexpr std::int64_t kOpen = -1;  // length of an array level that no array has closed yet

// Where in the document an event happens.
enum class In : std::uint8_t {
  kTop,
  kRequest,
  kParameters,
  kInputs,
  kInput,
  kInputParameters,
  kShape,
  kData,
  kOutputs,
  kOutput,
  kOutputParameters,
  kIgnored,
};

// Members that mean something where they may stand; elsewhere they are ignored like any other.
constexpr std::array<std::string_view, 8> kKnownKeys = {
    "id", "inputs", "outputs", "name", "shape", "data", "parameters", "datatype"};

bool IsObject(In place) {
  return place == In::kRequest || place == In::kInput || place == In::kOutput;
}

// Receives nlohmann's events; every handler returns false after setting error_, which ends the
// parse.
class InferSax {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  JsonInfer TakeResult() { return std::move(result_); }
  Error TakeError() { return std::move(error_); }

  bool key(string_t& name) {
    key_.swap(name);
    return true;
  }
  bool start_object(std::size_t) { return Enter(PlaceOfObject(), "an object"); }
  bool start_array(std::size_t) {
    if (Top() == In::kData) return EnterDataLevel();
    return Enter(PlaceOfArray(), "an array");
  }
  bool end_object() { return Leave(); }
  bool end_array() {
    if (Top() == In::kData && !LeaveDataLevel()) return false;
    return Leave();
  }

  bool null() { return Scalar("null"); }
  bool boolean(bool value);
  bool number_integer(number_integer_t value);
  bool number_unsigned(number_unsigned_t value);
  bool number_float(number_float_t value, const string_t&);
  bool string(string_t& value);
  bool binary(binary_t&) { return Scalar("binary"); }

  template <typename Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& e) {
    // The library's text starts with its own name in brackets.
    const std::string_view what = e.what();
    const std::size_t end = what.find("] ");
    return Invalid(what.substr(end == std::string_view::npos ? 0 : end + 2));
  }

 private:
  In Top() const { return stack_.empty() ? In::kTop : stack_.back(); }
  JsonInput& Input() { return result_.inputs.back(); }
  JsonOutput& Output() { return result_.outputs.back(); }

  std::optional<In> PlaceOfObject();
  std::optional<In> PlaceOfArray();
  bool Enter(std::optional<In> place, std::string_view what);
  bool Leave();
  bool EnterDataLevel();
  bool LeaveDataLevel();
  bool Datum(double value);
  bool DimensionOf(number_unsigned_t value);
  bool Parameter(std::optional<std::uint64_t> number, std::optional<bool> flag);
  bool RequestParameter(std::optional<std::uint64_t> number, std::optional<bool> flag);
  bool Scalar(
      std::string_view what);  // a value that nothing takes: ignored or refused by its place

  bool IsKnownKey() const {
    return std::find(kKnownKeys.begin(), kKnownKeys.end(), key_) != kKnownKeys.end();
  }
  std::string Place() const;
  bool Invalid(std::string_view why) { return FailWith(ErrorCode::kInvalidArgument, why); }
  bool FailWith(ErrorCode code, std::string_view why);
  bool Wrong(std::string_view what) {
    return Invalid(fmt::format("'{}' cannot be {}", key_, what));
  }

  JsonInfer result_;
  Error error_{ErrorCode::kInvalidArgument, "the request is not a JSON object"};
  std::vector<In> stack_;
  std::string key_;
  std::size_t data_level_ = 0;              // arrays of "data" that are open
  std::size_t leaf_level_ = 0;              // the level that holds numbers; 0: not known yet
  std::vector<std::int64_t> level_counts_;  // elements so far of the open array of each level
};

std::string InferSax::Place() const {
  for (auto place = stack_.rbegin(); place != stack_.rend(); ++place) {
    const bool input = *place == In::kInput;
    if (!input && *place != In::kOutput) continue;
    const std::size_t index = (input ? result_.inputs.size() : result_.outputs.size()) - 1;
    const std::string& name = input ? result_.inputs.back().name : result_.outputs.back().name;
    const std::string_view list = input ? "inputs" : "outputs";
    return name.empty() ? fmt::format("{}[{}]: ", list, index)
                        : fmt::format("{}[{}] '{}': ", list, index, name);
  }
  return "";
}

bool InferSax::FailWith(ErrorCode code, std::string_view why) {
  error_ = {code, fmt::format("request's JSON: {}{}", Place(), why)};
  return false;
}

std::optional<In> InferSax::PlaceOfObject() {
  const bool parameters = key_ == "parameters";
  const std::optional<In> unknown = IsKnownKey() ? std::nullopt : std::optional(In::kIgnored);
  switch (Top()) {
    case In::kTop:
      return In::kRequest;
    case In::kRequest:
      return parameters ? In::kParameters : unknown;
    case In::kInputs:
      if (result_.inputs.size() >= kMaxTensors) return std::nullopt;
      result_.inputs.emplace_back();
      return In::kInput;
    case In::kOutputs:
      if (result_.outputs.size() >= kMaxTensors) return std::nullopt;
      result_.outputs.emplace_back();
      return In::kOutput;
    case In::kInput:
      return parameters ? In::kInputParameters : unknown;
    case In::kOutput:
      return parameters ? In::kOutputParameters : unknown;
    case In::kShape:
    case In::kData:
      return std::nullopt;
    default:
      return In::kIgnored;
  }
}

std::optional<In> InferSax::PlaceOfArray() {
  switch (Top()) {
    case In::kTop:
    case In::kInputs:
    case In::kOutputs:
    case In::kShape:
      return std::nullopt;
    case In::kRequest:
      if (key_ == "inputs") return In::kInputs;
      if (key_ == "outputs") return In::kOutputs;
      break;
    case In::kInput:
      if (key_ == "shape" && !std::exchange(Input().has_shape, true)) return In::kShape;
      if (key_ == "data" && !std::exchange(Input().has_data, true)) {
        data_level_ = 1;
        leaf_level_ = 0;
        level_counts_.assign(1, 0);
        Input().nesting.assign(1, kOpen);
        return In::kData;
      }
      break;
    default:
      return In::kIgnored;
  }
  return IsKnownKey() ? std::nullopt : std::optional(In::kIgnored);
}

bool InferSax::Enter(std::optional<In> place, std::string_view what) {
  if (stack_.size() >= kMaxDepth) {
    return Invalid(fmt::format("nested more than {} levels deep", kMaxDepth));
  }
  if (!place) {
    if (stack_.empty()) return Invalid("the request is not a JSON object");
    return Invalid(fmt::format("'{}' is given twice, too often, or cannot hold {}", key_, what));
  }
  stack_.push_back(*place);
  return true;
}

bool InferSax::Leave() {
  stack_.pop_back();
  return true;
}

bool InferSax::EnterDataLevel() {
  if (data_level_ >= kMaxRank) {
    return Invalid(fmt::format("'data' nests more than {} levels deep", kMaxRank));
  }
  if (leaf_level_ == data_level_) return Invalid("'data' mixes numbers and arrays");
  ++level_counts_[data_level_ - 1];
  ++data_level_;
  if (level_counts_.size() < data_level_) {
    level_counts_.push_back(0);
    Input().nesting.push_back(kOpen);
  }
  level_counts_[data_level_ - 1] = 0;
  stack_.push_back(In::kData);
  return true;
}

bool InferSax::LeaveDataLevel() {
  std::int64_t& length = Input().nesting[data_level_ - 1];
  const std::int64_t count = level_counts_[data_level_ - 1];
  if (length == kOpen) length = count;
  if (length != count) {
    return Invalid(fmt::format("'data' is ragged: arrays of {} and of {} elements at one level",
                               length, count));
  }
  --data_level_;
  return true;
}

bool InferSax::Datum(double value) {
  if (leaf_level_ == 0) leaf_level_ = data_level_;
  if (leaf_level_ != data_level_ || level_counts_.size() > data_level_) {
    return Invalid("'data' mixes numbers and arrays");
  }
  ++level_counts_[data_level_ - 1];
  Input().data.push_back(value);
  return true;
}

bool InferSax::DimensionOf(number_unsigned_t value) {
  if (Input().shape.size() >= kMaxRank || !std::in_range<std::int64_t>(value)) {
    return Invalid(
        fmt::format("'shape' has more than {} dimensions or one that is too large", kMaxRank));
  }
  Input().shape.push_back(static_cast<std::int64_t>(value));
  return true;
}

bool InferSax::RequestParameter(std::optional<std::uint64_t> number, std::optional<bool> flag) {
  const bool takes_number = key_ == "priority" || key_ == "timeout";
  const bool takes_flag = key_ == "binary_data_output" || key_ == "lagoon_stages";
  if (takes_number && !number)
    return Invalid(fmt::format("'{}' is not a whole number from 0", key_));
  if (takes_flag && !flag) return Invalid(fmt::format("'{}' is not true or false", key_));
  if (key_ == "priority") result_.priority = *number;
  if (key_ == "timeout") result_.timeout_us = *number;
  if (key_ == "binary_data_output") result_.binary_outputs = *flag;
  if (key_ == "lagoon_stages") result_.stages = *flag;
  return true;
}

bool InferSax::Parameter(std::optional<std::uint64_t> number, std::optional<bool> flag) {
  const In place = Top();
  if (place == In::kParameters) return RequestParameter(number, flag);
  if (key_ == "shared_memory_region") {
    return FailWith(ErrorCode::kUnimplemented, "shared memory is not supported");
  }
  if (place == In::kOutputParameters && key_ == "classification" && number != 0u) {
    return FailWith(ErrorCode::kUnimplemented, "'classification' is not supported");
  }
  if (place == In::kInputParameters && key_ == "binary_data_size") {
    if (!number) return Invalid("'binary_data_size' is not a whole number from 0");
    Input().binary_bytes = *number;
  }
  if (place == In::kOutputParameters && key_ == "binary_data") {
    if (!flag) return Invalid("'binary_data' is not true or false");
    Output().binary = *flag;
  }
  return true;
}

bool InferSax::Scalar(std::string_view what) {
  switch (Top()) {
    case In::kIgnored:
      return true;
    case In::kParameters:
    case In::kInputParameters:
    case In::kOutputParameters:
      return Parameter(std::nullopt, std::nullopt);
    case In::kTop:
      return Invalid("the request is not a JSON object");
    case In::kData:
    case In::kShape:
      return Invalid(fmt::format("'{}' cannot hold {}", key_, what));
    default:
      break;
  }
  return !IsObject(Top()) || IsKnownKey() ? Wrong(what) : true;
}

bool InferSax::boolean(bool value) {
  switch (Top()) {
    case In::kData:
      Input().has_bools = true;
      return Datum(value ? 1 : 0);
    case In::kParameters:
    case In::kInputParameters:
    case In::kOutputParameters:
      return Parameter(std::nullopt, value);
    default:
      return Scalar("true or false");
  }
}

bool InferSax::number_unsigned(number_unsigned_t value) {
  switch (Top()) {
    case In::kData:
      Input().has_numbers = true;
      return Datum(static_cast<double>(value));
    case In::kShape:
      return DimensionOf(value);
    case In::kParameters:
    case In::kInputParameters:
    case In::kOutputParameters:
      return Parameter(value, std::nullopt);
    default:
      return Scalar("a number");
  }
}

bool InferSax::number_integer(number_integer_t value) {
  if (value >= 0) return number_unsigned(static_cast<number_unsigned_t>(value));
  if (Top() != In::kData) return Scalar("a negative number");
  Input().has_numbers = true;
  return Datum(static_cast<double>(value));
}

bool InferSax::number_float(number_float_t value, const string_t&) {
  if (Top() != In::kData) return Scalar("a fraction");
  Input().has_numbers = true;
  return Datum(value);
}

bool InferSax::string(string_t& value) {
  const In place = Top();
  if (place == In::kRequest && key_ == "id") {
    result_.id = std::move(value);
  } else if (place == In::kInput && key_ == "name") {
    Input().name = std::move(value);
  } else if (place == In::kInput && key_ == "datatype") {
    Input().datatype = std::move(value);
  } else if (place == In::kOutput && key_ == "name") {
    Output().name = std::move(value);
  } else if (place == In::kData) {
    // Without a datatype yet, the strings are the first sign of one.
    const std::string& type = Input().datatype;
    if (!type.empty() && type != "BYTES")
      return Invalid("'data' has strings, its datatype is " + type);
    return FailWith(ErrorCode::kUnimplemented,
                    "'data' has strings: BYTES tensors are not supported");
  } else {
    return Scalar("a string");
  }
  return true;
}

}  // namespace

Result<JsonInfer> ParseInferJson(std::span<const std::byte> text) {
  const char* begin = reinterpret_cast<const char*>(text.data());
  InferSax sax;
  if (!nlohmann::json::sax_parse(begin, begin + text.size(), &sax)) {
    return tl::unexpected<Error>(sax.TakeError());
  }
  return sax.TakeResult();
}

}  // namespace lagoon
