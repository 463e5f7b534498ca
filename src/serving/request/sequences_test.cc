#include "serving/request/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr char kControls[] = R"(
  control_input [
    { name: "start" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] },
    { name: "ready" control [ { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 5, 6 ] } ] },
    { name: "end" control [ { kind: CONTROL_SEQUENCE_END fp32_false_true: [ -1, 1 ] } ] },
    { name: "id" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 } ] } ]
  state [ { input_name: "sum_in" output_name: "sum_out" data_type: TYPE_FP32 dims: [ 1 ] } ])";

/// A text of sequence_batching.
std::string Config(const std::string& more = "", const std::string& rest = "") {
  return "sequence_batching {" + std::string(kControls) + more + "}\n" + rest;
}

/// "y": the sum of all "x" of a sequence, and its controls as outputs. `rows`: the batch is open.
onnx::ModelProto SumModel(bool rows = false) {
  OnnxBuilder builder;
  for (const char* name : {"x", "start", "ready", "end", "id", "sum_in"})
    builder.Input(name, {1, 1});
  builder.Node("Add", {"x", "sum_in"}, "sum").Node("Floor", {"sum"}, "y");
  builder.Node("Identity", {"y"}, "sum_out");
  for (const char* name : {"start", "ready", "end", "id"}) {
    builder.Node("Identity", {name}, std::string(name) + "_out");
  }
  for (const char* name : {"y", "sum_out", "start_out", "ready_out", "end_out", "id_out"}) {
    builder.Output(name, {1, 1});
  }
  onnx::ModelProto model = builder.Build();
  auto& graph = *model.mutable_graph();
  for (auto* values : {graph.mutable_input(), graph.mutable_output()}) {
    for (onnx::ValueInfoProto& value : *values) {
      auto& type = *value.mutable_type()->mutable_tensor_type();
      if (value.name().starts_with("id")) type.set_elem_type(onnx::TensorProto::INT64);
      if (rows) type.mutable_shape()->mutable_dim(0)->set_dim_param("rows");
    }
  }
  return model;
}

class SequencesTest : public CoreTest {
 protected:
  void Serve(const std::string& config, bool rows = false) {
    UseGates();
    repository_.AddModel("sum", SumModel(rows), config);
    Open();
  }
  static InferRequest Part(std::uint64_t id, float x, const std::string& flags = "") {
    InferRequest request = RequestFor("sum", {1, 1}, {x});
    request.sequence.number = id;
    request.sequence.start = flags.find('s') != flags.npos;
    request.sequence.end = flags.find('e') != flags.npos;
    return request;
  }
  static float Sum(const Answer& answer) {
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? Floats(answer->outputs.front()).front() : 0;
  }
  float Ask1(std::uint64_t id, float x, const std::string& flags = "") {
    return Sum(Ask(Part(id, x, flags)));
  }
  std::string ErrorOf(InferRequest request) {
    const Answer answer = Ask(std::move(request));
    EXPECT_EQ(CodeOf(answer), ErrorCode::kInvalidArgument);
    return answer ? "" : answer.error().message;
  }
};

TEST_F(SequencesTest, StatesGoFromOneRequestToTheNext) {
  Serve(Config("", "instance_group [ { count: 2 } ]"));
  EXPECT_EQ(Ask1(7, 3, "s"), 3);
  EXPECT_EQ(Ask1(8, 100, "s"), 100);
  EXPECT_EQ(Ask1(7, 4), 7);
  EXPECT_EQ(Ask1(8, 1, "e"), 101);
  EXPECT_EQ(Ask1(7, 5, "e"), 12);
  EXPECT_EQ(Ask1(7, 5, "s"), 5) << "a new sequence of the same id";
  EXPECT_EQ(Ask1(7, 6, "s"), 6) << "one that begins before the last has ended";
}

