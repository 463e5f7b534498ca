// Files that try to crash the importer, to make it run for ever or to exhaust memory.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "graph/graph.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using ::testing::Not;
using testing::TempFolder;

// Files.

TEST(HostileFile, MissingIsNotFound) {
  EXPECT_THAT(MessageOf(ImportOnnx("/nonexistent/model.onnx"), ErrorCode::kNotFound),
              HasSubstr("/nonexistent/model.onnx"));
}

TEST(HostileFile, FolderPipeAndEmptyFileAreRefused) {
  const TempFolder folder;
  EXPECT_THAT(MessageOf(ImportOnnx(folder.path()), ErrorCode::kInvalidArgument),
              HasSubstr("is a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(MessageOf(ImportOnnx(folder / "pipe"), ErrorCode::kInvalidArgument),
              HasSubstr("not a regular file"));
  EXPECT_THAT(MessageOf(ImportOnnx(folder.Write("empty", "")), ErrorCode::kInvalidArgument),
              HasSubstr("is empty"));
}

TEST(HostileFile, UnreadableIsRefused) {
  const TempFolder folder;
  const std::string path = folder.Write("model.onnx", "x");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  constexpr uid_t kNobody = 65534;  // the superuser may read every file
  const bool superuser = ::geteuid() == 0;
  ASSERT_EQ(superuser ? ::seteuid(kNobody) : 0, 0);
  const Result<Graph> graph = ImportOnnx(path);
  ASSERT_EQ(superuser ? ::seteuid(0) : 0, 0);
  EXPECT_THAT(MessageOf(graph, ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("model.onnx"), HasSubstr("ermission denied")));
}

TEST(HostileFile, LargerThanProtobufReadsIsRefused) {
  const TempFolder folder;
  const std::string path = folder.Write("model.onnx", "");
  ASSERT_EQ(::truncate(path.c_str(), (off_t{2} << 30) + 1), 0);  // sparse
  EXPECT_THAT(MessageOf(ImportOnnx(path), ErrorCode::kResourceExhausted),
              AllOf(HasSubstr("2 GiB"), HasSubstr("external data")));
}

TEST(HostileFile, GarbageIsRefused) {
  const TempFolder folder;
  for (const std::string& bytes : {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
                                   std::string(64, '\0'), std::string("<html>not found</html>"),
                                   std::string("\x3a\x05", 2), std::string("\x3b", 1)}) {
    EXPECT_THAT(
        MessageOf(ImportOnnx(folder.Write("model.onnx", bytes)), ErrorCode::kInvalidArgument),
        HasSubstr("model.onnx"));
  }
}

TEST(HostileFile, AnOutputWithoutANameIsRefused) {  // found by fuzzing
  const TempFolder folder;
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(13);
  model.mutable_graph()->add_output();
  const std::string path = folder.Write("model.onnx", model.SerializeAsString());
  EXPECT_THAT(MessageOf(ImportOnnx(path), ErrorCode::kInvalidArgument),
              HasSubstr("output of the graph has no name"));
}

TEST(HostileFile, WithoutAGraphIsRefused) {
  ModelBuilder model;
  model.proto.clear_graph();
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kInvalidArgument), HasSubstr("no graph"));
}

// Size.

std::string Field(int number, const std::string& payload) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  std::size_t length = payload.size();
  for (; length >= 128; length >>= 7) bytes += static_cast<char>(length | 128);
  return bytes + static_cast<char>(length) + payload;
}

