// `lagoon bench`: starts the program lagoon-bench with the same words.

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "apps/command.h"

namespace lagoon {

void AddBench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Run benchmarks; each writes one JSON report");
  command->prefix_command();  // passes all words on to lagoon-bench, --help too
  command->set_help_flag();
  command->set_help_all_flag();
  command->callback([command] {
    std::vector<std::string> words = command->remaining();
    words.insert(words.begin(), ProgramBeside("lagoon-bench", "`./run build` or `./run bench`"));
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    Die("cannot run '" + words[0] + "': " + std::generic_category().message(errno));
  });
}

}  // namespace lagoon