TEST_F(SequencesTest, AnIdMayBeAText) {
  onnx::ModelProto model = SumModel();
  for (auto* values :
       {model.mutable_graph()->mutable_input(), model.mutable_graph()->mutable_output()}) {
    for (onnx::ValueInfoProto& value : *values) {
      if (!value.name().starts_with("id")) continue;
      value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::STRING);
    }
  }
  std::string config = Config();
  const std::string number = "TYPE_INT64";
  repository_.AddModel("sum", model,
                       config.replace(config.find(number), number.size(), "TYPE_STRING"));
  Open();
  const auto id_of = [&](InferRequest request) -> std::string {
    const Answer answer = Ask(std::move(request));
    EXPECT_TRUE(answer) << answer.error().message;
    if (!answer) return "";
    const UnfilledBytes& data = answer->outputs[4].data;
    return {reinterpret_cast<const char*>(data.data()) + 4, data.size() - 4};
  };
  InferRequest text = Part(0, 1, "s");
  text.sequence.text = std::string(kMostIdBytes, 'i');
  EXPECT_EQ(id_of(std::move(text)), std::string(128, 'i'));
  EXPECT_EQ(id_of(Part(77, 1, "s")), "77");
  InferRequest long_text = Part(0, 1, "s");
  long_text.sequence.text = std::string(kMostIdBytes + 1, 'i');
  EXPECT_THAT(ErrorOf(std::move(long_text)), HasSubstr("has 129 bytes; it takes at most 128"));
}

TEST_F(SequencesTest, TheModelLearnsOfTheSequence) {
  Serve(Config());
  const auto controls = [&](std::uint64_t id, const std::string& flags) {
    const Answer answer = Ask(Part(id, 1, flags));
    EXPECT_TRUE(answer) << answer.error().message;
    std::vector<float> values;
    for (std::size_t i = 1; i < 4; ++i) values.push_back(Floats(answer->outputs[i]).front());
    EXPECT_THAT(Values<std::int64_t>(answer->outputs[4]), ElementsAre(id));
    return values;
  };
  EXPECT_THAT(controls(7, "s"), ElementsAre(1, 6, -1));
  EXPECT_THAT(controls(7, ""), ElementsAre(0, 6, -1));
  EXPECT_THAT(controls(7, "e"), ElementsAre(0, 6, 1));
  EXPECT_THAT(controls(8, "se"), ElementsAre(1, 6, 1));
}

TEST_F(SequencesTest, ClientsSeeNeitherControlsNorStates) {
  Serve(Config());
  const auto metadata = core_->Metadata("sum", "");
  ASSERT_EQ(metadata->inputs.size(), 1u);
  EXPECT_EQ(metadata->inputs[0].name, "x");
  ASSERT_EQ(metadata->outputs.size(), 5u);
  InferRequest request = Part(1, 1, "s");
  request.inputs.push_back(request.inputs[0]);
  request.inputs[1].name = "sum_in";
  EXPECT_THAT(ErrorOf(std::move(request)), AllOf(HasSubstr("'sum_in'"), HasSubstr("takes 'x'")));
  request = Part(1, 1, "s");
  request.outputs = {"sum_out"};
  EXPECT_THAT(ErrorOf(std::move(request)), HasSubstr("output 'sum_out' is unknown"));
  EXPECT_EQ(Ask(Part(1, 1, "s"))->outputs.size(), 5u);
}

TEST_F(SequencesTest, AStateThatIsDeclaredAsAnOutputIsAnswered) {
  Serve(Config("", R"(output [ { name: "sum_out" } ])"));
  EXPECT_EQ(Ask1(7, 3, "s"), 3);
  EXPECT_EQ(Ask1(7, 3), 6);
}

TEST_F(SequencesTest, RequestsOfASequenceRunInTheirOrder) {
  Serve(Config("", "instance_group [ { count: 4 } ]"));
  std::vector<Sent> sent;
  for (int i = 0; i < 20; ++i) sent.push_back(Send(Part(7, 1, i == 0 ? "s" : "")));
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(Sum(sent[static_cast<std::size_t>(i)].answer.get()), i + 1);
}

TEST_F(SequencesTest, NamesWhatIsMissing) {
  Serve(Config());
  EXPECT_THAT(ErrorOf(Part(0, 1, "s")), HasSubstr("must specify a non-zero or non-empty"));
  EXPECT_THAT(ErrorOf(Part(7, 1)), HasSubstr("sequence 7 to model 'sum' must specify the START"));
  EXPECT_EQ(Ask1(7, 1, "se"), 1);
  EXPECT_THAT(ErrorOf(Part(7, 1)), HasSubstr("must specify the START"));
  InferRequest text = Part(0, 2, "s");
  text.sequence.text = "camera";
  EXPECT_EQ(Sum(Ask(std::move(text))), 2);
}

