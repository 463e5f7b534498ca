#include "engine/onnx_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/engine_host.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;

std::string Fake(const std::string& name) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return (program.parent_path() / ("liblagoon_fake_engine_" + name + ".so")).string();
}

Error ErrorOf(const std::string& path) {
  const Result<std::shared_ptr<Engine>> engine = OpenOnnxRuntime(path);
  return engine ? Error{ErrorCode::kInternal, "opened"} : engine.error();
}

TEST(OnnxRuntime, NamesAPathThatIsMissing) {
  const Error error = ErrorOf("/no/such/library.so");
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("engine /no/such/library.so: No such file"));
}

TEST(OnnxRuntime, RefusesAFileThatIsNoLibrary) {
  const std::string path = ::testing::TempDir() + "no_library.so";
  std::ofstream(path) << "not a library";
  const Error error = ErrorOf(path);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("cannot be loaded"));
}

TEST(OnnxRuntime, RefusesAnotherLibrary) {
  const Error error = ErrorOf(Fake("other"));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("it has no OrtGetApiBase"));
}

TEST(OnnxRuntime, RefusesALibraryOfTheWrongVersion) {
  const Error error = ErrorOf(Fake("old"));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("is ONNX Runtime 1.2.0, which lacks version 17"));
  EXPECT_THAT(error.message, HasSubstr("pip install onnxruntime"));
}

TEST(OnnxRuntime, SurvivesALibraryThatCrashesAtLoad) {
  const Error error = ErrorOf(Fake("crash"));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("crashes when it is loaded: Aborted"));
}

TEST(OnnxRuntime, IsFoundInAVirtualEnvironment) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "lagoon_find_engine";
  const fs::path capi = folder / ".venv/lib/python3.11/site-packages/onnxruntime/capi";
  fs::remove_all(folder);
  EXPECT_EQ(FindOnnxRuntime(folder.string()), "");
  fs::create_directories(capi);
  std::ofstream(capi / "libonnxruntime.so.1.31.1") << "";
  EXPECT_EQ(FindOnnxRuntime(folder.string()), (capi / "libonnxruntime.so.1.31.1").string());
  fs::remove_all(folder);
}

TEST(ChooseEngine, TakesNoneAndAPath) {
  const auto none = ChooseEngine("none");
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(*none, nullptr);
  const auto missing = ChooseEngine("/no/such/library.so");
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("/no/such/library.so"));
}

TEST(EngineHost, ReportsTheErrorOfOpeningEachTime) {
  int opened = 0;
  EngineHost host([&]() -> Result<std::shared_ptr<Engine>> {
    ++opened;
    return Fail(ErrorCode::kNotFound, "gone");
  });
  for (int i = 0; i < 2; ++i) {
    const auto model = host.Load({"model.onnx", {}});
    ASSERT_FALSE(model.has_value());
    EXPECT_EQ(model.error().message, "gone");
  }
  EXPECT_EQ(opened, 1);
}

}  // namespace
}  // namespace lagoon
