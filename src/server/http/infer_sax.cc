#include "server/http/infer_sax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"

namespace lagoon {
namespace {

// "data" nests as deep as a tensor has dimensions; no model has more.
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxTensors = 1024;
// Most members, and values of ignored members, in a whole request. 1,024 inputs and as many outputs
// have some 10,000; a request with more would only take time.
constexpr std::size_t kMaxMembers = 65'536;
constexpr std::int64_t kOpen = -1;  // length of an array level that no array has closed yet

// Members with a meaning at certain places; at other places they are ignored.
constexpr std::array<std::string_view, 8> kKnownKeys = {
    "id", "inputs", "outputs", "name", "shape", "data", "parameters", "datatype"};

// The bit of a known name for Frame::seen; 0: the name is not known.
std::uint32_t BitOf(std::string_view name) {
  const auto member = std::ranges::find(kKnownKeys, name);
  if (member != kKnownKeys.end()) return 1U << (member - kKnownKeys.begin());
  const auto parameter = std::ranges::find(kServerParameters, name);
  if (parameter == kServerParameters.end()) return 0;
  return 1U << (kKnownKeys.size() +
                static_cast<std::size_t>(parameter - kServerParameters.begin()));
}

// The number of elements of `shape`; saturates.
std::size_t Elements(const Dims& shape) {
  std::size_t count = 1;
  for (const std::int64_t dim : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(dim), &count)) {
      return std::numeric_limits<std::size_t>::max();
    }
  }
  return count;
}

}  // namespace

bool InferSax::IsKnownKey() const {
  return std::ranges::find(kKnownKeys, key_) != kKnownKeys.end();
}

bool InferSax::HoldsKnownParameter() const { return InParameters() && BitOf(key_) != 0; }

bool InferSax::InOtherParameter() const {
  return Top() == In::kParameters && !IsServerParameter(key_);
}

bool InferSax::InObject() const {
  return Top() == In::kRequest || Top() == In::kInput || Top() == In::kOutput;
}

bool InferSax::key(string_t& name) {
  key_.swap(name);
  if (!CountMember()) return false;
  if (Top() == In::kIgnored) return true;
  const std::uint32_t bit = BitOf(key_);
  if ((stack_.back().seen & bit) != 0) return Invalid(fmt::format("'{}' is given twice", key_));
  stack_.back().seen |= bit;
  return true;
}

bool InferSax::CountMember() {
  if (++members_ <= kMaxMembers) return true;
  return Invalid(fmt::format("more than {} members and ignored values", kMaxMembers));
}

std::string_view InferSax::Subject() const {
  switch (Top()) {
    case In::kInputs:
      return "inputs";
    case In::kOutputs:
      return "outputs";
    case In::kShape:
      return "shape";
    case In::kData:
      return "data";
    default:
      return key_;
  }
}

std::string InferSax::Place() const {
  for (auto frame = stack_.rbegin(); frame != stack_.rend(); ++frame) {
    const bool input = frame->place == In::kInput;
    if (!input && frame->place != In::kOutput) continue;
    const std::size_t index = (input ? result_.inputs.size() : result_.outputs.size()) - 1;
    const std::string& name = input ? result_.inputs.back().name : result_.outputs.back().name;
    const std::string_view list = input ? "inputs" : "outputs";
    return name.empty() ? fmt::format("{}[{}]: ", list, index)
                        : fmt::format("{}[{}] {}: ", list, index, Quoted(name));
  }
  return "";
}

bool InferSax::FailWith(ErrorCode code, std::string_view why) {
  error_ = {code, fmt::format("request's JSON: {}{}", Place(), why)};
  return false;
}

bool InferSax::Wrong(std::string_view what) {
  const std::string subject = Quoted(Subject());
  if (Top() == In::kInputs || Top() == In::kOutputs) {
    const bool full =
        (Top() == In::kInputs ? result_.inputs.size() : result_.outputs.size()) >= kMaxTensors;
    if (full) return Invalid(fmt::format("{} has more than {} entries", subject, kMaxTensors));
  }
  return Invalid(
      fmt::format("{} cannot {} {}", subject, InObject() || InParameters() ? "be" : "hold", what));
}

std::optional<InferSax::In> InferSax::PlaceOfObject() {
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
      return PlaceInParameters();
  }
}

// Of an object or an array. All parameters of a request, and the server's of a tensor, are scalars.
std::optional<InferSax::In> InferSax::PlaceInParameters() const {
  const bool scalar = Top() == In::kParameters || (InTensorParameters() && IsServerParameter(key_));
  return scalar ? std::nullopt : std::optional(In::kIgnored);
}

std::optional<InferSax::In> InferSax::PlaceOfArray() {
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
      if (key_ == "shape") {
        Input().has_shape = true;
        return In::kShape;
      }
      if (key_ == "data") {
        BeginData();
        return In::kData;
      }
      break;
    default:
      return PlaceInParameters();
  }
  return IsKnownKey() ? std::nullopt : std::optional(In::kIgnored);
}

void InferSax::BeginData() {
  Input().has_data = true;
  data_level_ = 1;
  leaf_level_ = 0;
  level_counts_.assign(1, 0);
  Input().nesting.assign(1, kOpen);
  max_elements_ = bounds_.max_elements;
  // If the shape comes before the data, as it often does, it bounds the number of elements.
  if (!Input().has_shape) return;
  const std::size_t needed = Elements(Input().shape);
  if (needed < max_elements_ - std::min(elements_, max_elements_)) {
    max_elements_ = elements_ + needed;
  }
}

bool InferSax::Enter(std::optional<In> place, std::string_view what) {
  if (stack_.size() >= kMaxDepth) {
    return Invalid(fmt::format("nested more than {} levels deep", kMaxDepth));
  }
  if (!place) {
    if (stack_.empty()) return Invalid("the request is not a JSON object");
    return Wrong(what);
  }
  if (*place == In::kIgnored && !CountMember()) return false;
  stack_.push_back({*place});
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
  // A tensor has at most as many arrays on each level as it has elements.
  if (++arrays_ / kMaxRank > max_elements_) return TooMany();
  ++level_counts_[data_level_ - 1];
  ++data_level_;
  if (level_counts_.size() < data_level_) {
    level_counts_.push_back(0);
    Input().nesting.push_back(kOpen);
  }
  level_counts_[data_level_ - 1] = 0;
  stack_.push_back({In::kData});
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

bool InferSax::TooMany() {
  if (Input().has_shape && max_elements_ < bounds_.max_elements) {
    return Invalid(fmt::format("'data' has more elements than the {} of shape {}",
                               Elements(Input().shape), ToString(Input().shape)));
  }
  return Invalid(fmt::format("'data' has more elements than the {} that the model takes",
                             bounds_.max_elements));
}

bool InferSax::TooLarge(std::string_view verb, std::string_view number) {
  return Invalid(fmt::format("{} {} {}, which is too large", Quoted(key_), verb, Shown(number)));
}

}  // namespace lagoon
