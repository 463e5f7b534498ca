#include "serving/model/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lagoon {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ScanRepositoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("lagoon_repository_" + std::to_string(getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::vector<RepositoryModel> Scan() {
    auto models = ScanRepository(root_);
    EXPECT_TRUE(models.has_value()) << models.error().message;
    return models ? *models : std::vector<RepositoryModel>{};
  }

  fs::path root_;
};

TEST_F(ScanRepositoryTest, ListsModelsByNameWithTheirVersionsAsNumbers) {
  for (const char* folder : {"b/1", "a/2", "a/10", "a/9"}) fs::create_directories(root_ / folder);
  const auto models = Scan();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, "a");
  EXPECT_EQ(models[0].directory, root_ / "a");
  EXPECT_THAT(models[0].versions, ElementsAre(2, 9, 10));
  EXPECT_EQ(models[0].problem, "");
  EXPECT_EQ(models[1].name, "b");
}

TEST_F(ScanRepositoryTest, FilesAndHiddenFoldersAreNoModels) {
  fs::create_directories(root_ / ".git" / "1");
  std::ofstream(root_ / "README.md") << "models";
  fs::create_symlink(root_ / "nowhere", root_ / ".dangling");
  fs::create_symlink(root_ / "README.md", root_ / "link");
  EXPECT_THAT(Scan(), IsEmpty());
}

TEST_F(ScanRepositoryTest, ALinkThatLeadsNowhereIsAModelThatCannotBeServed) {
  fs::create_symlink(root_ / "nowhere", root_ / "dangling");
  fs::create_symlink(root_ / "loop", root_ / "loop");
  fs::create_directories(root_ / "m" / "1");
  fs::create_symlink(root_ / "nowhere", root_ / "m" / "2");
  const auto models = Scan();
  ASSERT_EQ(models.size(), 3u);
  for (std::size_t link = 0; link < 2; ++link) {
    EXPECT_THAT(models[link].problem, HasSubstr("is a link whose target cannot be read"));
  }
  EXPECT_THAT(models[2].versions, ElementsAre(1, 2)) << "not to serve an older one in silence";
}

// Messages for clients are made without folders, which are known by their absolute paths.
TEST_F(ScanRepositoryTest, FoldersOfModelsAreAbsolute) {
  fs::create_directories(root_ / "m" / "1");
  const auto models = ScanRepository(fs::relative(root_));
  ASSERT_TRUE(models.has_value()) << models.error().message;
  const fs::path folder = models->at(0).directory;
  EXPECT_TRUE(folder.is_absolute()) << folder;
  EXPECT_TRUE(fs::equivalent(folder, root_ / "m")) << folder;
}

TEST_F(ScanRepositoryTest, FoldersThatAreNoVersionsAreLeftOut) {
  for (const char* folder : {"m/3", "m/v4", "m/05", "m/0", "m/-1", "m/99999999999999999999"}) {
    fs::create_directories(root_ / folder);
  }
  std::ofstream(root_ / "m" / "7") << "a file";
  EXPECT_THAT(Scan().at(0).versions, ElementsAre(3));
}

TEST_F(ScanRepositoryTest, AModelWithoutVersionsSaysWhatItHas) {
  fs::create_directories(root_ / "m" / "v1");
  const auto models = Scan();
  ASSERT_EQ(models.size(), 1u);
  EXPECT_THAT(models[0].problem, AllOf(HasSubstr("has no version"), HasSubstr("'v1'")));
}

TEST_F(ScanRepositoryTest, ABadNameIsAProblemOfThatModelAlone) {
  fs::create_directories(root_ / "my model" / "1");
  fs::create_directories(root_ / "good" / "1");
  const auto models = Scan();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].problem, "");
  EXPECT_THAT(models[1].problem, HasSubstr("name"));
}

TEST_F(ScanRepositoryTest, AMissingRepositoryIsNotFound) {
  const auto models = ScanRepository(root_ / "missing");
  ASSERT_FALSE(models.has_value());
  EXPECT_EQ(models.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(models.error().message, HasSubstr("missing"));
}

TEST_F(ScanRepositoryTest, AFileIsNoRepository) {
  std::ofstream(root_ / "file") << "x";
  const auto models = ScanRepository(root_ / "file");
  ASSERT_FALSE(models.has_value());
  EXPECT_EQ(models.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ScanRepositoryTest, AnUnreadableRepositoryIsAnError) {
  // A loop of links cannot be read by any user, root included.
  fs::create_symlink(root_ / "loop", root_ / "loop");
  const auto models = ScanRepository(root_ / "loop");
  ASSERT_FALSE(models.has_value());
  EXPECT_EQ(models.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(models.error().message, AllOf(HasSubstr("loop"), HasSubstr("cannot be read")));
}

TEST_F(ScanRepositoryTest, AFolderWithoutPermissionIsAnError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  fs::permissions(root_, fs::perms::none);
  const auto models = ScanRepository(root_);
  fs::permissions(root_, fs::perms::owner_all);
  ASSERT_FALSE(models.has_value());
  EXPECT_EQ(models.error().code, ErrorCode::kInvalidArgument);
}

inference::ModelVersionPolicy Specific(std::initializer_list<std::int64_t> versions) {
  inference::ModelVersionPolicy policy;
  for (const std::int64_t version : versions) policy.mutable_specific()->add_versions(version);
  return policy;
}

TEST(ChooseVersions, TheLatestWithoutAPolicy) {
  EXPECT_THAT(ChooseVersions({}, {2, 9, 10}).serve, ElementsAre(10));
}

TEST(ChooseVersions, AsManyLatestAsThereAre) {
  inference::ModelVersionPolicy policy;
  policy.mutable_latest()->set_num_versions(2);
  EXPECT_THAT(ChooseVersions(policy, {2, 9, 10}).serve, ElementsAre(9, 10));
  policy.mutable_latest()->set_num_versions(7);
  EXPECT_THAT(ChooseVersions(policy, {2, 9, 10}).serve, ElementsAre(2, 9, 10));
  policy.mutable_latest()->set_num_versions(0);
  EXPECT_THAT(ChooseVersions(policy, {2, 9, 10}).serve, ElementsAre(10));
}

TEST(ChooseVersions, All) {
  inference::ModelVersionPolicy policy;
  policy.mutable_all();
  EXPECT_THAT(ChooseVersions(policy, {1, 2}).serve, ElementsAre(1, 2));
}

TEST(ChooseVersions, SpecificOnesOnceAndTheMissingOnesByNumber) {
  const VersionChoice choice = ChooseVersions(Specific({9, 2, 9, 5, 5}), {2, 9, 10});
  EXPECT_THAT(choice.serve, ElementsAre(2, 9));
  EXPECT_THAT(choice.missing, ElementsAre(5));
}

TEST(ParseVersion, TakesPositiveIntegersOnly) {
  EXPECT_EQ(ParseVersion("12"), 12);
  for (const char* text : {"", "0", "01", "+1", "-1", "1 ", " 1", "1.0", "x"}) {
    EXPECT_EQ(ParseVersion(text), 0) << text;
  }
}

TEST_F(ScanRepositoryTest, AModelFileMayBeAFolderWithItsExternalData) {
  const fs::path version = root_ / "m" / "1";
  fs::create_directories(version / "large.onnx");
  EXPECT_EQ(ModelPath(version, "large.onnx"), version / "large.onnx" / "model.onnx");
  EXPECT_EQ(ModelPath(version, "small.onnx"), version / "small.onnx");
}

}  // namespace
}  // namespace lagoon
