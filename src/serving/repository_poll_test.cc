#include "serving/repository_poll.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serving/testing/model_files.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// Notes what it is asked, and answers as the test says.
class NotingControl final : public RepositoryControl {
 public:
  using RepositoryControl::LoadModel;
  void LoadModel(const std::string& model, LoadOverride with,
                 std::function<void(Status)> done) override {
    EXPECT_TRUE(with.empty());
    Answer("load " + model, std::move(done));
  }
  void UnloadModel(const std::string& model, std::function<void(Status)> done) override {
    Answer("unload " + model, std::move(done));
  }
  /// The next `times` answers to `asked`.
  void Fail(const std::string& asked, ErrorCode code, int times) { fails_[asked] = {code, times}; }
  std::vector<std::string> Asked() { return std::exchange(asked_, {}); }

 private:
  void Answer(const std::string& asked, std::function<void(Status)> done) {
    asked_.push_back(asked);
    auto& [code, times] = fails_[asked];
    // On another thread, as a core does.
    Status status;
    if (times-- > 0) status = lagoon::Fail(code, asked + " fails");
    std::thread([done = std::move(done), status = std::move(status)] { done(status); }).detach();
  }

  std::vector<std::string> asked_;
  std::map<std::string, std::pair<ErrorCode, int>> fails_;
};

class RepositoryFolderTest : public ::testing::Test {
 protected:
  RepositoryFolderTest() {
    repository_.WriteFile("a/1/model.onnx", "one");
    repository_.WriteFile("b/1/model.onnx", "one");
  }
  std::filesystem::path Path(const std::string& name) const {
    return std::filesystem::path(repository_.path()) / name;
  }
  /// Looks twice, as a change is made by the second look that finds it.
  std::vector<std::string> LookTwice(RepositoryFolder& folder) {
    EXPECT_TRUE(folder.Follow(control_));
    EXPECT_THAT(control_.Asked(), IsEmpty()) << "a model was changed before its files had settled";
    EXPECT_FALSE(folder.Follow(control_));
    return control_.Asked();
  }

  testing::TestRepository repository_;
  NotingControl control_;
};

TEST_F(RepositoryFolderTest, NothingIsLoadedWhileNothingChanges) {
  RepositoryFolder folder(repository_.path());
  for (int look = 0; look < 3; ++look) EXPECT_FALSE(folder.Follow(control_));
  EXPECT_THAT(control_.Asked(), IsEmpty());
}

struct Edit {
  const char* name;
  std::function<void(const std::filesystem::path& repository)> make;
  std::vector<std::string> asks;
};

void Write(const std::filesystem::path& path, const std::string& contents) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << contents;
}

class EditTest : public RepositoryFolderTest, public ::testing::WithParamInterface<Edit> {};