std::string Repeat(const std::string& text, std::size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

Result<Graph> ImportGraphBytes(const std::string& graph, const ImportOptions& options = {}) {
  const TempFolder folder;
  return ImportOnnx(folder.Write("bomb.onnx", Field(7, graph)), options);
}

TEST(HostileSize, TooManyNodesAreRefusedBeforeTheyAreDecoded) {
  EXPECT_THAT(
      MessageOf(ImportGraphBytes(Repeat(Field(1, ""), 5'000'000)), ErrorCode::kResourceExhausted),
      HasSubstr("more than 65536 nodes"));
}

TEST(HostileSize, TooManyInputsOfNodesAreRefused) {
  const std::string node = Field(1, Repeat(Field(1, ""), 1'000'000));
  EXPECT_THAT(MessageOf(ImportGraphBytes(node), ErrorCode::kResourceExhausted),
              HasSubstr("more than 524288 inputs, outputs and initialisers"));
}

TEST(HostileSize, TooManyOutputsOfTheModelAreRefused) {
  EXPECT_THAT(
      MessageOf(ImportGraphBytes(Repeat(Field(12, ""), 1'000'000)), ErrorCode::kResourceExhausted),
      HasSubstr("more than 524288 inputs, outputs and initialisers"));
}

TEST(HostileSize, ManyOutputsTakeNoQuadraticTime) {
  ModelBuilder model;
  model.Input("x", {1});
  for (int i = 0; i < 50'000; ++i) {  // no-ops, so that every pass visits each one
    const std::string y = "y" + std::to_string(i);
    model.Add("Identity", {"x"}, {y});
    model.Output(y);
  }
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->nodes.size(), 50'000u);
}

TEST(HostileSize, NestingIsBounded) {
  std::string graph;
  for (int i = 0; i < 200; ++i) graph = Field(1, Field(5, Field(6, graph)));
  EXPECT_THAT(MessageOf(ImportGraphBytes(graph), ErrorCode::kResourceExhausted),
              HasSubstr("nested"));
}

TEST(HostileSize, NamesAreBounded) {
  EXPECT_THAT(MessageOf(ImportGraphBytes(Field(1, Field(1, std::string(5000, 'x')))),
                        ErrorCode::kResourceExhausted),
              HasSubstr("bytes in a name"));
}

TEST(HostileSize, SmallFieldsThatGrowWhenDecodedAreCharged) {
  ImportOptions options;
  options.max_bytes = 10 << 20;
  // One byte each on the wire and eight bytes decoded; two bytes on the wire and about 250 decoded.
  const std::string numbers = Field(5, Field(7, std::string(2 << 20, '\1')));
  const std::string tensors = Repeat(Field(5, ""), 1 << 16);
  for (const std::string& graph : {numbers, tensors}) {
    EXPECT_THAT(MessageOf(ImportGraphBytes(graph, options), ErrorCode::kResourceExhausted),
                HasSubstr("bytes when decoded"));
  }
}

TEST(HostileSize, NamesInMessagesAreCutAndPrintable) {
  ModelBuilder model;
  model.Input("x", {1}).Output("y");
  model.Add("Bad\n\x1b[31mOp\xff", {"x"}, {"y"}).Name(std::string(4000, 'n'));
  const std::string message = MessageOf(model.Import(), ErrorCode::kUnimplemented);
  EXPECT_LT(message.size(), 600u);
  EXPECT_THAT(message, HasSubstr("Bad??[31mOp?"));
}

TEST(HostileSize, PetabyteInputsAreRefused) {
  ModelBuilder huge;
  huge.Input("x", {1LL << 20, 1LL << 30}).Output("y");
  huge.Add("Relu", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(huge.Import(), ErrorCode::kResourceExhausted), HasSubstr("input 'x'"));

  ModelBuilder overflow;
  overflow.Input("x", {1LL << 32, 1LL << 32}).Output("y");
  overflow.Add("Relu", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(overflow.Import(), ErrorCode::kResourceExhausted), HasSubstr("2^63"));

  ModelBuilder deep;
  deep.Input("x", Dims(1000, 1)).Output("y");
  deep.Add("Relu", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(deep.Import(), ErrorCode::kResourceExhausted), HasSubstr("rank 1000"));
}

TEST(HostileSize, ActivationsAreChargedTogether) {
  ModelBuilder model;
  model.Input("x", {1, 1 << 14}).Output("y");
  model.Add("Relu", {"x"}, {"a"});
  model.Add("Tanh", {"a"}, {"y"});
  // The input fits; the sum of what nodes compute is at most 8 times the limit.
  ImportOptions options;
  options.max_bytes = 1 << 16;  // one of the tensors
  EXPECT_TRUE(model.Import(options).has_value());
  for (int i = 0; i < 6; ++i) {
    model.Add("Tanh", {i == 0 ? "y" : fmt::format("t{}", i - 1)}, {fmt::format("t{}", i)});
  }
  model.Output("t5");
  EXPECT_TRUE(model.Import(options).has_value());
  model.Output("t6");
  model.Add("Tanh", {"t5"}, {"t6"});
  EXPECT_THAT(MessageOf(model.Import(options), ErrorCode::kResourceExhausted),
              AllOf(HasSubstr("65536 bytes"), HasSubstr("8 times as much")));
}

TEST(HostileSize, AnActivationIsNotLargerThanTheLimit) {
  ModelBuilder model;
  model.Input("x", {1, 1024}).Output("y").Ints("repeats", {2, 1});
  model.Add("Tile", {"x", "repeats"}, {"y"});
  ImportOptions options;
  options.max_bytes = 8192;
  EXPECT_TRUE(model.Import(options).has_value());
  options.max_bytes = 8191;
  EXPECT_THAT(MessageOf(model.Import(options), ErrorCode::kResourceExhausted),
              HasSubstr("needs 8192 bytes; the limit for one is 8191"));
}

TEST(HostileSize, ActivationsThatGrowAreRefused) {
  ModelBuilder model;
  model.Input("x", {1, 1}).Output("y").Ints("pads", {0, 0, 1 << 30, 1 << 30});
  model.Add("Pad", {"x", "pads"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kResourceExhausted), HasSubstr("'Pad_0'"));
}

// Constants that are computed.

TEST(HostileConstant, FromAShapeIsChargedBeforeItIsMade) {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{1LL << 45},
                                                 {1LL << 40, 1LL << 40},
                                                 std::vector<std::int64_t>(20, 2)}) {
    ModelBuilder model;
    model.Input("x", {1}).Output("y").Ints("shape", shape);
    model.Add("ConstantOfShape", {"shape"}, {"c"});
    model.Add("Add", {"x", "c"}, {"y"});
    EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kResourceExhausted),
                HasSubstr("'ConstantOfShape_0'"));
  }
}

