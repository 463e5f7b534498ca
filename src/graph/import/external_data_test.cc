#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/testing/model_builder.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MessageOf;
using testing::ModelBuilder;
using testing::TempFolder;

using Entries = std::vector<std::pair<std::string, std::string>>;

// y = x w with w [2,1] in external data.
ModelBuilder ExternalModel(const Entries& entries) {
  ModelBuilder model;
  model.Input("x", {1, 2}).Output("y");
  onnx::TensorProto& tensor = *model.graph().add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(2);
  tensor.add_dims(1);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  model.Add("MatMul", {"x", "w"}, {"y"});
  return model;
}

std::string Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

class ExternalData : public ::testing::Test {
 protected:
  // The model is in models/, so that a path can try to leave that folder.
  ExternalData() {
    fs::create_directory(folder_ / "models");
    folder_.Write("models/weights.bin", Bytes({9, 9, 3, 4, 5}));
    folder_.Write("secret.bin", Bytes({1, 2}));
  }
  Result<Graph> Import(const Entries& entries) {
    return ImportOnnx(ExternalModel(entries).Save(folder_, "models/model.onnx"));
  }
  std::string Refusal(const Entries& entries, ErrorCode code = ErrorCode::kInvalidArgument) {
    const std::string message = MessageOf(Import(entries), code);
    EXPECT_THAT(message, AllOf(HasSubstr("model.onnx"), HasSubstr("initialiser 'w'")));
    return message;
  }

  TempFolder folder_;
};

TEST_F(ExternalData, IsReadFromItsOffset) {
  const Result<Graph> graph =
      Import({{"location", "weights.bin"}, {"offset", "8"}, {"length", "8"}});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_THAT(graph->value(graph->nodes[0].inputs[1]).constant->floats(), ElementsAre(3, 4));
}

/// Has one weight, in memory, and counts how often it is read.
class InMemory final : public WeightSource {
 public:
  explicit InMemory(std::string bytes) : bytes_(std::move(bytes)) {}
  std::optional<std::size_t> SizeOf(std::string_view location) const override {
    if (location != "7") return std::nullopt;
    return bytes_.size();
  }
  Status ReadAt(std::string_view, std::size_t offset, std::span<std::byte> to) const override {
    ++reads;
    if (gone) return Fail(ErrorCode::kInternal, "the weight is gone");
    std::memcpy(to.data(), bytes_.data() + offset, to.size());
    return {};
  }
  mutable int reads = 0;
  bool gone = false;

 private:
  const std::string bytes_;
};

TEST_F(ExternalData, LiesInMemoryWhereThereIsASource) {
  const auto weights = std::make_shared<InMemory>(Bytes({1, 2, 3, 4}));
  ImportOptions options;
  options.weights = weights;
  const auto import = [&](const Entries& entries) {
    return ImportOnnx(ExternalModel(entries).Save(folder_, "models/model.onnx"), options);
  };
  const Result<Graph> graph = import({{"location", "7"}, {"offset", "4"}});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_THAT(graph->value(graph->nodes[0].inputs[1]).constant->floats(), ElementsAre(2, 3));
  for (const Entries& wrong : {Entries{{"location", "weights.bin"}}, Entries{{"location", "8"}},
                               Entries{{"location", "7"}, {"offset", "12"}},
                               Entries{{"location", "7"}, {"length", "4"}}}) {
    EXPECT_THAT(MessageOf(import(wrong), ErrorCode::kInvalidArgument),
                AllOf(HasSubstr("initialiser 'w'"), HasSubstr("8 are needed")));
  }
}

TEST_F(ExternalData, ALargeWeightInMemoryIsReadWhenItIsUsedAndNotKept) {
  const auto weights = std::make_shared<InMemory>(std::string(256 * 256 * 4, '\0'));
  ImportOptions options;
  options.weights = weights;
  ModelBuilder model;
  model.Input("x", {1, 256}).Output("y");
  onnx::TensorProto& tensor = *model.graph().add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(256);
  tensor.add_dims(256);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value("7");
  model.Add("MatMul", {"x", "w"}, {"y"});
  const Result<Graph> graph = ImportOnnx(model.Save(folder_, "models/model.onnx"), options);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const Constant& constant = *graph->value(graph->nodes[0].inputs[1]).constant;
  const int for_identity = weights->reads;
  EXPECT_EQ(constant.floats().size(), 256u * 256u);
  EXPECT_EQ(weights->reads, for_identity + 1);
  constant.bytes.Release();
  weights->gone = true;
  EXPECT_THROW(constant.floats(), ConstantError);
}

