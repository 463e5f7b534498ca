#include "program/inspect.h"

#include <cstdio>
#include <memory>

#include "apps/command.h"
#include "apps/load.h"
#include "program/compile.h"

namespace lagoon {
namespace {

struct Words {
  std::string model;
  std::uint32_t workers = 0;
  int profile_runs = 0;
  bool json = false;
};

void Run(const Words& words) {
  const std::unique_ptr<Device> device = OpenCpuDevice(words.workers);
  const std::shared_ptr<LoadedPlan> loaded = Compile(words.model, *device);
  if (words.profile_runs > 0) {
    if (const Status status = ProfilePlan(*loaded, *device, words.profile_runs); !status) {
      Die(status.error().message);
    }
  }
  std::printf("%s\n", (words.json ? InspectJson(*loaded) : InspectText(*loaded)).c_str());
}

}  // namespace

void AddInspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Show what a model is compiled to: kernels, blocks, access sets, buffers");
  auto words = std::make_shared<Words>();
  command->add_option("MODEL", words->model, "An .onnx file or a model's folder in a repository")
      ->required();
  command->add_flag("--json", words->json, "As JSON");
  command
      ->add_option("--profile", words->profile_runs,
                   "Measure kernel and block times over this many runs")
      ->check(CLI::Range(1, 1000));
  command->add_option("--workers", words->workers, "Worker threads (0: one per core)");
  command->callback([words] { Run(*words); });
}

}  // namespace lagoon