TEST(HostileConstant, FromARangeIsChargedBeforeItIsMade) {
  ModelBuilder model;
  model.Input("x", {1}).Output("y");
  model.Ints("start", {INT64_MIN}).Ints("limit", {INT64_MAX}).Ints("delta", {1});
  model.Add("Range", {"start", "limit", "delta"}, {"r"});
  model.Add("Reshape", {"x", "r"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kResourceExhausted), HasSubstr("'Range_0'"));
}

TEST(HostileConstant, FromAnExpansionIsChargedBeforeItIsMade) {
  ModelBuilder model;
  model.Input("x", {1}).Output("y").Floats("one", {1}, {1}).Ints("shape", {1LL << 31, 1LL << 20});
  model.Add("Expand", {"one", "shape"}, {"big"});
  model.Add("Add", {"x", "big"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kResourceExhausted), HasSubstr("'Expand_0'"));
}

TEST(HostileConstant, ReadOverAndOverIsChargedAsWork) {
  ModelBuilder model;
  model.Input("x", {1}).Output("y").Ints("shape", {1 << 18});
  model.Add("ConstantOfShape", {"shape"}, {"c"});
  std::string sum = "x";
  for (int i = 0; i < 40; ++i) {
    const std::string part = "part" + std::to_string(i), next = "sum" + std::to_string(i);
    model.Add("ReduceSum", {"c"}, {part}).Int("keepdims", 1);
    model.Add("Add", {sum, part}, {next});
    sum = next;
  }
  model.Output(sum);
  model.graph().mutable_output()->DeleteSubrange(0, 1);
  ImportOptions options;
  options.max_bytes = 2 << 20;  // the constant has 1 MiB; folding reads 40 MiB, more than 8 times 2
  EXPECT_THAT(MessageOf(model.Import(options), ErrorCode::kResourceExhausted),
              AllOf(HasSubstr("(ReduceSum"), HasSubstr("folding constants")));
  options.max_bytes = 16 << 20;
  EXPECT_TRUE(model.Import(options).has_value());
}

TEST(HostileConstant, AddedUpFromManyIsChargedAsWork) {
  ModelBuilder model;
  model.Input("x", {1}).Output("y").Ints("shape", {1 << 18}).Floats("one", {1}, {1});
  model.Add("ConstantOfShape", {"shape"}, {"c"});
  std::vector<std::string> inputs(1000, "one");
  inputs.push_back("c");
  model.Add("Sum", inputs, {"s"});
  model.Add("ReduceSum", {"s"}, {"t"}).Int("keepdims", 0);
  model.Add("Add", {"x", "t"}, {"y"});
  ImportOptions options;
  options.max_bytes = 4 << 20;
  EXPECT_THAT(MessageOf(model.Import(options), ErrorCode::kResourceExhausted),
              AllOf(HasSubstr("(Sum"), HasSubstr("folding constants")));
}

TEST(HostileConstant, WeightsThatManyNodesShareAreChargedForTheirCopies) {
  ModelBuilder model;
  model.Input("x", {1, 256}).Output("y").Weights("w", {256, 256});
  for (int i = 0; i < 20; ++i) {
    const std::string from = i == 0 ? "x" : "v" + std::to_string(i - 1);
    model.Add("Gemm", {from, "w"}, {i == 19 ? "y" : "v" + std::to_string(i)}).Float("alpha", 0.5f);
  }
  ImportOptions options;
  options.max_bytes = 4 << 20;  // 20 copies of a quarter
  EXPECT_THAT(MessageOf(model.Load(options), ErrorCode::kResourceExhausted),
              AllOf(HasSubstr("weights 'w'"), HasSubstr("share")));
  options.max_bytes = 6 << 20;
  EXPECT_TRUE(model.Load(options).has_value());
}

