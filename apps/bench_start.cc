// `lagoon bench` and `lagoon train`: start the program lagoon-bench with the same words.

#include "apps/command.h"

namespace lagoon {
namespace {

/// A command that passes all its words on, --help too. `first`: words before them.
void AddStart(CLI::App& app, const std::string& name, const std::string& description,
              const std::vector<std::string>& first) {
  CLI::App* command = app.add_subcommand(name, description);
  command->prefix_command();
  command->set_help_flag();
  command->set_help_all_flag();
  command->callback([command, first] {
    std::vector<std::string> words = {
        ProgramBeside("lagoon-bench", "`./run build` or `./run bench`")};
    words.insert(words.end(), first.begin(), first.end());
    const std::vector<std::string> rest = command->remaining();
    words.insert(words.end(), rest.begin(), rest.end());
    Become(std::move(words));
  });
}

}  // namespace

void AddBench(CLI::App& app) {
  AddStart(app, "bench", "Run benchmarks; each writes one JSON report", {});
}

void AddTrain(CLI::App& app) {
  AddStart(app, "train", "Train what decides by networks", {"train"});
}

}  // namespace lagoon
