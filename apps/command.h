#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lagoon {

// Each function adds one subcommand to the app: its options, its help and a callback that runs it.
// A callback reports failure by throwing CLI::RuntimeError(exit_code) after it has printed the
// reason (Die() below).
void AddServe(CLI::App& app);
void AddCheck(CLI::App& app);
void AddInfer(CLI::App& app);
void AddInspect(CLI::App& app);
void AddProfile(CLI::App& app);
void AddSplit(CLI::App& app);
void AddDevices(CLI::App& app);
void AddSchedulerList(CLI::App& app);
void AddMakeWeights(CLI::App& app);
void AddVersion(CLI::App& app);

/// `lagoon bench WORD...` and `lagoon train WORD...` replace this process by the program
/// lagoon-bench in the same folder, so that the server's program contains neither benchmarks nor
/// simulators.
void AddBench(CLI::App& app);
void AddTrain(CLI::App& app);

/// The version of Lagoon, its commit and the instruction set that it uses here.
std::string VersionLine();

/// Takes the numbers from `least` to `most`. Unlike CLI::Range, it refuses "nan".
CLI::Validator NumberBetween(double least, double most);

/// Makes `option` take the names of `values`. The help lists the names.
template <typename Value>
CLI::Option* TakeNames(CLI::Option* option, const std::map<std::string, Value>& values) {
  std::string names;
  for (const auto& [name, value] : values) names += (names.empty() ? "" : "|") + name;
  return option->transform(CLI::CheckedTransformer(values).description(""))->type_name(names);
}

/// Prints "lagoon: MESSAGE" to stderr and ends the command with exit status 1.
[[noreturn]] void Die(const std::string& message);

/// Makes the app `name`, lets `add_words` add its subcommands, parses `words` and runs the
/// subcommand that they name. Returns the program's exit status.
int RunProgram(const char* name, const char* description, void (*add_words)(CLI::App&),
               std::span<char*> words);

/// The path of the program `name` in the folder of this program. If there is no such file, dies
/// with a message that says how to make it (`how_to_make`).
std::string ProgramBeside(const std::string& name, const std::string& how_to_make);

/// Replaces this process by `words`: a program, a path or found in PATH, and its words.
[[noreturn]] void Become(std::vector<std::string> words);

/// The path of a file of the checkout, such as "bench/plots/plot.py": below the working folder, or
/// below a folder above this program. Nothing if there is none.
std::optional<std::string> FindScript(const std::string& name);

/// Replaces this process by the Python program `python` that draws the JSON file `file` into the
/// folder `folder` with bench/plots/plot.py (FindScript()).
[[noreturn]] void Draw(const std::string& python, const std::string& file,
                       const std::string& folder);

}  // namespace lagoon
