#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "apps/command.h"
#include "apps/split_words.h"
#include "base/json.h"
#include "graph/cut/cut.h"

namespace lagoon {

namespace fs = std::filesystem;

void FindOnnxCuts(SplitSubject& subject) {
  const Plan& plan = subject.plan();
  if (!plan.opaque.empty()) {
    Die(
        fmt::format("--onnx: model '{}': op '{}' is run by an engine, and Lagoon does not know "
                    "what is inside",
                    plan.model, plan.ops[plan.opaque.front()].name));
  }
  const auto fused = subject.compiler->model().Instantiate(subject.inputs);
  if (!fused) Die(fused.error().message);
  const Graph& graph = fused->graph;
  std::vector<std::string> nodes;
  for (const Node& node : graph.nodes) nodes.push_back(node.name);
  const auto complete = NodesByLastOp(plan, nodes);
  for (std::uint32_t op = 0; op < complete.size(); ++op) {
    if (complete[op].empty()) continue;
    subject.cuttable.push_back(op + 1);
    for (const std::size_t node : complete[op]) {
      for (const ValueId output : graph.nodes[node].outputs) {
        if (output != kNoValue) subject.complete[op + 1].push_back(graph.value(output).name);
      }
    }
  }
  if (subject.cuttable.empty()) {
    Die(fmt::format("--onnx: model '{}': no kernel completes a node of the file", plan.model));
  }
  subject.cuttable.back() = static_cast<std::uint32_t>(plan.ops.size());
}

void WriteSplitOnnx(const SplitWords& words, const SplitSubject& subject,
                    const SplitOutcome& outcome) {
  const std::vector<std::uint32_t>& ends = outcome.tried[outcome.chosen].best().ends;
  std::vector<CutPoint> cuts;
  auto complete = subject.complete.begin();
  for (std::size_t part = 0; part + 1 < ends.size(); ++part) {
    const std::uint32_t last = ends[part] - 1;
    CutPoint& cut = cuts.emplace_back();
    cut.after = fmt::format("kernel {} '{}'", last, outcome.ops[last]);
    for (; complete != subject.complete.end() && complete->first <= ends[part]; ++complete) {
      cut.complete.insert(cut.complete.end(), complete->second.begin(), complete->second.end());
    }
  }
  const OnnxModel& model = subject.compiler->model();
  auto known = model.Import(subject.inputs);
  if (!known) Die(known.error().message);
  const auto files =
      CutOnnx(FindModelFile(words.model), cuts, known->graph, !model.open(), words.onnx);
  if (!files) Die(fmt::format("--onnx: {}", files.error().message));
  nlohmann::json list = nlohmann::json::array();
  for (const PartFile& file : *files) {
    list.push_back({{"file", fs::path(file.path).filename().string()},
                    {"inputs", file.inputs},
                    {"outputs", file.outputs}});
    std::printf("%s: %zu nodes\n", file.path.c_str(), file.nodes);
  }
  const std::string path = (fs::path(words.onnx) / "parts.json").string();
  std::ofstream(path) << DumpJson(nlohmann::json{{"parts", std::move(list)}}, 1) << '\n';
  std::printf(
      "%s: run the files in this order, each with values of the model and of files before\n",
      path.c_str());
}

void WriteSplitReport(const SplitWords& words, const SplitOutcome& outcome) {
  std::string path = words.json;
  if (path.empty() && words.plot.empty()) return;
  if (path.empty()) path = (fs::path(words.plot) / ("split-" + outcome.model + ".json")).string();
  const SearchOptions& search = words.search;
  bench::Report report("split",
                       {{"model", outcome.model},
                        {"parts", words.parts},
                        {"cost", words.cost},
                        {"bubble_us", words.cut.bubble_us},
                        {"bytes_per_us", words.cut.bytes_per_us},
                        {"session_us", words.cut.session_us},
                        {"generations", search.generations},
                        {"seed", search.seed},
                        {"runs", words.runs},
                        {"device", words.device.name}},
                       Build());
  ReportSplit(outcome, report);
  if (words.scan) ReportScan(outcome, report);
  if (const Status written = report.Write(path); !written) Die(written.error().message);
  if (!words.plot.empty()) Draw(words.python, path, words.plot);
}

}  // namespace lagoon
