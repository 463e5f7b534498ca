#include "sim/training/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "bench/report/report.h"
#include "learn/weights.h"
#include "sim/training/decisions.h"
#include "sim/training/examine.h"

namespace lagoon {
namespace {

constexpr char kAbout[] =
    "Train the networks of the placers inss and inss-ni (InSS). Writes the weights that were best "
    "when examined to --out, beside them the learning curve as .csv and a checkpoint as "
    ".checkpoint, from which --resume goes on";

// Of the bands of load in Examination::bands.
constexpr std::array<const char*, kBandsFrom.size()> kBandNames = {"to_1", "1_to_1.4", "from_1.4"};
constexpr const char* kBandColumns[] = {"exam_networks", "exam_global", "exam_local", "exam_guess",
                                        "exam_lagoon"};

struct TrainWords {
  TrainOptions options;
  bool paper = false;
  std::string reward = "goodput", objective = "models";
  std::vector<std::string> rules;  // names
  bool without_interference = false;
  std::string out = "placement.weights";
  bool resume = false;
  int examine_every = 20;  // episodes; also between two checkpoints
};

void DieOnFailure(const Status& status) {
  if (!status) Die(status.error().message);
}

std::string Beside(const std::string& out, const std::string& extension) {
  return std::filesystem::path(out).replace_extension(extension).string();
}

std::string CurveHead() {
  std::string head =
      "episode,reward,violations,temperature,exam_reward,exam_violations,guess_reward,"
      "guess_violations,choice";
  for (const char* band : kBandNames) {
    for (const char* column : kBandColumns) head += fmt::format(",{}_{}", column, band);
  }
  return head + "\n";
}

// The head and the first `episodes` lines of a curve.
std::string CurveSoFar(const std::string& path, int episodes) {
  std::string curve = CurveHead();
  if (episodes == 0) return curve;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  for (int i = 0; i < episodes && std::getline(file, line); ++i) curve += line + "\n";
  return curve;
}

void Resume(const std::string& path, Trainer& trainer) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) Die(fmt::format("--resume: there is no checkpoint '{}'", path));
  if (const Status loaded = trainer.Load(stream); !loaded) {
    Die(fmt::format("--resume: '{}' {}", path, loaded.error().message));
  }
}

std::string LineOf(const EpisodeResult& result) {
  return fmt::format("{},{:.6g},{:.6g},{:.6g}", result.episode, result.reward, result.violations,
                     result.temperature);
}

std::string ExaminationOf(const Examination& examined, double choice) {
  std::string text =
      fmt::format(",{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}", examined.reward, examined.violations,
                  examined.guessed_reward, examined.guessed_violations, choice);
  for (const BandExamination& band : examined.bands) {
    text += fmt::format(",{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}", band.networks, band.global,
                        band.local, band.guess, band.lagoon);
  }
  return text;
}

const std::string& NoExamination() {
  static const std::string commas(5 + kBandNames.size() * std::size(kBandColumns), ',');
  return commas;
}

void PrintExamination(const std::string& weights, const Examination& examined) {
  fmt::print(
      "weights: {}\nexamination: reward {:.4f}, violations {:.3f} %; without networks {:.4f}, "
      "{:.3f} %\n",
      weights, examined.reward, 100 * examined.violations, examined.guessed_reward,
      100 * examined.guessed_violations);
  for (std::size_t i = 0; i < kBandNames.size(); ++i) {
    const BandExamination& band = examined.bands[i];
    fmt::print(
        "load {}: networks {:.3f} %, global alone {:.3f} %, local alone {:.3f} %, guess {:.3f} %, "
        "lagoon {:.3f} %\n",
        kBandNames[i], 100 * band.networks, 100 * band.global, 100 * band.local, 100 * band.guess,
        100 * band.lagoon);
  }
}

Result<PlacementNetworks> NetworksIn(const std::string& path) {
  const Result<std::string> bytes = learn::ReadFileWhole(path);
  if (!bytes) return tl::unexpected(bytes.error());
  return DecodeNetworks(path, *bytes);
}

