#include "server/regions/shared_regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "server/testing/shared_object.h"

namespace lagoon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

InferRequest OneInput() {
  InferRequest request;
  request.inputs.push_back({"x", DataType::kFloat32, {1, 4}, {}});
  return request;
}

std::vector<float> FloatsOf(const InputTensor& tensor) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

OutputTensor Output(const std::string& name, const std::vector<float>& values) {
  OutputTensor output{name, DataType::kFloat32, {1, static_cast<std::int64_t>(values.size())}, {}};
  const auto bytes = std::as_bytes(std::span(values));
  output.data.assign(bytes.begin(), bytes.end());
  return output;
}

class Regions : public testing::Test {
 protected:
  ErrorCode CodeOf(const RegionSpec& spec) {
    const Status status = regions_.Register(spec);
    EXPECT_FALSE(status);
    if (status) return ErrorCode::kInternal;
    EXPECT_THAT(status.error().message, Not(HasSubstr("lagoon-test-")));
    EXPECT_LT(status.error().message.size(), 1000u);
    return status.error().code;
  }

  SharedObject object_{4096};
  SharedRegions regions_{true};
};

TEST_F(Regions, InputsAreCopiedAndOutputsWritten) {
  ASSERT_TRUE(regions_.Register({"r", object_.key(), 64, 1024}));
  object_.Write(64 + 16, {1, 2, 3, 4});
  InferRequest request = OneInput();
  auto outputs = regions_.Bind({{{0, {"r", 16, 16}}}, {{"y", {"r", 512, 32}}}}, request);
  ASSERT_TRUE(outputs) << outputs.error().message;
  object_.Write(64 + 16, {9, 9, 9, 9});  // what the client does meanwhile does not matter
  EXPECT_THAT(FloatsOf(request.inputs[0]), ElementsAre(1, 2, 3, 4));

  std::vector<OutputTensor> answer;
  answer.push_back(Output("y", {5, 6}));
  answer.push_back(Output("z", {7}));
  EXPECT_EQ(outputs->BytesOf(answer), 8u);
  ASSERT_TRUE(outputs->Write(answer));
  EXPECT_THAT(object_.Read(64 + 512, 2), ElementsAre(5, 6));
  EXPECT_TRUE(answer[0].data.empty());
  EXPECT_EQ(answer[1].data.size(), 4u);
  EXPECT_EQ(outputs->Find("y")->bytes, 8u);
  EXPECT_EQ(outputs->Find("z"), nullptr);
}

TEST_F(Regions, ListsWhatIsRegisteredUntilItIsNot) {
  EXPECT_TRUE(regions_.List()->empty());
  ASSERT_TRUE(regions_.Register({"r", object_.key(), 8, 16}));
  ASSERT_TRUE(regions_.Register({"s", object_.key(), 0, 4096}));
  EXPECT_EQ(regions_.List()->size(), 2u);
  EXPECT_EQ(regions_.List("r")->front().offset, 8u);
  EXPECT_EQ(regions_.List("t").error().code, ErrorCode::kNotFound);
  regions_.Unregister("t");
  regions_.Unregister("r");
  EXPECT_EQ(regions_.List()->front().name, "s");
  regions_.UnregisterAll();
  EXPECT_TRUE(regions_.List()->empty());
}

