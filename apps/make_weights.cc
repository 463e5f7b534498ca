#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "apps/command.h"
#include "apps/load.h"
#include "graph/import/random_weights.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;

/// The models' folders in the repository, in the order of their names.
std::vector<fs::path> ModelFolders(const std::string& repository) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(repository, error)) {
    if (entry.is_directory() && entry.path().filename().string().front() != '.')
      folders.push_back(entry.path());
  }
  if (error) Die(fmt::format("cannot read the folder '{}': {}", repository, error.message()));
  if (folders.empty()) Die(fmt::format("no model in '{}'", repository));
  std::sort(folders.begin(), folders.end());
  return folders;
}

void MakeWeights(const std::string& repository) {
  for (const fs::path& folder : ModelFolders(repository)) {
    const std::string model = folder.filename();
    const Result<std::size_t> bytes = MakeRandomWeights(FindModelFile(folder));
    if (!bytes) Die(fmt::format("model '{}': {}", model, bytes.error().message));
    std::printf("%s: %.1f MB\n", model.c_str(), static_cast<double>(*bytes) / 1e6);
  }
}

}  // namespace

void AddMakeWeights(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "make-weights", "Make random weights for models without weights (examples, a package's)");
  auto repository = std::make_shared<std::string>();
  command->add_option("FOLDER", *repository, "Repository of models")->required();
  command->callback([repository] { MakeWeights(*repository); });
}

}  // namespace lagoon
