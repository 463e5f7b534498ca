#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "apps/command.h"
#include "apps/split_words.h"
#include "plan/parts.h"
#include "program/profile/part_times.h"
#include "program/split/choose.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;

constexpr char kAbout[] =
    "Cut a model into parts of equal time, between which a scheduler may let another model run\n"
    "\n"
    "The scheduler `split` switches models only between parts, so a short request waits for one\n"
    "part of a long model at most. Good parts take equal times and cost little. The command\n"
    "measures the kernels (or takes the kept profile), searches the best parts with a genetic\n"
    "search (SPLIT, ICPP 2023, 3.3), runs the best candidates and prints why it chose them.\n"
    "\n"
    "  lagoon split models/zoo/resnet50                  show the parts\n"
    "  lagoon split models/zoo/resnet50 --parts 3 --save keep 3 parts for `lagoon serve`\n"
    "  lagoon split models/zoo/resnet50 --onnx DIR       write each part as an ONNX file\n"
    "  lagoon split models/zoo/resnet50 --scan --plot .  draw what every pair of cuts costs\n";

std::uint32_t PartsIn(const std::string& text) {
  if (text == "auto") return kAutoParts;
  std::uint32_t parts = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parts);
  if (error == std::errc() && end == text.data() + text.size() && parts >= 1 &&
      parts <= kMaxPlanParts) {
    return parts;
  }
  Die(fmt::format("--parts is '{}'; it takes auto or a number from 1 to {}", text, kMaxPlanParts));
}

void MakeFolder(const std::string& option, const std::string& folder) {
  if (folder.empty()) return;
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (!failure && access(folder.c_str(), W_OK) != 0) failure.assign(errno, std::generic_category());
  if (failure) Die(fmt::format("{}: cannot write to '{}': {}", option, folder, failure.message()));
}

SplitSubject CompileSubject(const SplitWords& words, const ComputeDevice& on) {
  SplitSubject subject;
  subject.compiler = ReadModel(words.model, on, words.compile);
  CompiledPart part = CompileFirst(*subject.compiler, words.compile, subject.inputs);
  if (part.links.next) {
    Die(
        fmt::format("model '{}': data decide its shapes ({}), so that it runs as several plans, "
                    "which are not cut",
                    part.loaded->plan.model, part.links.next->why.message));
  }
  subject.loaded = std::move(part.loaded);
  return subject;
}

void ProfileSubject(const SplitWords& words, const ComputeDevice& on, SplitSubject& subject) {
  const ProfileStore store{words.folder, Build()};
  subject.key = ProfileKey(subject.plan(), on.device->info(), store.build);
  const ProfileFound found = LoadProfile(store, subject.key, subject.plan());
  subject.tuned = found == ProfileFound::kTuned;
  if (found != ProfileFound::kNone) return;
  const int runs = std::max(words.runs, 1);
  std::fprintf(stderr, "profile %s: %d runs\n", subject.plan().model.c_str(), 2 * runs);
  Status status = ProfilePlan(*subject.loaded, *on.device, runs);
  if (status) status = SaveProfile(store, subject.key, subject.plan(), /*tuned=*/false);
  if (!status) Die(status.error().message);
}

template <typename T>
T OrDie(const Plan& plan, Result<T> result) {
  if (!result) Die(fmt::format("model '{}': {}", plan.model, result.error().message));
  return *std::move(result);
}

/// Ends of parts of joined ops as ends of parts of ops.
void ToOps(const std::vector<std::uint32_t>& joined, std::vector<std::uint32_t>& ends) {
  if (joined.empty()) return;
  for (std::uint32_t& end : ends) end = joined[end - 1];
}