TEST_P(EditTest, IsFollowedOnceItsFilesHaveSettled) {
  repository_.WriteFile("outside/weights", "one");  // a model like others, which links lead to
  std::filesystem::create_symlink("../../outside/weights", Path("b/1/linked"));
  repository_.WriteFile("python/1/model.py", "one");
  RepositoryFolder folder(repository_.path());
  GetParam().make(repository_.path());
  if (GetParam().asks.empty()) {
    for (int look = 0; look < 2; ++look) EXPECT_FALSE(folder.Follow(control_));
    EXPECT_THAT(control_.Asked(), IsEmpty());
    return;
  }
  EXPECT_THAT(LookTwice(folder), ::testing::UnorderedElementsAreArray(GetParam().asks));
  EXPECT_FALSE(folder.Follow(control_));
  EXPECT_THAT(control_.Asked(), IsEmpty()) << "a change is made once";
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EditTest,
    ::testing::Values(
        Edit{"NewModel", [](const auto& to) { Write(to / "c/1/model.onnx", "one"); }, {"load c"}},
        Edit{"ModelGone",
             [](const auto& to) { std::filesystem::remove_all(to / "a"); },
             {"unload a"}},
        Edit{"ModelRenamed",
             [](const auto& to) { std::filesystem::rename(to / "a", to / "c"); },
             {"unload a", "load c"}},
        Edit{"NewVersion", [](const auto& to) { Write(to / "a/2/model.onnx", "two"); }, {"load a"}},
        Edit{"VersionGone",
             [](const auto& to) { std::filesystem::remove_all(to / "a/1"); },
             {"load a"}},
        Edit{"OtherBytes",
             [](const auto& to) { Write(to / "a/1/model.onnx", "longer"); },
             {"load a"}},
        Edit{"NewConfig", [](const auto& to) { Write(to / "a/config.pbtxt", ""); }, {"load a"}},
        // As `mv` does: size and time of the file are the same.
        Edit{"FileReplacedBySameSizeAndTime",
             [](const auto& to) {
               const auto file = to / "a/1/model.onnx";
               const auto time = std::filesystem::last_write_time(file);
               Write(to / ".new", "two");
               std::filesystem::last_write_time(to / ".new", time);
               std::filesystem::rename(to / ".new", file);
             },
             {"load a"}},
        Edit{"WhatALinkLeadsTo",
             [](const auto& to) { Write(to / "outside/weights", "longer"); },
             {"load b", "load outside"}},
        Edit{"HiddenFile", [](const auto& to) { Write(to / "a/1/.model.onnx.swp", "x"); }, {}},
        Edit{"HiddenFolder", [](const auto& to) { Write(to / ".git/1/model.onnx", "x"); }, {}},
        Edit{"PythonCache",
             [](const auto& to) { Write(to / "python/1/__pycache__/model.cpython-311.pyc", "x"); },
             {}},
        Edit{"FileBesideModels", [](const auto& to) { Write(to / "README.md", "x"); }, {}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(RepositoryFolderTest, AModelThatIsCopiedIsLoadedWhenTheCopyEnds) {
  RepositoryFolder folder(repository_.path());
  std::string contents;
  for (int look = 0; look < 4; ++look) {
    repository_.WriteFile("c/1/model.onnx", contents += "part");
    EXPECT_TRUE(folder.Follow(control_));
    EXPECT_THAT(control_.Asked(), IsEmpty());
  }
  EXPECT_FALSE(folder.Follow(control_));
  EXPECT_THAT(control_.Asked(), ElementsAre("load c"));
}

TEST_F(RepositoryFolderTest, AModelThatCannotBeLoadedWaitsForOtherFiles) {
  RepositoryFolder folder(repository_.path());
  repository_.WriteFile("a/1/model.onnx", "damaged");
  control_.Fail("load a", ErrorCode::kInvalidArgument, 1);
  EXPECT_THAT(LookTwice(folder), ElementsAre("load a"));
  EXPECT_FALSE(folder.Follow(control_));
  EXPECT_THAT(control_.Asked(), IsEmpty());
  repository_.WriteFile("a/1/model.onnx", "mended");
  EXPECT_THAT(LookTwice(folder), ElementsAre("load a"));
}

/// An ensemble may be loaded before the new step that it needs.
TEST_F(RepositoryFolderTest, AModelThatFailsIsTriedAgainWhenAnotherOneIsLoaded) {
  RepositoryFolder folder(repository_.path());
  repository_.WriteFile("a/1/model.onnx", "two");
  repository_.WriteFile("b/1/model.onnx", "two");
  control_.Fail("load a", ErrorCode::kInvalidArgument, 1);
  EXPECT_THAT(LookTwice(folder), ElementsAre("load a", "load b", "load a"));
}

TEST_F(RepositoryFolderTest, WhenAllFailNothingIsTriedAgain) {
  RepositoryFolder folder(repository_.path());
  repository_.WriteFile("a/1/model.onnx", "two");
  repository_.WriteFile("b/1/model.onnx", "two");
  control_.Fail("load a", ErrorCode::kInvalidArgument, 9);
  control_.Fail("load b", ErrorCode::kInvalidArgument, 9);
  EXPECT_THAT(LookTwice(folder), ElementsAre("load a", "load b"));
}

TEST_F(RepositoryFolderTest, AChangeIsMadeLaterWhereTheDeviceIsAway) {
  RepositoryFolder folder(repository_.path());
  repository_.WriteFile("a/1/model.onnx", "two");
  control_.Fail("load a", ErrorCode::kUnavailable, 2);
  EXPECT_TRUE(folder.Follow(control_));
  for (int look = 0; look < 2; ++look) {
    EXPECT_TRUE(folder.Follow(control_)) << "a look soon is worthwhile";
    EXPECT_THAT(control_.Asked(), ElementsAre("load a"));
  }
  EXPECT_FALSE(folder.Follow(control_));
  EXPECT_THAT(control_.Asked(), ElementsAre("load a"));
}

TEST_F(RepositoryFolderTest, AModelThatWasNeverLoadedMayGo) {
  RepositoryFolder folder(repository_.path());
  std::filesystem::remove_all(Path("a"));
  control_.Fail("unload a", ErrorCode::kNotFound, 1);
  EXPECT_THAT(LookTwice(folder), ElementsAre("unload a"));
}

TEST_F(RepositoryFolderTest, ARepositoryThatIsAwayUnloadsNothing) {
  RepositoryFolder folder(repository_.path());
  const std::filesystem::path aside = repository_.path() + ".aside";
  std::filesystem::rename(repository_.path(), aside);
  for (int look = 0; look < 3; ++look) EXPECT_FALSE(folder.Follow(control_));
  std::filesystem::rename(aside, repository_.path());
  for (int look = 0; look < 3; ++look) EXPECT_FALSE(folder.Follow(control_));
  EXPECT_THAT(control_.Asked(), IsEmpty());
}

TEST_F(RepositoryFolderTest, LinksInACircleEnd) {
  std::filesystem::create_directory_symlink("..", Path("a/1/up"));
  std::filesystem::create_directory_symlink("../../b", Path("a/1/b"));
  std::filesystem::create_directory_symlink("../../a", Path("b/1/a"));
  std::filesystem::create_symlink("nowhere", Path("a/1/nothing"));
  ASSERT_EQ(::mkfifo(Path("a/1/pipe").c_str(), 0600), 0);
  RepositoryFolder folder(repository_.path());
  EXPECT_FALSE(folder.Follow(control_));
  repository_.WriteFile("a/1/model.onnx", "two");
  EXPECT_THAT(LookTwice(folder), UnorderedElementsAre("load a", "load b"));
}

TEST_F(RepositoryFolderTest, NamesThatComeAndGoLeaveNothing) {
  RepositoryFolder folder(repository_.path());
  for (int look = 0; look < 3; ++look) {
    repository_.WriteFile("c/1/model.onnx", "one");
    EXPECT_TRUE(folder.Follow(control_));
    std::filesystem::remove_all(Path("c"));
    EXPECT_FALSE(folder.Follow(control_));
  }
  EXPECT_THAT(control_.Asked(), IsEmpty());
}

TEST_F(RepositoryFolderTest, APollFollowsOnItsOwnAndStopsAtOnce) {
  RepositoryFolder folder(repository_.path());
  std::promise<void> asked;
  class Control final : public RepositoryControl {
   public:
    explicit Control(std::promise<void>& told) : told_(told) {}
    void LoadModel(const std::string& model, LoadOverride,
                   std::function<void(Status)> done) override {
      EXPECT_EQ(model, "c");
      done({});
      if (!std::exchange(is_told_, true)) told_.set_value();
    }
    void UnloadModel(const std::string&, std::function<void(Status)>) override { FAIL(); }

   private:
    std::promise<void>& told_;
    bool is_told_ = false;  // a half-copied model is loaded again
  } control(asked);
  {
    const RepositoryPoll poll(folder, control, std::chrono::milliseconds(10));
    repository_.WriteFile("c/1/model.onnx", "one");
    asked.get_future().wait();
  }
  const TimePoint start = Now();
  { const RepositoryPoll poll(folder, control, std::chrono::hours(1)); }
  EXPECT_LT(Now() - start, std::chrono::minutes(1));
}

}  // namespace
}  // namespace lagoon
