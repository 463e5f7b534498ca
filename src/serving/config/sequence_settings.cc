#include "serving/config/sequence_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/text.h"

namespace lagoon {
namespace {

using Proto = inference::ModelSequenceBatching;

constexpr std::uint64_t kMaxMicroseconds = std::uint64_t{1} << 52;
constexpr std::int64_t kMaxCandidates = 65536;

tl::unexpected<Error> Wrong(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "sequence_batching." + what);
}

template <typename T>
std::array<std::byte, 8> Element(T value) {
  std::array<std::byte, 8> element{};
  std::memcpy(element.data(), &value, sizeof(value));
  return element;
}

/// The two values of a control, which exactly one of the three lists gives.
Status ReadValues(const Proto::Control& proto, const std::string& place, SequenceControl& control) {
  const int given =
      proto.int32_false_true_size() + proto.fp32_false_true_size() + proto.bool_false_true_size();
  if (given == 2 && proto.int32_false_true_size() == 2) {
    control.type = DataType::kInt32;
    control.no = Element(proto.int32_false_true(0));
    control.yes = Element(proto.int32_false_true(1));
  } else if (given == 2 && proto.fp32_false_true_size() == 2) {
    control.type = DataType::kFloat32;
    control.no = Element(proto.fp32_false_true(0));
    control.yes = Element(proto.fp32_false_true(1));
  } else if (given == 2 && proto.bool_false_true_size() == 2) {
    control.type = DataType::kBool;
    control.no = Element(proto.bool_false_true(0));
    control.yes = Element(proto.bool_false_true(1));
  } else {
    return Wrong(
        fmt::format("{} needs one of int32_false_true, fp32_false_true and "
                    "bool_false_true, with two values",
                    place));
  }
  return {};
}

Status ReadId(const Proto::Control& proto, const std::string& place, SequenceControl& control) {
  switch (proto.data_type()) {
    case inference::TYPE_UINT64:
      control.type = DataType::kUInt64;
      return {};
    case inference::TYPE_INT64:
      control.type = DataType::kInt64;
      return {};
    case inference::TYPE_UINT32:
      control.type = DataType::kUInt32;
      return {};
    case inference::TYPE_INT32:
      control.type = DataType::kInt32;
      return {};
    case inference::TYPE_STRING:
      control.type = DataType::kString;
      return {};
    default:
      return Wrong(
          fmt::format("{} has data_type {}; an id takes TYPE_UINT64, TYPE_INT64, "
                      "TYPE_UINT32, TYPE_INT32 or TYPE_STRING",
                      place, inference::DataType_Name(proto.data_type())));
  }
}

Status ReadControls(const Proto& proto, SequenceSettings& settings) {
  std::set<std::string> inputs;
  std::set<Proto::Control::Kind> kinds;
  for (const Proto::ControlInput& input : proto.control_input()) {
    const std::string place = fmt::format("control_input {}", Quoted(input.name()));
    if (input.name().empty() || !inputs.insert(input.name()).second) {
      return Wrong(place + ": each needs a name of its own");
    }
    if (input.control_size() != 1) {
      return Wrong(fmt::format("{} has {} controls; it takes one", place, input.control_size()));
    }
    const Proto::Control& proto_control = input.control(0);
    if (!kinds.insert(proto_control.kind()).second) {
      return Wrong(fmt::format("{}: {} is given twice", place,
                               Proto::Control::Kind_Name(proto_control.kind())));
    }
    SequenceControl control;
    control.input = input.name();
    using Kind = SequenceControl::Kind;
    constexpr Kind kKinds[] = {Kind::kStart, Kind::kReady, Kind::kEnd, Kind::kId};
    if (proto_control.kind() < 0 || proto_control.kind() > 3) return Wrong(place + ": its kind");
    control.kind = kKinds[proto_control.kind()];
    LAGOON_RETURN_IF_ERROR(control.kind == Kind::kId ? ReadId(proto_control, place, control)
                                                     : ReadValues(proto_control, place, control));
    settings.controls.push_back(std::move(control));
  }
  return {};
}

Status ReadStates(const Proto& proto, SequenceSettings& settings) {
  std::set<std::string> names;
  for (const Proto::State& given : proto.state()) {
    const std::string place = fmt::format("state {}", Quoted(given.input_name()));
    if (given.input_name().empty() || given.output_name().empty()) {
      return Wrong(place + " needs input_name and output_name");
    }
    if (!names.insert("in " + given.input_name()).second ||
        !names.insert("out " + given.output_name()).second) {
      return Wrong(place + ": input and output are those of one state only");
    }
    if (given.initial_state_size() > 1) {
      return Wrong(
          fmt::format("{} has {} initial states; it takes one", place, given.initial_state_size()));
    }
    SequenceState state{given.input_name(), given.output_name(), std::nullopt, {}};
    for (const Proto::InitialState& initial : given.initial_state()) {
      state.initial_dims.emplace(initial.dims().begin(), initial.dims().end());
      for (const std::int64_t dim : *state.initial_dims) {
        if (dim < 1) return Wrong(place + ": an initial state has positive dims");
      }
      state.initial_file = initial.data_file();
    }
    settings.states.push_back(std::move(state));
  }
  return {};
}

Status ReadStrategy(const inference::ModelConfig& config, SequenceSettings& settings) {
  const Proto& proto = config.sequence_batching();
  const std::uint64_t delay = proto.has_oldest() ? proto.oldest().max_queue_delay_microseconds()
                                                 : proto.direct().max_queue_delay_microseconds();
  const std::uint64_t idle = proto.max_sequence_idle_microseconds();
  if (delay > kMaxMicroseconds || idle > kMaxMicroseconds) {
    return Wrong(
        fmt::format("max_queue_delay_microseconds is {} and "
                    "max_sequence_idle_microseconds {}; both take at most {}",
                    delay, idle, kMaxMicroseconds));
  }
  settings.max_delay = std::chrono::microseconds(delay);
  if (idle > 0) settings.idle = std::chrono::microseconds(idle);
  settings.candidates = proto.oldest().max_candidate_sequences();
  if (settings.candidates < 0 || settings.candidates > kMaxCandidates) {
    return Wrong(fmt::format("oldest.max_candidate_sequences is {}; it takes 1 to {}",
                             settings.candidates, kMaxCandidates));
  }
  for (const std::int32_t rows : proto.oldest().preferred_batch_size()) {
    if (rows < 1 || rows > std::max(1, config.max_batch_size())) {
      return Wrong(fmt::format("oldest.preferred_batch_size is {}; max_batch_size is {}", rows,
                               config.max_batch_size()));
    }
    settings.preferred.push_back(rows);
  }
  std::ranges::sort(settings.preferred);
  return {};
}

}  // namespace

Result<std::optional<SequenceSettings>> ReadSequences(const inference::ModelConfig& config) {
  if (!config.has_sequence_batching()) return std::nullopt;
  SequenceSettings settings;
  LAGOON_RETURN_IF_ERROR(ReadStrategy(config, settings));
  LAGOON_RETURN_IF_ERROR(ReadControls(config.sequence_batching(), settings));
  LAGOON_RETURN_IF_ERROR(ReadStates(config.sequence_batching(), settings));
  return settings;
}

SequenceTensors HiddenTensors(const inference::ModelConfig& config) {
  SequenceTensors hidden;
  const Proto& proto = config.sequence_batching();
  for (const Proto::ControlInput& input : proto.control_input()) {
    hidden.inputs.push_back(input.name());
  }
  for (const Proto::State& state : proto.state()) {
    hidden.inputs.push_back(state.input_name());
    const auto declared =
        std::ranges::find(config.output(), state.output_name(), &inference::ModelOutput::name);
    if (declared == config.output().end()) hidden.outputs.push_back(state.output_name());
  }
  return hidden;
}

}  // namespace lagoon