/// Searches one number of parts, or several.
void SearchIn(const SplitModel& model, const SplitWords& words, const Plan& plan,
              SplitOutcome& outcome) {
  const std::uint32_t parts = PartsIn(words.parts);
  if (parts != kAutoParts) {
    SplitResult found = OrDie(plan, SearchParts(model, parts, words.search));
    outcome.tried.emplace_back().parts = parts;
    outcome.tried.back().found = std::move(found);
  } else {
    ChooseOptions options;
    options.search = words.search;
    outcome.tie = options.tie;
    PartsChoice choice = OrDie(plan, ChooseParts(model, options));
    outcome.chosen = choice.chosen;
    for (std::size_t i = 0; i < choice.parts.size(); ++i) {
      outcome.tried.emplace_back().parts = choice.parts[i];
      outcome.tried.back().found = std::move(choice.results[i]);
    }
  }
  for (PartsTried& tried : outcome.tried) {
    tried.optimal = OrDie(plan, OptimalParts(model, tried.parts));
  }
}

SplitOutcome Search(const SplitWords& words, const SplitSubject& subject) {
  const Plan& plan = subject.plan();
  const std::vector<std::uint32_t>& joined = subject.cuttable;
  SplitOutcome outcome;
  outcome.model = plan.model;
  outcome.costs = SplitModelOf(plan, words.cut);
  outcome.whole_us = PartCosts(outcome.costs).whole_us();
  outcome.runs = words.runs;
  for (const PlanOp& op : plan.ops) outcome.ops.push_back(op.name);
  SearchIn(joined.empty() ? outcome.costs : JoinOps(outcome.costs, joined), words, plan, outcome);
  for (PartsTried& tried : outcome.tried) {
    for (SplitCandidate& candidate : tried.found.best) ToOps(joined, candidate.ends);
    ToOps(joined, tried.optimal.candidate.ends);
  }
  return outcome;
}

/// Runs the best candidates, and keeps the one of each number of parts that is best as measured.
void Measure(const SplitSubject& subject, Device& device, SplitOutcome& outcome) {
  std::vector<std::vector<std::uint32_t>> candidates = {{outcome.costs.ops()}};
  for (const PartsTried& tried : outcome.tried) {
    for (const SplitCandidate& candidate : tried.found.best) candidates.push_back(candidate.ends);
  }
  std::optional<bench::ProgressBar> bar;
  const auto times =
      MeasureParts(*subject.loaded, device, candidates, outcome.runs, [&](int turn, int of) {
        if (turn == 0) bar.emplace("split " + outcome.model, of);
        bar->Step("candidates");
      });
  bar.reset();
  if (!times) Die(times.error().message);
  auto next = times->begin();
  const Nanoseconds whole = next++->whole;
  for (PartsTried& tried : outcome.tried) {
    for (std::size_t i = 0; i < tried.found.best.size(); ++i, ++next) {
      tried.measured.push_back(MeasuredShape(*next, whole));
      if (i > 0 && tried.measured[i].fitness <= tried.measured[tried.kept].fitness) continue;
      tried.kept = i;
      Nanoseconds bubbles = next->whole;
      for (const Nanoseconds part : next->parts) bubbles -= part;
      tried.bubble_us = ToMicroseconds(bubbles) / std::max(tried.parts - 1.0, 1.0);
    }
  }
}

void Save(const SplitWords& words, const SplitSubject& subject, const SplitOutcome& outcome) {
  const PartsTried& chosen = outcome.tried[outcome.chosen];
  subject.plan().part_ends = chosen.parts == 1 ? std::vector<std::uint32_t>() : chosen.best().ends;
  if (words.folder.empty()) Die("--save: --profiles names no folder to keep the parts in");
  const ProfileStore store{words.folder, Build()};
  const Status saved = SaveProfile(store, subject.key, subject.plan(), subject.tuned);
  if (!saved) Die(saved.error().message);
  std::printf("\nkept with the profile in %s: `lagoon serve` uses these parts\n",
              words.folder.c_str());
}

