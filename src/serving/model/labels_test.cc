#include "serving/model/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/test_folder.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Labels, AreTheLinesOfTheFile) {
  EXPECT_THAT(ParseLabels("cat\r\nsmall dog\n\nfox"), ElementsAre("cat", "small dog", "", "fox"));
  EXPECT_THAT(ParseLabels("cat\n"), ElementsAre("cat"));
  EXPECT_THAT(ParseLabels(""), IsEmpty());
}

class ReadLabelsTest : public ::testing::Test {
 protected:
  Status Read(const std::string& filename) {
    signature_ = {};
    signature_.outputs = {{"a", DataType::kFloat32, {1}}, {"b", DataType::kFloat32, {1}}};
    inference::ModelConfig config;
    config.add_output()->set_name("b");
    config.mutable_output(0)->set_label_filename(filename);
    return ReadLabels(folder_.path(), config, signature_);
  }

  TestFolder folder_;
  Signature signature_;
};

TEST_F(ReadLabelsTest, BelongToTheOutputThatNamesThem) {
  std::ofstream(folder_ / "names.txt") << "cat\ndog\n";
  ASSERT_TRUE(Read("names.txt"));
  EXPECT_EQ(signature_.labels[0], nullptr);
  EXPECT_THAT(*signature_.labels[1], ElementsAre("cat", "dog"));
}

TEST_F(ReadLabelsTest, NoOtherFolderIsRead) {
  for (const char* name : {"/etc/passwd", "../x", "a/../../x", ".."}) {
    const Status status = Read(name);
    ASSERT_FALSE(status) << name;
    EXPECT_THAT(status.error().message,
                AllOf(HasSubstr("output 'b'"), HasSubstr("is not a file in the model's folder")));
  }
}

TEST_F(ReadLabelsTest, SaysWhyAFileCannotBeRead) {
  EXPECT_THAT(Read("none.txt").error().message, HasSubstr("No such file"));
  std::ofstream(folder_ / "large.txt") << std::string(kMaxLabelFileBytes + 1, '\n');
  EXPECT_THAT(Read("large.txt").error().message, HasSubstr("more than"));
}

}  // namespace
}  // namespace lagoon