TEST_F(Regions, RegistrationChecksNameKeyAndBounds) {
  ASSERT_TRUE(regions_.Register({"r", object_.key(), 0, 4096}));
  EXPECT_EQ(CodeOf({"r", object_.key(), 0, 1}), ErrorCode::kAlreadyExists);
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const auto& [offset, bytes] :
       std::initializer_list<std::pair<std::uint64_t, std::uint64_t>>{{0, 0},
                                                                      {0, 4097},
                                                                      {4096, 1},
                                                                      {4097, 1},
                                                                      {huge, 1},
                                                                      {1, huge},
                                                                      {huge, huge},
                                                                      {0, huge}}) {
    EXPECT_EQ(CodeOf({"s", object_.key(), offset, bytes}), ErrorCode::kInvalidArgument)
        << offset << " " << bytes;
  }
  for (const std::string& key :
       {std::string(), std::string("/"), std::string("/.."), std::string("."),
        std::string("/lagoon-test-/../x"), std::string("../../etc/passwd"),
        std::string("/etc/passwd"), object_.key() + std::string("\0x", 2), std::string(5000, 'k'),
        std::string("/lagoon-test-nothing")}) {
    EXPECT_EQ(CodeOf({"s", key, 0, 1}), ErrorCode::kInvalidArgument) << key;
  }
  EXPECT_EQ(CodeOf({"", object_.key(), 0, 1}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf({std::string(100'000, 'n'), object_.key(), 0, 1}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(regions_.List()->size(), 1u);
}

TEST_F(Regions, OnlySharedMemoryObjectsCanBeRegistered) {
  const std::string folder = "/dev/shm/lagoon-test-folder", link = "/dev/shm/lagoon-test-link",
                    pipe = "/dev/shm/lagoon-test-pipe";
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink("/etc/hostname", link);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const char* key : {"/lagoon-test-folder", "/lagoon-test-link", "/lagoon-test-pipe"}) {
    EXPECT_EQ(CodeOf({"r", key, 0, 1}), ErrorCode::kInvalidArgument) << key;
  }
  for (const std::string& path : {folder, link, pipe}) std::filesystem::remove(path);
}

TEST_F(Regions, NumberAndBytesAreBounded) {
  for (std::size_t i = 0; i < SharedRegions::kMostRegions; ++i) {
    ASSERT_TRUE(regions_.Register({fmt::format("r{}", i), object_.key(), 0, 1}));
  }
  EXPECT_EQ(CodeOf({"more", object_.key(), 0, 1}), ErrorCode::kResourceExhausted);
  regions_.Unregister("r7");
  EXPECT_TRUE(regions_.Register({"more", object_.key(), 0, 1}));
  regions_.UnregisterAll();
  object_.Resize(SharedRegions::kMostBytes + 1);  // takes no memory
  EXPECT_EQ(CodeOf({"all", object_.key(), 0, SharedRegions::kMostBytes + 1}),
            ErrorCode::kResourceExhausted);
  ASSERT_TRUE(regions_.Register({"all", object_.key(), 0, SharedRegions::kMostBytes}));
  EXPECT_EQ(CodeOf({"more", object_.key(), 0, 1}), ErrorCode::kResourceExhausted);
}

TEST_F(Regions, ARequestStaysInItsRegion) {
  ASSERT_TRUE(regions_.Register({"r", object_.key(), 0, 1024}));
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const RegionPart& part :
       {RegionPart{"r", 1009, 16}, RegionPart{"r", huge, 16}, RegionPart{"r", 16, huge},
        RegionPart{"r", 1025, 0}, RegionPart{"s", 0, 16}}) {
    InferRequest request = OneInput();
    const auto input = regions_.Bind({{{0, part}}, {}}, request);
    ASSERT_FALSE(input);
    EXPECT_THAT(input.error().message, HasSubstr("input 'x': "));
    EXPECT_EQ(input.error().code,
              part.region == "r" ? ErrorCode::kInvalidArgument : ErrorCode::kNotFound);
    const auto output = regions_.Bind({{}, {{"y", part}}}, request);
    ASSERT_FALSE(output);
    EXPECT_THAT(output.error().message, HasSubstr("output 'y': "));
  }
}

TEST_F(Regions, AnObjectThatShrinksIsAnError) {
  ASSERT_TRUE(regions_.Register({"r", object_.key(), 0, 4096}));
  InferRequest request = OneInput();
  auto outputs = regions_.Bind({{}, {{"y", {"r", 2048, 2048}}}}, request);
  ASSERT_TRUE(outputs);
  object_.Resize(2050);
  const auto read = regions_.Bind({{{0, {"r", 2048, 16}}}, {}}, request);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(read.error().message, HasSubstr("smaller than when it was registered"));
  std::vector<OutputTensor> answer;
  answer.push_back(Output("y", {1, 2}));
  const Status written = outputs->Write(answer);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("smaller than when it was registered"));
  object_.Resize(4096);
  EXPECT_TRUE(outputs->Write(answer));
}

TEST_F(Regions, WorkWithoutKeyAndAfterUnregister) {
  ASSERT_TRUE(regions_.Register({"r", object_.key(), 0, 4096}));
  object_.Unlink();
  object_.Write(0, {1, 2, 3, 4});
  InferRequest request = OneInput();
  auto outputs = regions_.Bind({{{0, {"r", 0, 16}}}, {{"y", {"r", 16, 8}}}}, request);
  ASSERT_TRUE(outputs) << outputs.error().message;
  regions_.UnregisterAll();
  EXPECT_THAT(FloatsOf(request.inputs[0]), ElementsAre(1, 2, 3, 4));
  std::vector<OutputTensor> answer;
  answer.push_back(Output("y", {5, 6}));
  EXPECT_TRUE(outputs->Write(answer));
  EXPECT_THAT(object_.Read(16, 2), ElementsAre(5, 6));
  EXPECT_EQ(CodeOf({"r", object_.key(), 0, 1}), ErrorCode::kInvalidArgument);  // no such key
}

TEST_F(Regions, AnOutputThatDoesNotFitIsRefused) {
  ASSERT_TRUE(regions_.Register({"r", object_.key(), 0, 4096}));
  InferRequest request = OneInput();
  auto outputs = regions_.Bind({{}, {{"y", {"r", 0, 4}}}}, request);
  ASSERT_TRUE(outputs);
  std::vector<OutputTensor> answer;
  answer.push_back(Output("y", {5, 6}));
  const Status written = outputs->Write(answer);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("(4 bytes) should be at least 8 bytes"));
  EXPECT_THAT(object_.Read(0, 1), ElementsAre(0));
}

TEST_F(Regions, CopiesOfAllRequestsAreBounded) {
  object_.Resize(SharedRegions::kMostCopied);
  ASSERT_TRUE(regions_.Register({"r", object_.key(), 0, SharedRegions::kMostCopied}));
  const RegionPart most{"r", 0, SharedRegions::kMostCopied - 100};
  InferRequest one = OneInput(), other = OneInput(), third = OneInput();
  third.inputs.push_back(third.inputs[0]);
  EXPECT_EQ(regions_.Bind({{{0, most}, {1, most}}, {}}, third).error().code,
            ErrorCode::kResourceExhausted);
  ASSERT_TRUE(regions_.Bind({{{0, most}}, {}}, one));
  EXPECT_EQ(regions_.Bind({{{0, {"r", 0, 101}}}, {}}, other).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(regions_.Bind({{{0, {"r", 0, 100}}}, {}}, other));
  one.payload.reset();
  EXPECT_TRUE(regions_.Bind({{{0, {"r", 0, 101}}}, {}}, third));
}

TEST(SharedRegions, CanBeOff) {
  const SharedObject object(16);
  SharedRegions regions(false);
  EXPECT_EQ(regions.Register({"r", object.key(), 0, 16}).error().code, ErrorCode::kUnimplemented);
  InferRequest request = OneInput();
  const auto bound = regions.Bind({{{0, {"r", 0, 16}}}, {}}, request);
  EXPECT_THAT(bound.error().message, HasSubstr("--shared-memory on"));
  EXPECT_TRUE(regions.List()->empty());
  regions.UnregisterAll();
}

}  // namespace
}  // namespace lagoon