TEST_F(SequencesTest, ASequenceWaitsForAPlace) {
  Serve(Config("max_sequence_idle_microseconds: 3600000000"));
  EXPECT_EQ(Ask1(7, 1, "s"), 1);
  Sent waits = Send(Part(8, 10, "s"));
  Sent behind = Send(Part(8, 10, "e"));
  Sent last = Send(Part(9, 50, "se"));
  EXPECT_EQ(Ask1(7, 1), 2);
  EXPECT_FALSE(waits.Answered());
  EXPECT_EQ(Ask1(7, 1, "e"), 3);
  EXPECT_EQ(Sum(waits.answer.get()), 10);
  EXPECT_EQ(Sum(behind.answer.get()), 20);
  EXPECT_EQ(Sum(last.answer.get()), 50);
}

TEST_F(SequencesTest, ASequenceThatIsIdleGivesItsPlaceAway) {
  Serve(Config("max_sequence_idle_microseconds: 20000"));
  EXPECT_EQ(Ask1(7, 1, "s"), 1);
  EXPECT_EQ(Ask1(8, 10, "s"), 10);  // when 7 has been idle
  EXPECT_THAT(ErrorOf(Part(7, 1)), HasSubstr("must specify the START"));
}

TEST_F(SequencesTest, OldestSaysHowManySequencesThereAre) {
  Serve(Config("max_sequence_idle_microseconds: 3600000000 oldest { max_candidate_sequences: 2 }"));
  EXPECT_EQ(Ask1(7, 1, "s"), 1);
  EXPECT_EQ(Ask1(8, 1, "s"), 1);
  Sent waits = Send(Part(9, 1, "s"));
  EXPECT_EQ(Ask1(8, 1, "e"), 2);
  EXPECT_EQ(Sum(waits.answer.get()), 1);
}

TEST_F(SequencesTest, ARequestThatIsCancelledOrTooLateIsLeftOut) {
  Serve(Config("max_sequence_idle_microseconds: 3600000000"));
  EXPECT_EQ(Ask1(7, 1, "s"), 1);
  Sent place = Send(Part(8, 10, "s"));
  Sent gone = Send(Part(8, 100));
  InferRequest hasty = Part(8, 1000);
  hasty.timeout = 1ms;
  EXPECT_EQ(CodeOf(Ask(std::move(hasty))), ErrorCode::kDeadlineExceeded);
  Sent last = Send(Part(8, 1, "e"));
  core_->Cancel(gone.handle);
  EXPECT_EQ(CodeOf(gone.answer.get()), ErrorCode::kCancelled);
  EXPECT_EQ(Ask1(7, 1, "e"), 2);
  EXPECT_EQ(Sum(place.answer.get()), 10);
  EXPECT_EQ(Sum(last.answer.get()), 11);
  // A sequence whose only requests were cancelled before it had a place leaves nothing behind.
  EXPECT_EQ(Ask1(7, 1, "s"), 1);
  Sent never = Send(Part(9, 1, "s"));
  core_->Cancel(never.handle);
  EXPECT_EQ(CodeOf(never.answer.get()), ErrorCode::kCancelled);
  EXPECT_EQ(Ask1(7, 1, "e"), 2);
  EXPECT_EQ(Ask1(9, 4, "s"), 4);
}

// A client that closes its connection cancels all its requests, of which some end meanwhile.
TEST_F(SequencesTest, CancelsMayComeWhileRequestsEnd) {
  Serve(Config());
  for (std::uint64_t round = 1; round <= 300; ++round) {
    std::vector<Sent> sent;
    for (int i = 0; i < 20; ++i) sent.push_back(Send(Part(round, 1, i == 0 ? "s" : "")));
    for (const Sent& one : sent) core_->Cancel(one.handle);
    for (Sent& one : sent) {
      const Answer answer = one.answer.get();
      if (answer) continue;
      ASSERT_EQ(CodeOf(answer), ErrorCode::kCancelled) << answer.error().message;
    }
  }
}

TEST_F(SequencesTest, OnlySoManyRequestsWait) {
  Serve(Config("max_sequence_idle_microseconds: 3600000000"));
  EXPECT_EQ(Ask1(7, 1, "s"), 1);
  std::vector<Sent> sent;
  for (std::size_t i = 0; i < kDefaultQueueSize; ++i) sent.push_back(Send(Part(100 + i, 1, "s")));
  const Answer full = Ask(Part(8, 1, "s"));
  ASSERT_EQ(CodeOf(full), ErrorCode::kUnavailable);
  EXPECT_THAT(full.error().message, HasSubstr("64 requests of sequences wait"));
  core_->Drain(Now());  // ends those that wait
  for (Sent& one : sent) EXPECT_FALSE(one.answer.get());
}

