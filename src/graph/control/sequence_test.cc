// Sequences and optionals, which exist only while shapes are inferred.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/testing/folded.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using testing::Folded;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::Ops;
using Numbers = std::vector<double>;

/// The sequence "list" of [1], [2] and [3].
ModelBuilder OneTwoThree() {
  ModelBuilder model;
  model.Floats("a", {1}, {1}).Floats("b", {1}, {2}).Floats("c", {1}, {3}).Output("y");
  model.Add("SequenceConstruct", {"a", "b", "c"}, {"list"});
  return model;
}

Numbers Joined(ModelBuilder model, const std::string& list) {
  model.Add("ConcatFromSequence", {list}, {"y"}).Int("axis", 0);
  return Folded(model);
}

TEST(Sequence, OfItsElementsIsJoined) {
  EXPECT_EQ(Joined(OneTwoThree(), "list"), (Numbers{1, 2, 3}));
}

TEST(Sequence, IsJoinedAlongANewAxis) {
  ModelBuilder model = OneTwoThree();
  model.Add("ConcatFromSequence", {"list"}, {"y"}).Int("axis", -1).Int("new_axis", 1);
  Dims dims;
  EXPECT_EQ(Folded(model, 0, &dims), (Numbers{1, 2, 3}));
  EXPECT_EQ(dims, (Dims{1, 3}));
}

TEST(Sequence, TakesElementsAnywhere) {
  const auto inserted = [](std::int64_t position) {
    ModelBuilder model = OneTwoThree();
    model.Floats("n", {1}, {9}).Number("p", position);
    model.Add("SequenceInsert", {"list", "n", "p"}, {"longer"});
    return Joined(model, "longer");
  };
  EXPECT_EQ(inserted(0), (Numbers{9, 1, 2, 3}));
  EXPECT_EQ(inserted(-1), (Numbers{1, 2, 9, 3}));
  EXPECT_EQ(inserted(3), (Numbers{1, 2, 3, 9}));
  ModelBuilder behind = OneTwoThree();
  behind.Floats("n", {1}, {9});
  behind.Add("SequenceInsert", {"list", "n"}, {"longer"});
  EXPECT_EQ(Joined(behind, "longer"), (Numbers{1, 2, 3, 9}));
}

TEST(Sequence, LosesElementsAnywhere) {
  const auto erased = [](std::int64_t position) {
    ModelBuilder model = OneTwoThree();
    model.Number("p", position);
    model.Add("SequenceErase", {"list", "p"}, {"shorter"});
    return Joined(model, "shorter");
  };
  EXPECT_EQ(erased(0), (Numbers{2, 3}));
  EXPECT_EQ(erased(-2), (Numbers{1, 3}));
  ModelBuilder last = OneTwoThree();
  last.Add("SequenceErase", {"list"}, {"shorter"});
  EXPECT_EQ(Joined(last, "shorter"), (Numbers{1, 2}));
}

TEST(Sequence, GivesElementsAndItsLength) {
  ModelBuilder model = OneTwoThree();
  model.Number("p", -1).Output("n");
  model.Add("SequenceAt", {"list", "p"}, {"y"});
  model.Add("SequenceLength", {"list"}, {"n"});
  EXPECT_EQ(Folded(model, 0), Numbers{3});
  EXPECT_EQ(Folded(model, 1), Numbers{3});
}

TEST(Sequence, NeedsOnlyTheElementsThatAreRead) {
  ModelBuilder model;
  model.Input("x", {2}).Number("p", 0).Output("y");
  model.Add("Relu", {"x"}, {"r"});
  model.Add("Tanh", {"x"}, {"t"});
  model.Add("SequenceConstruct", {"r", "t"}, {"list"});
  model.Add("Identity", {"list"}, {"same"});
  model.Add("SequenceAt", {"same", "p"}, {"y"});
  EXPECT_EQ(Ops(*model.Load()), "Relu");
}

