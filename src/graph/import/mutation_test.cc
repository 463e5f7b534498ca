// Thousands of damaged files: every one must give a graph or an error.

#include <gtest/gtest.h>

#include <random>

#include "graph/graph.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

using testing::ModelBuilder;
using testing::TempFolder;

// A model with every kind of node and constant that the importer treats specially.
std::string ValidModel(std::int64_t opset) {
  ModelBuilder model(opset);
  model.Input("x", {1, 4, 8, 8}).Output("y", {1, 5});
  model.Weights("w", {6, 4, 3, 3}).Weights("b", {6}).Weights("fc", {5, 24}).Weights("fcb", {5});
  model.Floats("gamma", {6}, std::vector<float>(6, 1.5f))
      .Floats("beta", {6}, std::vector<float>(6));
  model.Floats("mean", {6}, std::vector<float>(6)).Floats("var", {6}, std::vector<float>(6, 2.0f));
  model.Ints("zero", {0}).Ints("minus", {-1});
  model.Add("Conv", {"x", "w", "b"}, {"c"}).Ints("pads", {1, 1, 1, 1}).Ints("kernel_shape", {3, 3});
  model.Add("BatchNormalization", {"c", "gamma", "beta", "mean", "var"}, {"n"})
      .Float("epsilon", 1e-3f);
  model.Add("Relu", {"n"}, {"r"});
  model.Add("Conv", {"x", "w"}, {"d"}).Text("auto_pad", "SAME_UPPER").Int("group", 1);
  model.Add("Add", {"r", "d"}, {"s"});
  model.Add("MaxPool", {"s"}, {"p"}).Ints("kernel_shape", {4, 4}).Ints("strides", {4, 4});
  model.Add("Split", {"p"}, {"p1", "p2"}).Int("axis", 1);
  model.Add("Concat", {"p2", "p1"}, {"q"}).Int("axis", 1);
  model.Add("Transpose", {"q"}, {"t"}).Ints("perm", {0, 2, 3, 1});
  model.Add("Shape", {"t"}, {"shape"});
  model.Add("Gather", {"shape", "zero"}, {"batch"});
  model.Add("Concat", {"batch", "minus"}, {"target"}).Int("axis", 0);
  model.Add("Reshape", {"t", "target"}, {"f"});
  model.Add("Gemm", {"f", "fc", "fcb"}, {"g"}).Int("transB", 1).Float("alpha", 0.5f);
  model.Add("Softmax", {"g"}, {"y"}).Int("axis", -1);
  return model.Bytes();
}

void Mutate(std::string& bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return random() % std::max<std::size_t>(n, 1); };
  switch (below(5)) {
    case 0:  // flip bits
      for (std::size_t i = 0; i <= below(4); ++i) bytes[below(bytes.size())] ^= 1 << below(8);
      break;
    case 1:  // set bytes
      for (std::size_t i = 0; i <= below(4); ++i) {
        bytes[below(bytes.size())] = static_cast<char>(random());
      }
      break;
    case 2:  // cut short
      bytes.resize(below(bytes.size()));
      break;
    case 3: {  // leave a piece out
      const std::size_t at = below(bytes.size());
      bytes.erase(at, below(16));
      break;
    }
    case 4: {  // repeat a piece
      const std::size_t at = below(bytes.size());
      bytes.insert(at, bytes.substr(below(bytes.size()), below(64)));
      break;
    }
  }
}

// The first kilobyte or so of nodes contains the structure; weights fill the rest. Most damage
// should hit names, shapes and attributes.
TEST(MutatedFile, GivesAGraphOrAnError) {
  constexpr int kRounds = 4000;
  const TempFolder folder;
  ImportOptions options;
  options.max_bytes = 64 << 20;
  std::mt19937_64 random(20240229);
  int loaded = 0, refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = ValidModel(round % 2 == 0 ? 11 : 13);
    for (std::uint64_t i = 0; i <= random() % 2; ++i) Mutate(bytes, random);
    const Result<Graph> graph = LoadGraph(folder.Write("model.onnx", bytes), options);
    if (graph) {
      ++loaded;
      continue;
    }
    ++refused;
    EXPECT_NE(graph.error().code, ErrorCode::kInternal) << round << ": " << graph.error().message;
    EXPECT_LT(graph.error().message.size(), 2000u) << round;
  }
  // Both results occur. Weights are most of the bytes, so some damage changes only numbers.
  EXPECT_GT(loaded, kRounds / 20);
  EXPECT_GT(refused, kRounds / 4);
}

TEST(MutatedFile, CutAnywhereIsRefused) {
  const TempFolder folder;
  const std::string bytes = ValidModel(13);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Result<Graph> graph = LoadGraph(folder.Write("model.onnx", bytes.substr(0, size)));
    // The opset comes after the graph: without the opset a cut file could still be complete.
    ASSERT_FALSE(graph.has_value()) << "cut at " << size << " of " << bytes.size();
  }
}

TEST(MutatedFile, UnchangedLoads) {
  for (const std::int64_t opset : {11, 13}) {
    const TempFolder folder;
    const Result<Graph> graph = LoadGraph(folder.Write("model.onnx", ValidModel(opset)));
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
  }
}

}  // namespace
}  // namespace lagoon