TEST_F(ExternalData, IsReadFromAFolderBelow) {
  fs::create_directory(folder_ / "models/data");
  folder_.Write("models/data/w", Bytes({7, 8}));
  const Result<Graph> graph = Import({{"location", "./data//w"}});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_THAT(graph->value(graph->nodes[0].inputs[1]).constant->floats(), ElementsAre(7, 8));
}

TEST_F(ExternalData, OfARelativeModelPathIsFound) {
  ExternalModel({{"location", "weights.bin"}}).Save(folder_, "models/model.onnx");
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "models");
  const Result<Graph> graph = ImportOnnx("model.onnx");
  fs::current_path(before);
  EXPECT_TRUE(graph.has_value()) << graph.error().message;
}

TEST_F(ExternalData, MayNotLeaveTheModelsFolder) {
  EXPECT_THAT(Refusal({{"location", "../secret.bin"}}), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(Refusal({{"location", "data/../../secret.bin"}}), HasSubstr("leaves"));
  EXPECT_THAT(Refusal({{"location", "data/../.."}}), HasSubstr("leaves"));
  EXPECT_THAT(Refusal({{"location", folder_ / "secret.bin"}}), HasSubstr("is absolute"));
  EXPECT_THAT(Refusal({{"location", ""}}), HasSubstr("is empty"));
  EXPECT_THAT(Refusal({}), HasSubstr("is empty"));
  EXPECT_THAT(Refusal({{"location", std::string("weights.bin\0x", 13)}}), HasSubstr("zero byte"));
}

TEST_F(ExternalData, MayGoUpWithinTheModelsFolder) {
  for (const char* location :
       {"data/../weights.bin", "./a/b/../../weights.bin", "data/.//../weights.bin"}) {
    const Result<Graph> graph = Import({{"location", location}, {"offset", "8"}, {"length", "8"}});
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    EXPECT_THAT(graph->value(graph->nodes[0].inputs[1]).constant->floats(), ElementsAre(3, 4));
  }
}

// snapshots/1/model.onnx and its data are links to files in blobs/, which have other names.
TEST_F(ExternalData, MayBeALinkToTheFolderWhereTheModelItselfLies) {
  fs::create_directories(folder_ / "blobs/below");
  fs::create_directories(folder_ / "snapshots/1/onnx");
  ExternalModel({{"location", "model.onnx_data"}}).Save(folder_, "blobs/aa");
  folder_.Write("blobs/bb", Bytes({7, 8}));
  folder_.Write("blobs/below/cc", Bytes({5, 6}));
  folder_.Write("snapshots/1/other", Bytes({0, 0}));
  const auto link = [&](const std::string& to, const std::string& name) {
    fs::remove(folder_ / name);
    fs::create_symlink(to, folder_ / name);
  };
  link("../../blobs/aa", "snapshots/1/model.onnx");
  const auto weights = [&](const std::string& data, const std::string& path) {
    link(data, path + "_data");
    const Result<Graph> graph = ImportOnnx(folder_ / path);
    EXPECT_TRUE(graph.has_value()) << graph.error().message;
    if (!graph) return std::vector<float>();
    const auto floats = graph->value(graph->nodes[0].inputs[1]).constant->floats();
    return std::vector<float>(floats.begin(), floats.end());
  };
  EXPECT_THAT(weights("../../blobs/bb", "snapshots/1/model.onnx"), ElementsAre(7, 8));
  EXPECT_THAT(weights(folder_ / "blobs/below/cc", "snapshots/1/model.onnx"), ElementsAre(5, 6));
  link("../../../blobs/aa", "snapshots/1/onnx/model.onnx");
  EXPECT_THAT(weights("../../../blobs/bb", "snapshots/1/onnx/model.onnx"), ElementsAre(7, 8));

  const auto refusal = [&](const std::string& data, ErrorCode code) {
    link(data, "snapshots/1/model.onnx_data");
    return MessageOf(ImportOnnx(folder_ / "snapshots/1/model.onnx"), code);
  };
  EXPECT_THAT(refusal("../../secret.bin", ErrorCode::kInvalidArgument), HasSubstr("leaves"));
  EXPECT_THAT(refusal("/etc/passwd", ErrorCode::kInvalidArgument), HasSubstr("leaves"));
  EXPECT_THAT(refusal("../../blobs/../secret.bin", ErrorCode::kInvalidArgument),
              HasSubstr("leaves"));
  EXPECT_THAT(refusal("../../blobs", ErrorCode::kInvalidArgument), HasSubstr("leaves"));
  EXPECT_THAT(refusal("../../blobs/none", ErrorCode::kNotFound), HasSubstr("model.onnx_data"));
  // A folder that only starts with the same name.
  fs::create_directory(folder_ / "blobs-of-others");
  folder_.Write("blobs-of-others/bb", Bytes({1, 1}));
  EXPECT_THAT(refusal("../../blobs-of-others/bb", ErrorCode::kInvalidArgument),
              HasSubstr("leaves"));
  // Where the bytes of the model were given, only the folder counts.
  ImportOptions bytes;
  bytes.folder = (folder_ / "snapshots/1");
  link("../../blobs/bb", "snapshots/1/model.onnx_data");
  EXPECT_THAT(
      MessageOf(ImportOnnx(folder_ / "snapshots/1/model.onnx", bytes), ErrorCode::kInvalidArgument),
      HasSubstr("leaves"));
}

TEST_F(ExternalData, MayBeALinkThatStaysInTheModelsFolder) {
  fs::create_directory(folder_ / "models/data");
  fs::create_symlink("../weights.bin", folder_ / "models/data/link.bin");
  fs::create_symlink("link.bin", folder_ / "models/data/second.bin");
  const Result<Graph> graph =
      Import({{"location", "data/second.bin"}, {"offset", "8"}, {"length", "8"}});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_THAT(graph->value(graph->nodes[0].inputs[1]).constant->floats(), ElementsAre(3, 4));
}

TEST_F(ExternalData, MayNotBeALinkThatLeavesTheModelsFolder) {
  fs::create_symlink(folder_ / "secret.bin", folder_ / "models/link.bin");
  EXPECT_THAT(Refusal({{"location", "link.bin"}}), HasSubstr("leaves the model's folder"));
  fs::create_symlink("../secret.bin", folder_ / "models/relative.bin");
  EXPECT_THAT(Refusal({{"location", "relative.bin"}}), HasSubstr("leaves the model's folder"));
  fs::create_directory_symlink(folder_.path(), folder_ / "models/up");
  EXPECT_THAT(Refusal({{"location", "up/secret.bin"}}), HasSubstr("leaves the model's folder"));
  fs::create_symlink("loop.bin", folder_ / "models/loop.bin");
  EXPECT_THAT(Refusal({{"location", "loop.bin"}}), HasSubstr("leads to no file"));
}

TEST_F(ExternalData, MustBeAFile) {
  fs::create_directory(folder_ / "models/data");
  EXPECT_THAT(Refusal({{"location", "data"}}), HasSubstr("is a folder"));
  EXPECT_THAT(Refusal({{"location", "."}}), HasSubstr("names no file"));
  ASSERT_EQ(::mkfifo((folder_ / "models/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Refusal({{"location", "pipe"}}), HasSubstr("not a regular file"));
  EXPECT_THAT(Refusal({{"location", "missing.bin"}}, ErrorCode::kNotFound),
              HasSubstr("missing.bin"));
}

TEST_F(ExternalData, MustHoldWhatTheShapeNeeds) {
  EXPECT_THAT(Refusal({{"location", "weights.bin"}, {"offset", "16"}}),
              AllOf(HasSubstr("too short"), HasSubstr("20 bytes")));
  EXPECT_THAT(Refusal({{"location", "weights.bin"}, {"offset", "18446744073709551615"}}),
              HasSubstr("too short"));
  EXPECT_THAT(Refusal({{"location", "weights.bin"}, {"length", "4"}}), HasSubstr("gives 4 bytes"));
}

TEST_F(ExternalData, TakesSizesOnlyAsNumbers) {
  for (const char* size : {"-8", "8x", "", "0x8", "99999999999999999999"}) {
    EXPECT_THAT(Refusal({{"location", "weights.bin"}, {"offset", size}}), HasSubstr("not a size"))
        << size;
  }
}

}  // namespace
}  // namespace lagoon
