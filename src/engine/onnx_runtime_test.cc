#include "engine/onnx_runtime.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/test_folder.h"
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
  const TestFolder folder;
  const std::string path = folder / "no_library.so";
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
  const TestFolder test_folder;
  const fs::path& folder = test_folder.path();
  const fs::path capi = folder / ".venv/lib/python3.11/site-packages/onnxruntime/capi";
  EXPECT_EQ(FindOnnxRuntime(folder.string()), "");
  fs::create_directories(capi);
  std::ofstream(capi / "libonnxruntime.so.1.31.1") << "";
  EXPECT_EQ(FindOnnxRuntime(folder.string()), (capi / "libonnxruntime.so.1.31.1").string());
}

// Anybody can put a library into the working directory of a server, or into /tmp.
TEST(OnnxRuntime, IsLookedForAroundTheProgramOnly) {
  namespace fs = std::filesystem;
  const TestFolder folder;
  const fs::path& root = folder.path();
  const fs::path checkout = root / "open" / "checkout";
  const auto install = [](const fs::path& packages) {
    const fs::path capi = packages / "onnxruntime/capi";
    fs::create_directories(capi);
    std::ofstream(capi / "libonnxruntime.so.1.31.1") << "";
    return (capi / "libonnxruntime.so.1.31.1").string();
  };
  const std::string program = checkout / "build/release/apps/lagoon";
  fs::create_directories(fs::path(program).parent_path());
  install(root / "open/.venv/lib/python3.11/site-packages");
  fs::permissions(root / "open", fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(FindOnnxRuntimeAround(program), "");
  const std::string own = install(checkout / ".venv/lib/python3.11/site-packages");
  EXPECT_EQ(FindOnnxRuntimeAround(program), own);
  const fs::path packages = root / "env/lib/python3.11/site-packages";
  const std::string beside = install(packages);
  fs::create_directories(packages / "lagoon/bin");
  EXPECT_EQ(FindOnnxRuntimeAround(packages / "lagoon/bin/lagoon"), beside);
}

/// Number of values of the fake library "leak" that are not released.
int FakeValues() {
  void* const library = dlopen(Fake("leak").c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return -1;
  const int values = *static_cast<const int*>(dlsym(library, "lagoon_fake_values"));
  dlclose(library);
  return values;
}

TEST(OnnxRuntime, ReleasesAllOutputsOfARunAfterAnError) {
  const auto engine = OpenOnnxRuntime(Fake("leak"));
  ASSERT_TRUE(engine.has_value()) << engine.error().message;
  {
    const auto model = (*engine)->Load({"model.onnx", {}});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    const std::vector<EngineTensor> outputs(3);  // the engine makes room
    const auto binding = (*model)->Bind({}, outputs);
    ASSERT_TRUE(binding.has_value()) << binding.error().message;
    for (int i = 0; i < 2; ++i) {
      const Status run = (*binding)->Run();
      ASSERT_FALSE(run);
      EXPECT_THAT(run.error().message, HasSubstr("no shape"));
    }
    EXPECT_EQ(FakeValues(), 3);  // of the last run
  }
  EXPECT_EQ(FakeValues(), 0);
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

class NoEngine final : public Engine {
 public:
  const std::string& name() const override { return name_; }
  Result<std::unique_ptr<EngineModel>> Load(const EngineSource&) override {
    return Fail(ErrorCode::kUnimplemented, "loads nothing");
  }

 private:
  const std::string name_ = "none";
};

TEST(EngineHost, OpensAgainAfterAPause) {
  int opened = 0;
  const auto open = [&]() -> Result<std::shared_ptr<Engine>> {
    if (++opened == 1) return Fail(ErrorCode::kResourceExhausted, "no memory");
    return std::make_shared<NoEngine>();
  };
  EngineHost host(open, Nanoseconds(0));
  EXPECT_FALSE(host.OpenNow());
  EXPECT_TRUE(host.OpenNow());
  EXPECT_TRUE(host.OpenNow());
  EXPECT_EQ(opened, 2);
}

}  // namespace
}  // namespace lagoon