// Structure.

TEST(HostileGraph, CyclesAreRefused) {
  ModelBuilder loop;
  loop.Input("x", {1}).Output("y");
  loop.Add("Add", {"x", "b"}, {"a"});
  loop.Add("Relu", {"a"}, {"b"});
  loop.Add("Relu", {"b"}, {"y"});
  EXPECT_THAT(MessageOf(loop.Import(), ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("'Add_0'"), HasSubstr("cycle")));

  ModelBuilder self;
  self.Output("y");
  self.Add("Relu", {"y"}, {"y"});
  EXPECT_THAT(MessageOf(self.Import(), ErrorCode::kInvalidArgument), HasSubstr("cycle"));
}

TEST(HostileGraph, LongChainsDoNotOverflowTheStack) {
  ModelBuilder model;
  model.Input("v0", {1}).Output("v60000");
  for (int i = 60000; i-- > 0;) {  // the last one first, so that the sort must reverse the order
    model.Add("Relu", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)});
  }
  const Result<Graph> graph = model.Load();
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->nodes.size(), 60000u);
}

TEST(HostileGraph, NamesDefinedTwiceAreRefused) {
  ModelBuilder nodes;
  nodes.Input("x", {1}).Output("y");
  nodes.Add("Relu", {"x"}, {"y"});
  nodes.Add("Tanh", {"x"}, {"y"});
  EXPECT_THAT(MessageOf(nodes.Import(), ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("'Tanh_1'"), HasSubstr("'y' is defined twice")));

  ModelBuilder input;
  input.Input("x", {1}).Output("x");
  input.Add("Relu", {"x"}, {"x"});
  EXPECT_THAT(MessageOf(input.Import(), ErrorCode::kInvalidArgument), HasSubstr("defined twice"));

  ModelBuilder inputs;
  inputs.Input("x", {1}).Input("x", {1}).Output("y");
  EXPECT_THAT(MessageOf(inputs.Import(), ErrorCode::kInvalidArgument), HasSubstr("defined twice"));

  ModelBuilder weights;
  weights.Input("x", {1}).Output("y").Weights("w", {1}).Weights("w", {1});
  EXPECT_THAT(MessageOf(weights.Import(), ErrorCode::kInvalidArgument), HasSubstr("defined twice"));

  ModelBuilder output;
  output.Input("x", {1}).Output("y").Weights("w", {1});
  output.Add("Relu", {"x"}, {"w"});
  EXPECT_THAT(MessageOf(output.Import(), ErrorCode::kInvalidArgument), HasSubstr("defined twice"));
}

TEST(HostileGraph, NamesThatNothingDefinesAreRefused) {
  ModelBuilder input;
  input.Input("x", {1, 2}).Output("y");
  input.Add("MatMul", {"x", "w"}, {"y"});
  EXPECT_THAT(MessageOf(input.Import(), ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("'MatMul_0'"), HasSubstr("nothing defines input 'w'")));

  ModelBuilder output;
  output.Input("x", {1}).Output("nowhere");
  EXPECT_THAT(MessageOf(output.Import(), ErrorCode::kInvalidArgument),
              HasSubstr("nothing defines output 'nowhere'"));

  ModelBuilder nameless;
  nameless.Input("", {1}).Output("y");
  EXPECT_THAT(MessageOf(nameless.Import(), ErrorCode::kInvalidArgument), HasSubstr("no name"));
}

TEST(HostileGraph, BrokenInitialisersAreNamed) {
  ModelBuilder model;
  model.Input("x", {1, 2}).Output("y").Weights("w", {2, 2});
  model.graph().mutable_initializer(0)->set_dims(0, 3);
  model.Add("MatMul", {"x", "w"}, {"y"});
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kInvalidArgument),
              AllOf(HasSubstr("'MatMul_0'"), HasSubstr("initialiser 'w'"), HasSubstr("raw_data")));
}

TEST(HostileGraph, SparseInitialisersAreRefused) {
  ModelBuilder model;
  model.Input("x", {1}).Output("x");
  model.graph().add_sparse_initializer();
  EXPECT_THAT(MessageOf(model.Import(), ErrorCode::kUnimplemented), HasSubstr("sparse"));
}

}  // namespace
}  // namespace lagoon
