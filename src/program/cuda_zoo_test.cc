// Checks which models of the zoo have all their bodies on a GPU: compiles the models that are
// present for the emulated GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/testing/paths.h"
#include "program/compile.h"
#include "program/testing/emulated_gpu.h"

namespace lagoon {
namespace {

TEST(CudaZoo, EveryModelThatIsThereCompiles) {
  const std::filesystem::path zoo = SourceFolder() + "/models/zoo";
  if (!std::filesystem::is_directory(zoo)) GTEST_SKIP() << "no zoo: ./run models makes it";
  const auto on = OpenDevice(testing::StartEmulatedGpu(2));
  ASSERT_TRUE(on) << on.error().message;
  for (const auto& entry : std::filesystem::directory_iterator(zoo)) {
    const std::filesystem::path file = entry.path() / "1" / "model.onnx";
    if (!std::filesystem::exists(file)) continue;
    CompileOptions options;
    options.model = entry.path().filename();
    options.kernels = on->kernels.get();
    const auto loaded = CompileModel(file, *on->device, options);
    EXPECT_TRUE(loaded) << loaded.error().message;
  }
}

}  // namespace
}  // namespace lagoon
