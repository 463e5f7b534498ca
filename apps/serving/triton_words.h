#pragma once

#include <CLI/CLI.hpp>

#include "apps/serving/listening.h"

namespace lagoon {

/// Options of tritonserver that `lagoon serve` does not have under any name, so that its users
/// learn what to write instead: some have no effect, which the log says; others end the command
/// with a message. Help and reference leave them out.
void AddTritonWords(CLI::App& command, ListenWords& words);

}  // namespace lagoon
