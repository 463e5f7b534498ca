#pragma once

// The options of `lagoon bench robot` that `lagoon bench in-process` has too.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/robot/robot.h"

namespace lagoon {

struct RobotModelWords {
  std::string real_time;  // empty: the model of the case
  std::vector<std::string> background = {"lraspp_mobilenet_v3_large", "minilm_sentences"};
  std::string files = "models/corpus/files";
  std::vector<std::string> shapes;
};

/// Adds --realtime, --background, --files and --shape.
void AddRobotModels(CLI::App& command, RobotModelWords& words);

/// Sets the models and shapes of `options`. Its case must be set before. If files are missing,
/// Die() names all of them.
void SetRobotModels(const RobotModelWords& words, bench::RobotOptions& options);

}  // namespace lagoon