TEST_F(SequencesTest, RequestsOfDifferentSequencesAreJoined) {
  Serve(Config("direct { max_queue_delay_microseconds: 200000 }", "max_batch_size: 4"), true);
  std::vector<Sent> sent;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t id = 1; id <= 4; ++id) {
      sent.push_back(Send(Part(id, static_cast<float>(id), round == 0 ? "s" : "")));
    }
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(Sum(sent[i].answer.get()), static_cast<float>((i / 4 + 1) * (i % 4 + 1)));
  }
  const ModelStatistics statistics = StatisticsOf("sum");
  EXPECT_LT(statistics.execution_count, sent.size());
  EXPECT_EQ(statistics.inference_count, sent.size());
  InferRequest two = RequestFor("sum", {2, 1}, {1, 2});
  two.sequence.number = 5;
  two.sequence.start = true;
  EXPECT_THAT(ErrorOf(std::move(two)), HasSubstr("a request of a sequence has one row"));
}

TEST_F(SequencesTest, AStateMayBeginWithAFile) {
  const float ten = 10;
  std::string bytes(sizeof(ten), '\0');
  std::memcpy(bytes.data(), &ten, sizeof(ten));
  std::string config = Config();
  config.insert(config.find("dims: [ 1 ] }"), R"(initial_state { data_type: TYPE_FP32 dims: [ 1, 1 ]
                                                 name: "i" data_file: "ten" } )");
  repository_.WriteFile("sum/initial_state/ten", bytes);
  Serve(config);
  EXPECT_EQ(Ask1(7, 3, "s"), 13);
  EXPECT_EQ(Ask1(7, 3), 16);
  EXPECT_EQ(Ask1(7, 3, "s"), 13);
}

TEST_F(SequencesTest, AConfigurationThatDoesNotFitIsRefusedByName) {
  const struct {
    const char* from;
    const char* to;
    const char* says;
  } cases[] = {
      {"name: \"start\"", "name: \"begin\"", "control_input 'begin' is not in the model"},
      {"fp32_false_true: [ 0, 1 ]", "int32_false_true: [ 0, 1 ]", "'start' is FP32"},
      {"fp32_false_true: [ 0, 1 ]", "fp32_false_true: [ 0 ]", "with two values"},
      {"fp32_false_true: [ 0, 1 ]", "", "with two values"},
      {"data_type: TYPE_INT64 }", "data_type: TYPE_FP32 }", "an id takes"},
      {"data_type: TYPE_INT64 }", "data_type: TYPE_STRING }", "one BYTES for each row"},
      {"CONTROL_SEQUENCE_END fp32", "CONTROL_SEQUENCE_READY fp32", "is given twice"},
      {"name: \"end\"", "name: \"ready\"", "a name of its own"},
      {"input_name: \"sum_in\"", "input_name: \"none\"", "state 'none' is not in the model"},
      {"output_name: \"sum_out\"", "output_name: \"id_out\"", "of one type"},
      {"output_name: \"sum_out\"", "", "output_name"},
      {"dims: [ 1 ] }", "dims: [ 1 ] initial_state { data_file: \"no\" dims: [ 1, 1 ] } }",
       "'initial_state/no'"},
      {"dims: [ 1 ] }", "dims: [ 1 ] initial_state { data_file: \"../x\" dims: [ 1, 1 ] } }",
       "not a file in the"},
      {"dims: [ 1 ] }", "dims: [ 1 ] initial_state { zero_data: true dims: [ 2 ] } }",
       "begins with the dims [2]"},
      {"dims: [ 1 ] }", "dims: [ 1 ] initial_state { dims: [ -1 ] } }", "positive dims"},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    std::string config = Config();
    const std::size_t at = config.find(cases[i].from);
    ASSERT_NE(at, config.npos) << cases[i].from;
    config.replace(at, std::strlen(cases[i].from), cases[i].to);
    repository_.AddModel("sum" + std::to_string(i), SumModel(), config);
  }
  repository_.AddModel("reshaped", SumModel(), Config("", R"(output [ { name: "sum_out" dims: [ 1 ]
                                                              reshape { shape: [ 1, 1 ] } } ])"));
  repository_.AddModel("declared", SumModel(), Config("", R"(input [ { name: "start" } ])"));
  Open();
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_THAT(ReasonOf("sum" + std::to_string(i)), HasSubstr(cases[i].says));
  }
  EXPECT_THAT(ReasonOf("reshaped"), HasSubstr("output 'sum_out', which has a reshape"));
  EXPECT_THAT(ReasonOf("declared"), HasSubstr("'start' is declared, and sequence_batching"));
}

}  // namespace
}  // namespace lagoon
