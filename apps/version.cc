#include <cstdio>

#include "apps/command.h"

namespace lagoon {

void AddVersion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("version", "Print version, commit and instruction set");
  command->callback([] { std::printf("%s\n", VersionLine().c_str()); });
}

}  // namespace lagoon