// The files that a training writes: its best networks so far, its curve, and its checkpoint.
class TrainFiles {
 public:
  TrainFiles(const TrainWords& words, const TrainOptions& options)
      : out_(words.out), chooser_(options, ExaminedFor::kChoice) {}

  // Writes at once, rather than fail after the first episodes.
  void Begin(Trainer& trainer, bool resume) {
    if (resume) Resume(Beside(out_, ".checkpoint"), trainer);
    curve_ = CurveSoFar(Beside(out_, ".csv"), trainer.done());
    if (trainer.done() == 0) {
      DieOnFailure(learn::WriteFileWhole(out_, EncodeNetworks(trainer.Networks())));
    } else {
      best_ = chooser_.Examine(Kept()).OverGuess();
    }
    WriteRest(trainer);
  }

  void Add(const EpisodeResult& result) { curve_ += LineOf(result) + NoExamination() + "\n"; }

  // After an episode with an examination. The weights come first: killed in between, the training
  // comes to the same networks again.
  void Add(const EpisodeResult& result, const Trainer& trainer, const Examination& examined) {
    const PlacementNetworks networks = trainer.Networks();
    const double choice = chooser_.Examine(networks).OverGuess();
    curve_ += LineOf(result) + ExaminationOf(examined, choice) + "\n";
    if (choice < best_) DieOnFailure(learn::WriteFileWhole(out_, EncodeNetworks(networks)));
    best_ = std::min(best_, choice);
    WriteRest(trainer);
  }

  PlacementNetworks Kept() const {
    Result<PlacementNetworks> networks = NetworksIn(out_);
    if (!networks) Die(networks.error().message);
    return std::move(*networks);
  }

 private:
  void WriteRest(const Trainer& trainer) const {
    std::ostringstream state;
    trainer.Save(state);
    DieOnFailure(learn::WriteFileWhole(Beside(out_, ".csv"), curve_));
    DieOnFailure(learn::WriteFileWhole(Beside(out_, ".checkpoint"), state.str()));
  }

  std::string out_, curve_;
  Examiner chooser_;
  double best_ = std::numeric_limits<double>::infinity();  // Examination::OverGuess() of the file
};

// The options of the paper where `command` has none of its own, and the words that name rules.
TrainOptions OptionsOf(const TrainWords& words, const CLI::App& command) {
  TrainOptions options = words.options;
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  if (words.paper) {
    const TrainOptions paper = PaperTraining();
    if (!given("--episodes")) options.episodes = paper.episodes;
    if (!given("--hidden")) options.hidden = paper.hidden;
    if (!given("--batch")) options.batch = paper.batch;
    if (!given("--updates")) options.updates = paper.updates;
    if (!given("--own-reward")) options.own_reward = paper.own_reward;
    options.reward.capacity = paper.reward.capacity;
  }
  if (!words.paper || given("--reward")) options.reward.capacity = words.reward == "capacity";
  options.reward.by_requests = words.objective == "requests";
  options.interference = !words.without_interference;
  for (const std::string& rule : words.rules) {
    if (const Status added = AddRule(rule, options.rules); !added) {
      Die(fmt::format("--rules: {}", added.error().message));
    }
  }
  DieOnFailure(CheckTrainOptions(options));
  return options;
}

void RunTrainPlacement(const TrainWords& words, const TrainOptions& options) {
  Trainer trainer(options);
  TrainFiles files(words, options);
  files.Begin(trainer, words.resume);
  const Examiner examiner(options, ExaminedFor::kJudgement);
  bench::ProgressBar bar("train placement", options.episodes - trainer.done());
  while (trainer.done() < options.episodes) {
    const EpisodeResult result = trainer.RunEpisode();
    const bool last = trainer.done() == options.episodes;
    if (trainer.done() % words.examine_every == 0 || last) {
      files.Add(result, trainer, examiner.Examine(trainer.Networks()));
    } else {
      files.Add(result);
    }
    bar.Step(
        fmt::format("reward {:.3f}, violations {:.2f} %", result.reward, 100 * result.violations));
  }
  PrintExamination(words.out, examiner.Examine(files.Kept()));
}

