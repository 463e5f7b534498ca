#include "apps/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "apps/version.h"
#include "base/log.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;

// What the exception that is being handled means to a person. The texts of the standard library
// name functions inside it ("cannot create std::vector larger than max_size()").
std::string WordsOfException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return "the memory of this machine ran out";
  } catch (const fs::filesystem_error& error) {
    return fmt::format("'{}': {}", error.path1().string(), error.code().message());
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return "the system starts no more threads: too little memory, or a limit (ulimit -u, -v, -s; "
             "pids.max of the control group)";
    }
    return fmt::format("the system refused a call: {}", error.what());  // may name the call
  } catch (...) {
    return "the command ended by an error inside Lagoon; please report it with the words of the "
           "command";
  }
}

fs::path FolderOfProgram() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) Die("/proc/self/exe cannot be read: " + error.message());
  return self.parent_path();
}

}  // namespace

CLI::Validator NumberBetween(double least, double most) {
  const std::string range = fmt::format("[{} - {}]", least, most);
  const auto check = [least, most, range](const std::string& word) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(word, value) && value >= least && value <= most;
    return fits ? std::string() : fmt::format("Value {} not in range {}", word, range);
  };
  return {check, "FLOAT in " + range};
}

std::string VersionLine() {
  return fmt::format("lagoon {} (commit {}, {})", kVersion, kCommit, NameOf(ActiveCpuLevel()));
}

void Die(const std::string& message) {
  std::fprintf(stderr, "lagoon: %s\n", message.c_str());
  throw CLI::RuntimeError(1);
}

int RunProgram(const char* name, const char* description, void (*add_words)(CLI::App&),
               std::span<char*> words) {
  try {
    SetUpLog();
    CLI::App app(description, name);
    app.require_subcommand(1);
    app.set_help_all_flag("--help-all", "Help of every command");
    app.set_version_flag("--version", VersionLine, "Print version, commit and instruction set");
    add_words(app);
    try {
      // Checked here, before any code chooses a kernel's body by the level.
      const Result<CpuLevel>& level = ProcessCpuLevel();
      if (!level) Die(level.error().message);
      app.parse(static_cast<int>(words.size()), words.data());
    } catch (const CLI::RuntimeError& error) {
      return error.get_exit_code();
    } catch (const CLI::ParseError& error) {
      return app.exit(error);
    }
  } catch (...) {  // from a library: our own errors are Results
    std::fprintf(stderr, "lagoon: %s\n", WordsOfException().c_str());
    return 1;
  }
  return 0;
}

std::string ProgramBeside(const std::string& name, const std::string& how_to_make) {
  std::string path = FolderOfProgram() / name;
  if (!fs::exists(path)) Die("there is no program '" + path + "'; " + how_to_make + " makes it");
  return path;
}

void Become(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(stdout);
  execvp(arguments[0], arguments.data());
  Die(fmt::format("cannot run '{}': {}", words[0], std::generic_category().message(errno)));
}

std::optional<std::string> FindScript(const std::string& name) {
  fs::path script = name;
  for (fs::path above = FolderOfProgram(); !fs::exists(script); above = above.parent_path()) {
    if (above == above.parent_path()) return std::nullopt;
    script = above / name;
  }
  return script.string();
}

void Draw(const std::string& python, const std::string& file, const std::string& folder) {
  const std::string name = "bench/plots/plot.py";
  const std::optional<std::string> script = FindScript(name);
  if (!script) {
    Die(
        fmt::format("--plot: there is no '{}' in this folder or above the program; in a "
                    "checkout, `{} {} {} --out {}` draws the file",
                    name, python, name, file, folder));
  }
  Become({python, *script, file, "--out", folder});
}

}  // namespace lagoon
