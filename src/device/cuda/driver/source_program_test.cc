#include "device/cuda/driver/source_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/testing/paths.h"
#include "base/testing/test_folder.h"

namespace lagoon::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SourceProgramTest : public ::testing::Test {
 protected:
  std::string Read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void Write(const fs::path& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  }

  const TestFolder test_folder_;
  const fs::path folder_ = test_folder_.path() / "images";  // not made yet
};

TEST_F(SourceProgramTest, AnImageIsFoundUnderItsKeyOnly) {
  const ImageCache cache(folder_ / "deep");
  EXPECT_EQ(cache.Find("a"), std::nullopt);
  const std::string image(
      "\x7f"
      "ELF\0\n\xff",
      7);
  EXPECT_TRUE(cache.Keep("a", image));
  EXPECT_EQ(cache.Find("a"), image);
  EXPECT_EQ(cache.Find("b"), std::nullopt);
  EXPECT_TRUE(cache.Keep("a", "newer"));
  EXPECT_EQ(cache.Find("a"), "newer");
}

TEST_F(SourceProgramTest, AFileThatIsCutOrDamagedAnywhereIsNoImage) {
  const ImageCache cache(folder_);
  const std::string key = "sm_90\nsource";
  ASSERT_TRUE(cache.Keep(key, "the image"));
  const std::string whole = Read(cache.FileOf(key));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    Write(cache.FileOf(key), whole.substr(0, length));
    EXPECT_EQ(cache.Find(key), std::nullopt) << "cut to " << length;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    Write(cache.FileOf(key), damaged);
    EXPECT_EQ(cache.Find(key), std::nullopt) << "byte " << at;
  }
  Write(cache.FileOf(key), whole + "x");
  EXPECT_EQ(cache.Find(key), std::nullopt);
  Write(cache.FileOf(key), whole);
  EXPECT_EQ(cache.Find(key), "the image");
}

TEST_F(SourceProgramTest, AnotherKeysFileUnderTheSameNameIsNoImage) {
  const ImageCache cache(folder_);
  ASSERT_TRUE(cache.Keep("one", "image"));
  ASSERT_TRUE(cache.Keep("two", "image"));
  fs::copy_file(cache.FileOf("one"), cache.FileOf("two"), fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.Find("two"), std::nullopt);
}

TEST_F(SourceProgramTest, WithoutAPlaceNothingIsKeptAndNothingBreaks) {
  EXPECT_FALSE(ImageCache({}).Keep("a", "image"));
  EXPECT_EQ(ImageCache({}).Find("a"), std::nullopt);
  EXPECT_FALSE(ImageCache("/proc/lagoon").Keep("a", "image"));
}

TEST_F(SourceProgramTest, WithoutNvrtcItSaysWhatToInstall) {
  const auto nvrtc = Nvrtc::Load({"libno-such-nvrtc.so"});
  ASSERT_FALSE(nvrtc.has_value());
  EXPECT_EQ(nvrtc.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(nvrtc.error().message,
              AllOf(HasSubstr("libno-such-nvrtc.so"), HasSubstr("install the nvrtc package")));
  const auto other = Nvrtc::Load({"libm.so.6"});
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, HasSubstr("nvrtcVersion"));
}

TEST_F(SourceProgramTest, CodeOfAToolkitThatIsNewerThanTheDriverIsNotMade) {
  if (!Nvrtc::Load()) GTEST_SKIP() << "no NVRTC on this machine";
  const auto nvrtc = Nvrtc::Load({}, 11);
  ASSERT_FALSE(nvrtc.has_value());
  EXPECT_THAT(nvrtc.error().message, HasSubstr("the driver of CUDA 11"));
}

// A source file of the repository, under the name by which programs include it.
SourceFile ReadSource(const std::string& name) {
  std::ifstream file(SourceFolder() + "/src/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return {name, text.str()};
}

SourceProgram::Source SuiteSource() {
  SourceProgram::Source source{ReadSource("device/cuda/testing/suite_bodies.cuh"), {}, {}};
  for (const char* name :
       {"types.cuh", "grid_params.cuh", "portable.cuh", "protocol.cuh", "entry.cuh"}) {
    source.headers.push_back(ReadSource(std::string("device/cuda/gpu/") + name));
  }
  source.entries = {{"lagoon_suite", 32}};
  return source;
}

TEST_F(SourceProgramTest, NvrtcCompilesTheProtocolForEveryGpuAndTheCacheSavesIt) {
  if (!Nvrtc::Load()) GTEST_SKIP() << "no NVRTC on this machine";
  const SourceProgram program(SuiteSource(), ImageCache(folder_));
  std::vector<std::string> images;
  for (const int major : {8, 9, 10}) {
    GpuInfo gpu;
    gpu.major = major;
    const Result<std::string> image = program.ImageFor(gpu);
    ASSERT_TRUE(image.has_value()) << image.error().message;
    EXPECT_EQ(image->substr(1, 3), "ELF");
    EXPECT_NE(image->find("lagoon_suite"), std::string::npos);
    images.push_back(*image);
  }
  EXPECT_NE(images[0], images[1]);
  // All images are in the cache now, so no file is written.
  std::map<fs::path, fs::file_time_type> written;
  for (const auto& file : fs::directory_iterator(folder_)) {
    written[file.path()] = file.last_write_time();
  }
  ASSERT_EQ(written.size(), 3u);
  GpuInfo gpu;
  gpu.major = 9;
  EXPECT_EQ(*program.ImageFor(gpu), images[1]);
  for (const auto& [path, time] : written) EXPECT_EQ(fs::last_write_time(path), time) << path;
  for (const auto& file : fs::directory_iterator(folder_)) Write(file.path(), "damaged");
  EXPECT_EQ(*program.ImageFor(gpu), images[1]) << "compiled again";
}

TEST_F(SourceProgramTest, AnErrorInTheSourceShowsTheCompilersLog) {
  if (!Nvrtc::Load()) GTEST_SKIP() << "no NVRTC on this machine";
  const SourceProgram program({{"broken.cu", "__global__ void f() { no_such_thing(); }"}, {}, {}},
                              ImageCache(folder_));
  GpuInfo gpu;
  gpu.major = 9;
  const Result<std::string> image = program.ImageFor(gpu);
  ASSERT_FALSE(image.has_value());
  EXPECT_THAT(image.error().message,
              AllOf(HasSubstr("broken.cu"), HasSubstr("no_such_thing"), HasSubstr("sm_90")));
  EXPECT_FALSE(fs::exists(folder_)) << "a failure was kept";
}

}  // namespace
}  // namespace lagoon::cuda
