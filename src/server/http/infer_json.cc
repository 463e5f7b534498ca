#include "server/http/infer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "plan/bytes_tensor.h"
#include "server/http/infer_sax.h"

namespace lagoon {
// The handlers of values; those of objects and arrays are in infer_sax.cc.

bool InferSax::Datum(double value) {
  if (++elements_ > max_elements_) return TooMany();
  if (leaf_level_ == 0) leaf_level_ = data_level_;
  if (leaf_level_ != data_level_ || level_counts_.size() > data_level_) {
    return Invalid("'data' mixes numbers and arrays");
  }
  ++level_counts_[data_level_ - 1];
  Input().data.push_back(value);
  return true;
}

bool InferSax::Whole(double value, std::uint64_t bits, bool negative) {
  Input().has_numbers = true;
  if (!Datum(value)) return false;
  const std::uint64_t magnitude = negative ? 0 - bits : bits;
  if (magnitude >= kFirstInexact) {
    Input().wholes.push_back({Input().data.size() - 1, bits, negative});
  }
  return true;
}

bool InferSax::DimensionOf(number_unsigned_t value) {
  if (Input().shape.size() >= kMaxRank) {
    return Invalid(fmt::format("'shape' has more than {} dimensions", kMaxRank));
  }
  if (!std::in_range<std::int64_t>(value)) return TooLarge("holds", std::to_string(value));
  Input().shape.push_back(static_cast<std::int64_t>(value));
  return true;
}

template <typename Value>
bool InferSax::Keep(Value value) {
  // The last one counts where a name is there twice.
  auto& kept = result_.parameters;
  const auto same = std::ranges::find(kept, key_, &RequestParameter::name);
  if (same != kept.end()) {
    same->value = std::move(value);
    return true;
  }
  if (kept.size() >= kMostRequestParameters) {
    return Invalid(fmt::format("more than {} parameters", kMostRequestParameters));
  }
  kept.push_back({key_, std::move(value)});
  return true;
}

bool InferSax::OfRequest(std::optional<std::uint64_t> number, std::optional<bool> flag) {
  const bool takes_number = key_ == "priority" || key_ == "timeout" || key_ == "sequence_id";
  const bool takes_flag = key_ == "binary_data_output" || key_ == "lagoon_stages" ||
                          key_ == "sequence_start" || key_ == "sequence_end";
  if (key_ == "lagoon_tenant") return Invalid("'lagoon_tenant' is not a text");
  if (takes_number && !number)
    return Invalid(fmt::format("'{}' is not a whole number from 0", key_));
  if (takes_flag && !flag) return Invalid(fmt::format("'{}' is not true or false", key_));
  if (key_ == "priority") result_.priority = *number;
  if (key_ == "timeout") result_.timeout_us = *number;
  if (key_ == "binary_data_output") result_.binary_outputs = *flag;
  if (key_ == "lagoon_stages") result_.stages = *flag;
  if (key_ == "sequence_id") result_.sequence.number = *number;
  if (key_ == "sequence_start") result_.sequence.start = *flag;
  if (key_ == "sequence_end") result_.sequence.end = *flag;
  return true;
}

bool InferSax::Parameter(std::optional<std::uint64_t> number, std::optional<bool> flag) {
  const In place = Top();
  if (place == In::kParameters) return OfRequest(number, flag);
  if (key_ == "shared_memory_region") return Invalid("'shared_memory_region' is not a text");
  if (key_ == "shared_memory_byte_size" || key_ == "shared_memory_offset") {
    if (!number) return Invalid(fmt::format("'{}' is not a whole number from 0", key_));
    if (key_ == "shared_memory_offset") Shared().offset = *number;
    if (key_ == "shared_memory_byte_size") Shared().bytes = *number;
  }
  if (place == In::kOutputParameters && key_ == "classification") {
    if (!number || !std::in_range<std::uint32_t>(*number)) {
      return Invalid("'classification' is not a number of classes");
    }
    Output().classes = static_cast<std::uint32_t>(*number);
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
      return CountMember();
    case In::kParameters:
    case In::kInputParameters:
    case In::kOutputParameters:
      return Parameter(std::nullopt, std::nullopt);
    case In::kTop:
      return Invalid("the request is not a JSON object");
    default:
      break;
  }
  return !InObject() || IsKnownKey() ? Wrong(what) : true;
}

// A member that is null is as if it were absent: many clients write absent ones so.
bool InferSax::null() {
  switch (Top()) {
    case In::kRequest:
    case In::kParameters:
    case In::kInput:
    case In::kInputParameters:
    case In::kOutput:
    case In::kOutputParameters:
      return true;
    default:
      return Scalar("null");
  }
}

bool InferSax::boolean(bool value) {
  if (InOtherParameter()) return Keep(value);
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
  if (InOtherParameter()) return Keep(std::uint64_t{value});
  switch (Top()) {
    case In::kData:
      return Whole(static_cast<double>(value), value, false);
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
  if (InOtherParameter()) return Keep(std::int64_t{value});
  if (Top() != In::kData) return Scalar("a negative number");
  return Whole(static_cast<double>(value), static_cast<std::uint64_t>(value), true);
}

bool InferSax::number_float(number_float_t value, const string_t& text) {
  // The parser reports a whole number beyond 64 bits as a double, too.
  const bool huge = text.find_first_not_of("0123456789") == std::string::npos;
  if (huge && Top() == In::kShape) return TooLarge("holds", text);
  if (huge && HoldsKnownParameter()) return TooLarge("is", text);
  if (InOtherParameter()) return Keep(value);
  if (Top() != In::kData) return Scalar("a fraction");
  Input().has_numbers = true;
  return Datum(value);
}

bool InferSax::string(string_t& value) {
  const In place = Top();
  if (place == In::kRequest && key_ == "id") {
    result_.id = std::move(value);
  } else if (place == In::kParameters && key_ == "sequence_id") {
    result_.sequence.text = std::move(value);
  } else if (place == In::kParameters && key_ == "lagoon_via") {
    result_.via = std::move(value);
  } else if (place == In::kParameters && key_ == "lagoon_tenant") {
    result_.tenant = std::move(value);
  } else if (InOtherParameter()) {
    return Keep(std::move(value));
  } else if (place == In::kInput && key_ == "name") {
    Input().name = std::move(value);
  } else if (place == In::kInput && key_ == "datatype") {
    Input().datatype = std::move(value);
  } else if (place == In::kOutput && key_ == "name") {
    Output().name = std::move(value);
  } else if (InTensorParameters() && key_ == "shared_memory_region") {
    if (value.empty()) return Invalid("'shared_memory_region' is empty");
    Shared().region = std::move(value);
  } else if (place == In::kData) {
    // Without a datatype so far, strings alone show that the tensor is of BYTES.
    const std::string& type = Input().datatype;
    if (!type.empty() && type != "BYTES")
      return Invalid("'data' has strings, its datatype is " + Quoted(type));
    Input().has_texts = true;
    AppendBytesElement(value, Input().texts);
    return Datum(0);
  } else {
    return Scalar("a string");
  }
  return true;
}

Result<JsonInfer> ParseInferJson(std::span<const std::byte> text, const JsonBounds& bounds) {
  const char* begin = reinterpret_cast<const char*>(text.data());
  InferSax sax(bounds);
  if (!nlohmann::json::sax_parse(begin, begin + text.size(), &sax)) {
    return tl::unexpected<Error>(sax.TakeError());
  }
  // The parser takes a NUL byte for the end of the text and ignores the rest.
  if (const void* nul = std::memchr(begin, 0, text.size()); nul != nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("request's JSON: a NUL byte at position {}",
                            static_cast<const char*>(nul) - begin));
  }
  return sax.TakeResult();
}

}  // namespace lagoon
