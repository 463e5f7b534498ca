#include "bench/in_process/judge.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

Result<Json> AskJudge(LineProcess& process, const Json& command) {
  LAGOON_RETURN_IF_ERROR(process.Send(command));
  return process.Receive();
}

Status JudgeNodes(LineProcess& process, const InProcessOptions& options, Report& report) {
  ProgressBar progress("ONNX's node tests", 1);
  LAGOON_ASSIGN_OR_RETURN(
      const Json reply,
      AskJudge(process,
               {{"cmd", "nodes"}, {"match", options.nodes == "all" ? "" : options.nodes}}));
  if (reply.at("cases").get<int>() == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("no node test has '{}' in its name", options.nodes));
  }
  progress.Step("done");
  report.Metric("plugin_node_tests", reply.at("cases").get<double>());
  report.Metric("plugin_node_tests_whole", reply.at("right_and_whole").get<double>());
  report.Metric("plugin_node_tests_failed", static_cast<double>(reply.at("failed").size()));
  report.Field("plugin_node_tests_that_fail", reply.at("failed"));
  return {};
}

Status JudgeCorpus(LineProcess& process, const InProcessOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const Json listed,
                          AskJudge(process, {{"cmd", "models"}, {"only", options.corpus}}));
  const Json& models = listed.at("models");
  if (models.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("'{0}' has no file of a model '{1}': `./run corpus --make --only "
                            "'{1}'` makes them, --corpus none leaves the corpus out",
                            options.files, options.corpus));
  }
  ProgressBar progress("corpus through the plug-in", static_cast<int>(models.size()));
  std::map<std::string, int> counts = {
      {"right", 0}, {"undecided", 0}, {"wrong", 0}, {"refused", 0}};
  double logarithms = 0;
  int compared = 0;
  Json rows = Json::object();
  for (const Json& model : models) {
    const auto id = model.get<std::string>();
    LAGOON_ASSIGN_OR_RETURN(Json reply, AskJudge(process, {{"cmd", "model"}, {"id", id}}));
    progress.Step(id);
    reply.erase("ok");
    ++counts[reply.at("status").get<std::string>()];
    if (reply.at("ratio").is_number()) {
      const auto ratio = reply.at("ratio").get<double>();
      report.Metric("plugin_corpus_ratio." + id, ratio);
      logarithms += std::log(ratio);
      ++compared;
    }
    rows[id] = std::move(reply);
  }
  if (compared > 0) report.Metric("plugin_corpus_ratio_geomean", std::exp(logarithms / compared));
  report.Metric("plugin_corpus_models", static_cast<double>(models.size()));
  report.Metric("plugin_corpus_models_without_file", listed.at("missing").get<double>());
  for (const auto& [status, count] : counts) report.Metric("plugin_corpus_" + status, count);
  report.Field("plugin_corpus", std::move(rows));
  return {};
}

}  // namespace

Status JudgePlugin(const InProcessOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(
      const std::unique_ptr<LineProcess> process,
      LineProcess::Start("the judge of the plug-in",
                         {options.programs.python, options.judge, "--files", options.files,
                          "--library", options.programs.plugin}));
  if (options.nodes != "none") LAGOON_RETURN_IF_ERROR(JudgeNodes(*process, options, report));
  if (options.corpus != "none") LAGOON_RETURN_IF_ERROR(JudgeCorpus(*process, options, report));
  return {};
}

}  // namespace lagoon::bench
