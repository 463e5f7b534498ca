#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>

namespace lagoon {

// Each subcommand adds itself to the app: its words, its help and a callback that runs it. A
// callback reports failure by throwing CLI::RuntimeError(exit_code) after it has printed why (Die
// below).
void AddServe(CLI::App& app);
void AddInfer(CLI::App& app);
void AddInspect(CLI::App& app);
void AddProfile(CLI::App& app);
void AddDevices(CLI::App& app);
void AddMakeWeights(CLI::App& app);
void AddVersion(CLI::App& app);

/// `lagoon bench WORD...` becomes the program lagoon-bench, which lies beside lagoon: serving does
/// not compile what measures.
void AddBench(CLI::App& app);

/// The words of lagoon-bench.
void AddBenchmarks(CLI::App& app);

/// Prints "lagoon: MESSAGE" to stderr and ends the command with exit status 1.
[[noreturn]] void Die(const std::string& message);

/// Makes the app `name`, lets `add_words` add its subcommands, parses the words and runs what they
/// name. Returns the program's exit status.
int RunProgram(const char* name, const char* description, void (*add_words)(CLI::App&),
               std::span<char*> words);

/// The path of the program `name` in the folder of this program. Dies when there is no such file:
/// the message says that `how_to_make` makes the program.
std::string ProgramBeside(const std::string& name, const std::string& how_to_make);

}  // namespace lagoon
