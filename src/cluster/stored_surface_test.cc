#include "cluster/stored_surface.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace lagoon {
namespace {

constexpr const char* kVgg19 =
    R"({"model": "vgg19", "device": "gpu0, a make, 8 units", "source": "a test",
        "points": {"rows": [1], "shares": [0.25, 0.5, 0.75, 1],
                   "latency_ms": [[40, 20, 19.8, 19.6]]}})";

class StoredSurfaceTest : public ::testing::Test {
 protected:
  StoredSurfaceTest() { std::filesystem::create_directories(folder_); }
  ~StoredSurfaceTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& model, const std::string& text) {
    std::ofstream(SurfacePath(folder_, model)) << text;
  }
  std::string Wrong(const std::string& model) {
    const auto loaded = LoadSurface(folder_, model, device_);
    return loaded ? "" : loaded.error().message;
  }

  const std::string folder_ = ::testing::TempDir() + "lagoon-stored-surface";
  std::string device_ = SurfaceDevice("gpu0", "a make", 8);
};

TEST_F(StoredSurfaceTest, ASurfaceIsFoundByModelAndDevice) {
  Write("vgg19", kVgg19);
  const auto loaded = LoadSurface(folder_, "vgg19", device_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(loaded->has_value());
  EXPECT_EQ((*loaded)->surface.LatencyMs(1, 0.5), 20);
  EXPECT_EQ(SurfaceDevice("gpu0", "", 1), "gpu0, 1 unit");
}

TEST_F(StoredSurfaceTest, AModelWithoutAFileHasNone) {
  for (const char* model : {"vgg19", "", "../vgg19"}) {
    const auto loaded = LoadSurface(folder_, model, device_);
    ASSERT_TRUE(loaded);
    EXPECT_FALSE(loaded->has_value()) << model;
  }
  EXPECT_FALSE(LoadSurface("", "vgg19", device_)->has_value());
}

TEST_F(StoredSurfaceTest, APipeOrAFolderIsRefusedByName) {
  const std::string path = SurfacePath(folder_, "vgg19");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(Wrong("vgg19").find("vgg19.surface.json': is not a file"), std::string::npos);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_NE(Wrong("vgg19").find("vgg19.surface.json': is not a file"), std::string::npos);
}

TEST_F(StoredSurfaceTest, ASurfaceOfAnotherModelOrDeviceIsRefusedByName) {
  Write("resnet50", kVgg19);
  EXPECT_NE(Wrong("resnet50").find("of the model 'vgg19', not of 'resnet50'"), std::string::npos)
      << Wrong("resnet50");
  Write("vgg19", kVgg19);
  device_ = SurfaceDevice("gpu0", "a make", 10);
  const std::string wrong = Wrong("vgg19");
  EXPECT_NE(wrong.find("vgg19.surface.json"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("'gpu0, a make, 8 units', not of 'gpu0, a make, 10 units'"),
            std::string::npos)
      << wrong;
  EXPECT_NE(wrong.find("lagoon profile --shares --save"), std::string::npos) << wrong;
}

TEST_F(StoredSurfaceTest, AFileThatIsNoSurfaceIsRefused) {
  for (const char* text : {"", "[]", "{\"model\": \"vgg19\"}",
                           R"({"model": "vgg19", "device": "gpu0, a make, 8 units", "source": "x",
                              "points": {"rows": [1], "shares": [1], "latency_ms": [[-1]]}})"}) {
    Write("vgg19", text);
    EXPECT_FALSE(Wrong("vgg19").empty()) << text;
  }
}

}  // namespace
}  // namespace lagoon
