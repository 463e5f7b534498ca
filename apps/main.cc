#include <cstdio>
#include <exception>

#include "apps/command.h"
#include "base/log.h"

namespace lagoon {

void Die(const std::string& message) {
  std::fprintf(stderr, "lagoon: %s\n", message.c_str());
  throw CLI::RuntimeError(1);
}

namespace {

constexpr char kDescription[] =
    "Lagoon serves many DNN models on one shared accelerator (here: the cores of this CPU).\n"
    "Real-time models answer as if they were alone; best-effort models take what they leave.\n"
    "\n"
    "  lagoon serve --models DIR       serve a model repository over HTTP and gRPC\n"
    "  lagoon infer MODEL.onnx ...     run one inference on files\n"
    "  lagoon inspect MODEL.onnx       show what a model is compiled to\n"
    "  lagoon profile MODEL.onnx       tune its kernels for this machine\n"
    "  lagoon devices                  list the devices of this machine\n"
    "  lagoon bench models --help      measure, beside what people use today";

int Main(int argc, char** argv) {
  spdlog::set_pattern("%H:%M:%S.%e %^%l%$ %v");
  CLI::App app(kDescription, "lagoon");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  AddServe(app);
  AddInfer(app);
  AddInspect(app);
  AddProfile(app);
  AddDevices(app);
  AddBench(app);
  AddVersion(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return 0;
}

}  // namespace
}  // namespace lagoon

int main(int argc, char** argv) {
  try {
    return lagoon::Main(argc, argv);
  } catch (const std::exception& error) {  // a library's: ours are Results
    std::fprintf(stderr, "lagoon: %s\n", error.what());
    return 1;
  }
}
