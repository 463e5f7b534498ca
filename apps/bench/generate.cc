// `lagoon bench generate`.

#include "bench/live/generate.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "apps/load.h"

namespace lagoon {

void AddGenerateBenchmark(CLI::App& bench) {
  struct Words {
    std::vector<std::string> models = {"qwen2_0_5b", "tinyllama"};
    std::string folder = "models/corpus/files";
  };
  auto common = std::make_shared<BenchCommon>();
  auto words = std::make_shared<Words>();
  auto options = std::make_shared<bench::GenerateOptions>();
  CLI::App* command = AddSimulation(
      bench, "generate",
      "Tokens a second of decoders of texts, and a real-time prompt beside a best-effort one",
      *common);
  AddModelNames(*command, words->models);
  command
      ->add_option("--folder", words->folder,
                   "Folder with NAME.onnx of each model; models/corpus/genai.py writes such files")
      ->capture_default_str();
  command->add_option("--program", options->program,
                      "The library of examples/jobs/chat.cc; by default that of this build");
  command->add_option("--genai", options->genai,
                      "A Python with onnxruntime-genai, to measure that too");
  command->add_option("--scheduler", options->scheduler, "Scheduler, with parameters")
      ->capture_default_str();
  AddWorkers(*command, options->workers);
  command->add_option("--rows", options->rows, "Requests that decode together")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--context", options->context, "Tokens that a cache has room for")
      ->check(CLI::Range(16, 8192))
      ->capture_default_str();
  command->add_option("--prompt", options->prompt, "Tokens of a prompt")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--tokens", options->tokens, "Tokens of an answer")
      ->check(CLI::Range(2, 4096))
      ->capture_default_str();
  command
      ->add_option("--chunk", options->chunk,
                   "Tokens of a prompt that are read at once; 0: prompts go through the decoder")
      ->check(CLI::Range(0, 8192))
      ->capture_default_str();
  command->add_option("--background", options->background, "Tokens of the best-effort prompt")
      ->check(CLI::Range(1, 8192))
      ->capture_default_str();
  AddRequests(*command, options->requests);
  AddWindows(*command, options->windows);
  AddSeed(*command, options->seed);
  command->callback([common, words, options] {
    const nlohmann::json configuration = {
        {"models", words->models},       {"scheduler", Configurations({options->scheduler})},
        {"workers", options->workers},   {"genai", !options->genai.empty()},
        {"rows", options->rows},         {"context", options->context},
        {"prompt", options->prompt},     {"tokens", options->tokens},
        {"chunk", options->chunk},       {"background", options->background},
        {"requests", options->requests}, {"windows", options->windows},
        {"seed", options->seed}};
    if (options->program.empty()) {
      options->program = ProgramBeside("../examples/jobs/job_chat.so", "`./run build`");
    }
    for (const std::string& model : words->models) {
      const std::string file = FileOf(words->folder, model);
      if (!std::filesystem::exists(file)) {
        Die(
            fmt::format("there is no file '{0}': .venv/bin/python models/corpus/genai.py {1} {0} "
                        "makes it, if {1} is one of its shapes",
                        file, model));
      }
      options->models.emplace_back(std::filesystem::path(model).stem().string(), file);
    }
    Measure("generate", configuration, *common,
            [&](bench::Report& report) { return RunGenerate(*options, report); });
  });
}

}  // namespace lagoon
