#pragma once

#include <CLI/CLI.hpp>

namespace lagoon {

// Each subcommand adds itself to the app: its words, its help and a callback that runs it. A
// callback reports failure by throwing CLI::RuntimeError(exit_code) after it has printed why (Exit
// below).
void AddServe(CLI::App& app);
void AddInfer(CLI::App& app);
void AddInspect(CLI::App& app);
void AddProfile(CLI::App& app);
void AddDevices(CLI::App& app);
void AddBench(CLI::App& app);
void AddVersion(CLI::App& app);

/// Prints "lagoon: MESSAGE" to stderr and ends the command with exit status 1.
[[noreturn]] void Die(const std::string& message);

}  // namespace lagoon
