#include "apps/command.h"
#include "apps/reference/pages.h"

namespace lagoon {
namespace {

constexpr char kDescription[] =
    "Lagoon serves many DNN models on one shared device: the cores of a CPU, or a GPU.\n"
    "Real-time models answer as if they were alone; best-effort models take what they leave.\n"
    "\n"
    "  lagoon serve --models DIR       serve a model repository over HTTP and gRPC\n"
    "  lagoon check DIR                say which models of a repository are served, and why not\n"
    "  lagoon infer MODEL.onnx ...     run one inference on files\n"
    "  lagoon inspect MODEL.onnx       show a compiled model\n"
    "  lagoon profile MODEL.onnx       tune a model's kernels for this machine\n"
    "  lagoon split MODEL.onnx         cut a model into parts of equal time\n"
    "  lagoon train placement          train the placer inss\n"
    "  lagoon devices                  list the devices of this machine\n"
    "  lagoon schedulers               list the schedulers and their parameters\n"
    "  lagoon make-weights DIR         make random weights for models without weights\n"
    "  lagoon bench --help             list the benchmarks";

/// A command of the wheel: the program says where it is.
void AddOpenAiHint(CLI::App& app) {
  app.add_subcommand("openai")->group("")->prefix_command()->callback([] {
    Die("OpenAI's API is a module of Python: pip install 'lagoon-server[openai]', then run "
        "python3 -m lagoon.openai");
  });
}

void AddCommands(CLI::App& app) {
  AddServe(app);
  AddCheck(app);
  AddInfer(app);
  AddInspect(app);
  AddProfile(app);
  AddSplit(app);
  AddTrain(app);
  AddDevices(app);
  AddSchedulerList(app);
  AddMakeWeights(app);
  AddBench(app);
  AddVersion(app);
  AddOpenAiHint(app);
  AddReference(app, [&app] {
    return std::vector{CommandPage(app), ConfigPage(), HttpPage(), MetricsPage()};
  });
}

}  // namespace
}  // namespace lagoon

int main(int argc, char** argv) {
  const std::span words(argv, static_cast<std::size_t>(argc));
  return lagoon::RunProgram("lagoon", lagoon::kDescription, lagoon::AddCommands, words);
}