TEST(SplitToSequence, CutsAsItIsTold) {
  const auto parts = [](const std::function<void(ModelBuilder&)>& split, std::int64_t position,
                        Dims& dims) {
    ModelBuilder model;
    model.Floats("x", {5, 1}, {1, 2, 3, 4, 5}).Number("p", position).Output("y");
    split(model);
    model.Add("SequenceAt", {"parts", "p"}, {"y"});
    return Folded(model, 0, &dims);
  };
  Dims dims;
  const auto ones = [](ModelBuilder& m) { m.Add("SplitToSequence", {"x"}, {"parts"}); };
  EXPECT_EQ(parts(ones, 4, dims), Numbers{5});
  EXPECT_EQ(dims, (Dims{1, 1}));
  const auto rows = [](ModelBuilder& m) {
    m.Add("SplitToSequence", {"x"}, {"parts"}).Int("keepdims", 0);
  };
  EXPECT_EQ(parts(rows, 4, dims), Numbers{5});
  EXPECT_EQ(dims, Dims{1});
  const auto pairs = [](ModelBuilder& m) {
    m.Number("two", 2).Add("SplitToSequence", {"x", "two"}, {"parts"});
  };
  EXPECT_EQ(parts(pairs, 1, dims), (Numbers{3, 4}));
  EXPECT_EQ(parts(pairs, 2, dims), Numbers{5});
  const auto sizes = [](ModelBuilder& m) {
    m.Ints("sizes", {1, 4}).Add("SplitToSequence", {"x", "sizes"}, {"parts"});
  };
  EXPECT_EQ(parts(sizes, -1, dims), (Numbers{2, 3, 4, 5}));
}

TEST(Optional, IsResolved) {
  ModelBuilder model(18);
  model.Floats("x", {1}, {4}).Output("has").Output("lacks").Output("y");
  model.Add("Optional", {"x"}, {"some"});
  model.Add("Optional", {}, {"none"}).proto().add_attribute()->set_name("type");
  onnx::AttributeProto& type = *model.graph().mutable_node(1)->mutable_attribute(0);
  type.set_type(onnx::AttributeProto::TYPE_PROTO);
  type.mutable_tp()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  model.Add("OptionalHasElement", {"some"}, {"has"});
  model.Add("OptionalHasElement", {"none"}, {"lacks"});
  model.Add("OptionalGetElement", {"some"}, {"y"});
  EXPECT_EQ(Folded(model, 0), Numbers{1});
  EXPECT_EQ(Folded(model, 1), Numbers{0});
  EXPECT_EQ(Folded(model, 2), Numbers{4});
}

TEST(Sequence, BadNodesAreRefused) {
  ModelBuilder outside = OneTwoThree();
  outside.Number("p", 3);
  outside.Add("SequenceAt", {"list", "p"}, {"y"});
  EXPECT_THAT(MessageOf(outside.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("position 3 is outside of 3 places"));
  ModelBuilder computed = OneTwoThree();
  computed.Input("p", {}, onnx::TensorProto::INT64);
  computed.Add("SequenceAt", {"list", "p"}, {"y"});
  EXPECT_THAT(MessageOf(computed.Import(), ErrorCode::kUnimplemented),
              HasSubstr("position 'p' must be constant"));
  ModelBuilder plain = OneTwoThree();
  plain.Add("Relu", {"list"}, {"y"});
  EXPECT_THAT(MessageOf(plain.Import(), ErrorCode::kUnimplemented),
              AllOf(HasSubstr("Relu"), HasSubstr("input 'list' is a sequence")));
  ModelBuilder tensor;
  tensor.Input("x", {2}).Output("y");
  tensor.Add("SequenceLength", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(tensor.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("'x' is not a sequence"));
  ModelBuilder output = OneTwoThree();
  output.Output("list");
  output.Add("Identity", {"a"}, {"y"});
  EXPECT_THAT(MessageOf(output.Import(), ErrorCode::kUnimplemented),
              HasSubstr("output 'list' is a sequence"));
  ModelBuilder empty;
  empty.Output("y");
  empty.Add("SequenceEmpty", {}, {"list"});
  empty.Add("ConcatFromSequence", {"list"}, {"y"}).Int("axis", 0);
  EXPECT_THAT(MessageOf(empty.Import(), ErrorCode::kUnimplemented), HasSubstr("empty sequence"));
  ModelBuilder nothing(15);
  nothing.Output("y");
  nothing.Add("Optional", {}, {"none"});
  nothing.Add("OptionalGetElement", {"none"}, {"y"});
  EXPECT_THAT(MessageOf(nothing.Import(), ErrorCode::kInvalidArgument), HasSubstr("is empty"));
}

}  // namespace
}  // namespace lagoon
