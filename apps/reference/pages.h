#pragma once

// docs/reference: pages that are made from the tables of the code and from the options of the
// programs.

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lagoon {

struct Page {
  std::string_view file;  // in the folder of the reference
  std::string text;
};

/// Every command of `program` with its options.
Page CommandPage(const CLI::App& program);
/// The commands of `lagoon bench` and their options, in one table.
Page BenchPage(const CLI::App& program);
/// `lagoon train` and its options.
Page TrainPage(const CLI::App& program);
Page ConfigPage();
Page HttpPage();
Page MetricsPage();

/// Adds `reference --docs DIR`, which --help does not list: writes the pages into the folder.
void AddReference(CLI::App& program, const std::function<std::vector<Page>()>& pages);

}  // namespace lagoon
