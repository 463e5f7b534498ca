#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/infer_json.h"

namespace lagoon {

/// Receives nlohmann's events of one request. Every handler returns false after setting error_,
/// which ends the parse.
class InferSax {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  explicit InferSax(const JsonBounds& bounds) : bounds_(bounds) {}

  JsonInfer TakeResult() { return std::move(result_); }
  Error TakeError() { return std::move(error_); }

  bool key(string_t& name);
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

  bool null();
  bool boolean(bool value);
  bool number_integer(number_integer_t value);
  bool number_unsigned(number_unsigned_t value);
  bool number_float(number_float_t value, const string_t& text);
  bool string(string_t& value);
  bool binary(binary_t&) { return Scalar("binary"); }

  template <typename Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& e) {
    // The library's text starts with its own name in brackets.
    const std::string_view what = e.what();
    const std::size_t end = what.find("] ");
    return Invalid(what.substr(end == std::string_view::npos ? 0 : end + 2, kMaxSyntaxBytes));
  }

 private:
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
  // A place in the document, and which known members of it have occurred.
  struct Frame {
    In place;
    std::uint32_t seen = 0;
  };

  In Top() const { return stack_.empty() ? In::kTop : stack_.back().place; }
  JsonInput& Input() { return result_.inputs.back(); }
  JsonOutput& Output() { return result_.outputs.back(); }
  // The form of the tensor whose parameters are being read.
  JsonShared& Shared() { return Top() == In::kInputParameters ? Input().shared : Output().shared; }

  std::optional<In> PlaceOfObject();
  std::optional<In> PlaceOfArray();
  std::optional<In> PlaceInParameters() const;
  void BeginData();
  bool Enter(std::optional<In> place, std::string_view what);
  bool Leave();
  bool CountMember();
  bool EnterDataLevel();
  bool LeaveDataLevel();
  bool TooMany();
  bool Datum(double value);
  bool Whole(double value, std::uint64_t bits, bool negative);
  bool DimensionOf(number_unsigned_t value);
  bool Parameter(std::optional<std::uint64_t> number, std::optional<bool> flag);
  bool OfRequest(std::optional<std::uint64_t> number, std::optional<bool> flag);
  // Whether the value is that of a parameter with no meaning for the server.
  bool InOtherParameter() const;
  template <typename Value>
  bool Keep(Value value);
  // A value that is not expected at its place: ignored or refused, depending on the place.
  bool Scalar(std::string_view what);

  bool IsKnownKey() const;
  bool HoldsKnownParameter() const;
  bool InTensorParameters() const {
    return Top() == In::kInputParameters || Top() == In::kOutputParameters;
  }
  bool InParameters() const { return Top() == In::kParameters || InTensorParameters(); }
  bool InObject() const;
  // The name of the place, for messages.
  std::string_view Subject() const;
  std::string Place() const;
  bool Invalid(std::string_view why) { return FailWith(ErrorCode::kInvalidArgument, why); }
  bool FailWith(ErrorCode code, std::string_view why);
  bool Wrong(std::string_view what);
  bool TooLarge(std::string_view verb, std::string_view number);

  // Most dims of a shape, and most levels of "data".
  static constexpr std::size_t kMaxRank = 16;
  // The parser quotes the text that it cannot parse, of any length.
  static constexpr std::size_t kMaxSyntaxBytes = 300;

  const JsonBounds bounds_;
  JsonInfer result_;
  Error error_{ErrorCode::kInvalidArgument, "the request is not a JSON object"};
  std::vector<Frame> stack_;
  std::string key_;
  std::size_t members_ = 0;       // members so far; see kMaxMembers
  std::size_t elements_ = 0;      // elements of all "data" so far
  std::size_t arrays_ = 0;        // arrays in all "data" so far
  std::size_t max_elements_ = 0;  // most elements of all "data" up to the end of the present one
  std::size_t data_level_ = 0;    // arrays of "data" that are open
  std::size_t leaf_level_ = 0;    // the level that holds numbers; 0: not known yet
  std::vector<std::int64_t> level_counts_;  // elements so far of the open array of each level
};

}  // namespace lagoon
