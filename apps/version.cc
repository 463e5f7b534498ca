#include "apps/version.h"

#include <cstdio>

#include "apps/command.h"
#include "kernels/cpu_level.h"

namespace lagoon {

void AddVersion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("version", "Print version, commit and instruction set");
  command->callback([] {
    std::printf("lagoon %s (commit %s, %s)\n", kVersion, kCommit, NameOf(ActiveCpuLevel()));
  });
}

}  // namespace lagoon