void AddRewardOptions(CLI::App& command, TrainWords& words) {
  command
      .add_option("--reward", words.reward,
                  "Throughput in the reward: of requests in time, or of full batches")
      ->check(CLI::IsMember({"goodput", "capacity"}))
      ->capture_default_str();
  command.add_option("--objective", words.objective, "Violations count by models or by requests")
      ->check(CLI::IsMember({"models", "requests"}))
      ->capture_default_str();
  command.add_flag("--own-reward", words.options.own_reward,
                   "Globally, a replica's own reward in place of its GPU's change");
}

void AddTrainPlacement(CLI::App& train) {
  CLI::App* command = train.add_subcommand("placement", kAbout);
  auto words = std::make_shared<TrainWords>();
  TrainOptions& options = words->options;
  command->add_flag("--paper", words->paper,
                    "--episodes 1600 --hidden 256,256 --batch 256 --reward capacity --own-reward");
  command->add_option("--episodes", options.episodes, "Episodes, each of other models")
      ->capture_default_str();
  command->add_option("--steps", options.steps, "Seconds of an episode")->capture_default_str();
  command->add_option("--seed", options.seed, "Seed of all that is random")->capture_default_str();
  command->add_option("--hidden", options.hidden, "Neurons of each hidden layer")
      ->delimiter(',')
      ->expected(1, 4)
      ->capture_default_str();
  command->add_option("--batch", options.batch, "Transitions of an update")->capture_default_str();
  command->add_option("--updates", options.updates, "Updates of each network per step")
      ->capture_default_str();
  AddRewardOptions(*command, *words);
  command
      ->add_option("--rules", words->rules,
                   "Rules beyond the paper's: gain, scale, huber, noise, uniform, loads")
      ->delimiter(',');
  command->add_flag("--no-interference", words->without_interference,
                    "For inss-ni: models beside each other do not slow down");
  command->add_option("--out", words->out, "Write the weights here")->capture_default_str();
  command
      ->add_option("--examine-every", words->examine_every,
                   "Episodes between two examinations with checkpoints")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_flag("--resume", words->resume,
                    "Go on from the checkpoint beside --out, with the options of its training");
  command->callback([words, command] { RunTrainPlacement(*words, OptionsOf(*words, *command)); });
}

// For the test of the weights that ship (cluster/learned/built_in_weights_test.cc).
struct DecisionWords {
  std::string weights, out;
  bool without_interference = false;
  int count = 50;
};

void RunTrainDecisions(const DecisionWords& words) {
  const Result<PlacementNetworks> networks = NetworksIn(words.weights);
  if (!networks) Die(networks.error().message);
  DieOnFailure(learn::WriteFileWhole(
      words.out, StableDecisions(*networks, !words.without_interference, words.count)));
}

void AddTrainDecisions(CLI::App& train) {
  CLI::App* command = train.add_subcommand(
      "decisions", "Write what a placer's weights decide on fixed views, for tests to compare");
  auto words = std::make_shared<DecisionWords>();
  command->add_option("WEIGHTS", words->weights, "A file that lagoon train placement wrote")
      ->required();
  command->add_option("--out", words->out, "Write the decisions here")->required();
  command->add_option("--count", words->count, "Number of views")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command->add_flag("--no-interference", words->without_interference,
                    "The weights are those of inss-ni");
  command->callback([words] { RunTrainDecisions(*words); });
}

}  // namespace

void AddTraining(CLI::App& app) {
  CLI::App* train = app.add_subcommand("train", "Train what decides by networks");
  train->require_subcommand(1);
  AddTrainPlacement(*train);
  AddTrainDecisions(*train);
}

}  // namespace lagoon
