#pragma once

// What `lagoon split` shares between its sources.

#include <map>
#include <memory>
#include <string>

#include "apps/load.h"
#include "apps/split_result.h"
#include "program/profile/profile_file.h"

namespace lagoon {

struct SplitWords {
  std::string model;
  std::string parts = "auto";
  std::string cost;  // empty: not said
  std::string folder = DefaultProfileFolder();
  std::string json, onnx, plot;
  std::string python = ".venv/bin/python";
  bool save = false, scan = false;
  int runs = 7;
  SearchOptions search;
  CutCost cut;
  DeviceChoice device;
  CompileWords compile;
};

/// What the command has compiled.
struct SplitSubject {
  std::unique_ptr<ModelCompiler> compiler;
  GraphInputs inputs;  // for which `loaded` is
  std::shared_ptr<LoadedPlan> loaded;
  std::string key;  // of its profile
  bool tuned = false;
  /// With --onnx: after which ops the model can be cut, as Plan::part_ends, and by such an op's
  /// end the values of the file that are complete then.
  std::vector<std::uint32_t> cuttable;
  std::map<std::uint32_t, std::vector<std::string>> complete;

  Plan& plan() const { return loaded->plan; }
};

/// Finds where the model's file can be cut. Dies if an engine runs an op, or nowhere.
void FindOnnxCuts(SplitSubject& subject);

/// Writes the chosen parts as ONNX files to --onnx. Dies on failure.
void WriteSplitOnnx(const SplitWords& words, const SplitSubject& subject,
                    const SplitOutcome& outcome);

/// Writes the report to --json, or to a file in --plot; with --plot, this process then becomes the
/// one that draws it. Dies on failure.
void WriteSplitReport(const SplitWords& words, const SplitOutcome& outcome);

}  // namespace lagoon
