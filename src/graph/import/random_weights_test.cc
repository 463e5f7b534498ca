#include "graph/import/random_weights.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/testing/test_folder.h"
#include "onnx/onnx_pb.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RandomWeights : public ::testing::Test {
 protected:
  RandomWeights() {
    Add("small", {10, 10}, "normal 5 0", 0);
    Add("large", {300, 1000}, "normal -0.5 2", 4096);
    model_.mutable_graph()->add_initializer()->set_name("inside");
  }

  void Add(const std::string& name, std::vector<std::int64_t> dims, const std::string& doc,
           int offset) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : dims) tensor.add_dims(dim);
    tensor.set_doc_string(doc);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    Entry(tensor, "location", "weights.bin");
    Entry(tensor, "offset", std::to_string(offset));
  }
  static void Entry(onnx::TensorProto& tensor, const std::string& key, const std::string& value) {
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  onnx::TensorProto& tensor(int i) { return *model_.mutable_graph()->mutable_initializer(i); }

  Result<std::size_t> Make() {
    const std::string path = folder_ / "model.onnx";
    {
      std::ofstream file(path, std::ios::binary);
      model_.SerializeToOstream(&file);
    }
    return MakeRandomWeights(path);
  }
  std::vector<float> Read(std::size_t offset, std::size_t count) {
    std::ifstream file(folder_ / "weights.bin", std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    std::vector<float> values(count);
    file.read(reinterpret_cast<char*>(values.data()),
              static_cast<std::streamsize>(count * sizeof(float)));
    EXPECT_TRUE(file);
    return values;
  }
  void ExpectRefused(const std::string& words) {
    const auto made = Make();
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(made.error().message, HasSubstr(words));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "weights.bin")) << "half of it is written";
  }

  const TestFolder test_folder_;
  const std::filesystem::path folder_ = test_folder_.path();
  onnx::ModelProto model_;
};

TEST_F(RandomWeights, HaveTheirDistributionInTheirPlaces) {
  const auto bytes = Make();
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(*bytes, 4u * (100 + 300'000));
  EXPECT_EQ(Read(0, 100), std::vector<float>(100, 5.0f));
  double sum = 0, squares = 0;
  const std::vector<float> large = Read(4096, 300'000);
  for (const float value : large) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const double mean = sum / 300'000;
  EXPECT_NEAR(mean, -0.5, 0.02);
  EXPECT_NEAR(std::sqrt(squares / 300'000 - mean * mean), 2, 0.02);
  ASSERT_TRUE(Make());
  EXPECT_EQ(Read(4096, 300'000), large) << "the same file, other weights";
}

// models/examples are calibrated for exactly these weights, so their bits must never change. The
// numbers are those of models/generators/made_up.py.
TEST_F(RandomWeights, AreTheSameOnEveryMachine) {
  ASSERT_TRUE(Make());
  EXPECT_THAT(Read(4096, 4), ElementsAre(-0x1.1edc9e0000000p+2f, -0x1.00b8560000000p+2f,
                                         0x1.e49d340000000p-1f, 0x1.eba4240000000p+0f));
  EXPECT_THAT(Read(4096 + 4 * 299'998, 2),
              ElementsAre(-0x1.8a44300000000p-1f, -0x1.9a3a3c0000000p+1f));
}

TEST_F(RandomWeights, AreRefusedWhereTheModelDoesNotSayWhichOnes) {
  tensor(1).set_doc_string("");
  ExpectRefused("weight 'large': has no data, and its doc_string");
  tensor(1).set_doc_string("normal 1 2 3");
  ExpectRefused("weight 'large'");
  tensor(1).set_doc_string("normal 1 -2");
  ExpectRefused("weight 'large'");
  tensor(1).set_doc_string("normal nan 1");
  ExpectRefused("weight 'large'");
}

TEST_F(RandomWeights, OfOtherTypesAndImpossibleSizesAreRefused) {
  tensor(0).set_data_type(onnx::TensorProto::INT64);
  ExpectRefused("weight 'small': only fp32");
  tensor(0).set_data_type(onnx::TensorProto::FLOAT);
  tensor(0).add_dims(std::int64_t{1} << 62);
  ExpectRefused("more than");
  tensor(0).mutable_dims()->Set(2, -1);
  ExpectRefused("more than");
}

TEST_F(RandomWeights, StayBesideTheModel) {
  for (const char* location : {"../weights.bin", "/tmp/weights.bin", "a/b", "..", ""}) {
    tensor(0).mutable_external_data(0)->set_value(location);
    ExpectRefused("is not the name of a file beside the model");
  }
  tensor(0).mutable_external_data(0)->set_value("weights.bin");
  tensor(0).mutable_external_data(1)->set_value("-4");
  ExpectRefused("offset '-4'");
}

}  // namespace
}  // namespace lagoon