void RunSplit(SplitWords words) {
  PartsIn(words.parts);
  words.compile.many_shapes = true;  // as `lagoon serve` compiles it: the key of a profile says so
  if (words.scan && words.json.empty() && words.plot.empty()) {
    Die("--scan: say where to with --json FILE or --plot DIR");
  }
  if (!words.plot.empty() && !words.scan) Die("--plot draws what --scan finds: add --scan");
  MakeFolder("--onnx", words.onnx);
  MakeFolder("--plot", words.plot);
  if (words.cost.empty()) words.cost = words.onnx.empty() && !words.scan ? "plan" : "onnx";
  words.cut.mode = words.cost == "plan" ? CutMode::kPlan : CutMode::kOnnx;
  if (words.save && words.cut.mode != CutMode::kPlan) {
    Die("--save keeps parts for `lagoon serve`, where a cut costs what --cost plan says");
  }
  const ComputeDevice on = Open(words.device);
  SplitSubject subject = CompileSubject(words, on);
  ProfileSubject(words, on, subject);
  if (!words.onnx.empty()) FindOnnxCuts(subject);
  SplitOutcome outcome = Search(words, subject);
  if (words.cut.mode == CutMode::kPlan && words.runs > 0) Measure(subject, *on.device, outcome);
  PrintSplit(outcome);
  if (words.save) Save(words, subject, outcome);
  if (!words.onnx.empty()) WriteSplitOnnx(words, subject, outcome);
  WriteSplitReport(words, outcome);
}

void AddCosts(CLI::App& command, SplitWords& words) {
  command
      .add_option("--cost", words.cost,
                  "What a cut costs. plan: a bubble, as activations stay in memory; onnx: each "
                  "part is an ONNX model, called with copies (default: plan; onnx with --onnx or "
                  "--scan)")
      ->check(CLI::IsMember({"plan", "onnx"}));
  command.add_option("--bubble-us", words.cut.bubble_us, "Time of a bubble, with --cost plan")
      ->check(NumberBetween(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--bandwidth", words.cut.bytes_per_us,
                  "MB/s of the copies, with --cost onnx (measured with ONNX Runtime)")
      ->check(NumberBetween(1e-3, 1e9))
      ->capture_default_str();
  command
      .add_option("--session-us", words.cut.session_us,
                  "Time of a call, with --cost onnx (measured with ONNX Runtime)")
      ->check(NumberBetween(0.0, 1e9))
      ->capture_default_str();
}

void AddResults(CLI::App& command, SplitWords& words) {
  command.add_flag("--save", words.save, "Keep the parts with the profile, for `lagoon serve`");
  command.add_option("--profiles", words.folder, "Folder of the profiles")->capture_default_str();
  command.add_option("--onnx", words.onnx,
                     "Write the parts as ONNX files to this folder, for other engines");
  command.add_option("--json", words.json, "Write the numbers here");
  command.add_flag("--scan", words.scan,
                   "Overhead and deviation for all positions of two cuts, into --json or --plot");
  command.add_option("--plot", words.plot, "Draw the scan as a picture in this folder");
  command.add_option("--python", words.python, "Python that draws")->capture_default_str();
}

}  // namespace

void AddSplit(CLI::App& app) {
  CLI::App* command = app.add_subcommand("split", kAbout);
  auto words = std::make_shared<SplitWords>();
  command->add_option("MODEL", words->model, "An .onnx file or a model's folder in a repository")
      ->required();
  command
      ->add_option("--parts", words->parts,
                   fmt::format("Number of parts, 1 to {}; auto: the best of 2 to 4", kMaxPlanParts))
      ->capture_default_str();
  command->add_option("--generations", words->search.generations, "Generations of the search")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", words->search.seed, "Seed of the search")->capture_default_str();
  command
      ->add_option("--runs", words->runs,
                   "Runs of each of the best candidates, and of the model where there is no "
                   "profile; medians count. 0: candidates do not run")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  AddCosts(*command, *words);
  AddResults(*command, *words);
  AddShapes(*command, words->compile);
  AddEngine(*command, words->compile.engine);
  AddPrecision(*command, words->compile.precision);
  AddDevice(*command, words->device);
  command->callback([words] { RunSplit(*words); });
}

}  // namespace lagoon
