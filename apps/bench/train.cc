#include "sim/training/train.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "apps/bench/bench_command.h"
#include "apps/command.h"
#include "bench/report/report.h"
#include "learn/weights.h"
#include "sim/training/decisions.h"

namespace lagoon {
namespace {

constexpr char kAbout[] =
    "Train the networks of the placers inss and inss-ni (InSS). Writes three files: the weights to "
    "--out, the learning curve beside them as .csv, and a checkpoint as .checkpoint, from which "
    "--resume goes on";

constexpr char kCurveHead[] =
    "episode,reward,violations,temperature,exam_reward,exam_violations,guess_reward,"
    "guess_violations\n";

struct TrainWords {
  TrainOptions options;
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

// The head and the first `episodes` lines of a curve.
std::string CurveSoFar(const std::string& path, int episodes) {
  std::string curve = kCurveHead;
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

std::string ExaminationOf(const Examination& examined) {
  return fmt::format(",{:.6g},{:.6g},{:.6g},{:.6g}", examined.reward, examined.violations,
                     examined.guessed_reward, examined.guessed_violations);
}

void Keep(const TrainWords& words, const Trainer& trainer, const std::string& curve) {
  std::ostringstream state;
  trainer.Save(state);
  DieOnFailure(learn::WriteFileWhole(words.out, EncodeNetworks(trainer.Networks())));
  DieOnFailure(learn::WriteFileWhole(Beside(words.out, ".csv"), curve));
  DieOnFailure(learn::WriteFileWhole(Beside(words.out, ".checkpoint"), state.str()));
}

void RunTrainPlacement(TrainWords words) {
  words.options.interference = !words.without_interference;
  DieOnFailure(CheckTrainOptions(words.options));
  Trainer trainer(words.options);
  if (words.resume) Resume(Beside(words.out, ".checkpoint"), trainer);
  std::string curve = CurveSoFar(Beside(words.out, ".csv"), trainer.done());
  Keep(words, trainer, curve);  // fails now rather than after the first episodes
  bench::ProgressBar bar("train placement", words.options.episodes - trainer.done());
  Examination examined;
  while (trainer.done() < words.options.episodes) {
    const EpisodeResult result = trainer.RunEpisode();
    curve += LineOf(result);
    const bool last = trainer.done() == words.options.episodes;
    if (trainer.done() % words.examine_every == 0 || last) {
      examined = trainer.Examine();
      curve += ExaminationOf(examined) + "\n";
      Keep(words, trainer, curve);
    } else {
      curve += ",,,,\n";
    }
    bar.Step(
        fmt::format("reward {:.3f}, violations {:.2f} %", result.reward, 100 * result.violations));
  }
  fmt::print(
      "weights: {}\nexamination: reward {:.4f}, violations {:.3f} %; without networks {:.4f}, "
      "{:.3f} %\n",
      words.out, examined.reward, 100 * examined.violations, examined.guessed_reward,
      100 * examined.guessed_violations);
}

void AddTrainPlacement(CLI::App& train) {
  CLI::App* command = train.add_subcommand("placement", kAbout);
  auto words = std::make_shared<TrainWords>();
  TrainOptions& options = words->options;
  command->add_option("--episodes", options.episodes, "Episodes, each of other models")
      ->capture_default_str();
  command->add_option("--steps", options.steps, "Seconds of an episode")->capture_default_str();
  command->add_option("--seed", options.seed, "Seed of all that is random")->capture_default_str();
  command->add_option("--hidden", options.hidden, "Neurons of each hidden layer")
      ->delimiter(',')
      ->expected(1, 4)
      ->capture_default_str();
  command->add_option("--batch", options.batch, "Transitions of an update")->capture_default_str();
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
  command->callback([words] { RunTrainPlacement(*words); });
}

// For the test of the weights that ship (cluster/learned/built_in_weights_test.cc).
struct DecisionWords {
  std::string weights, out;
  bool without_interference = false;
  int count = 50;
};

void RunTrainDecisions(const DecisionWords& words) {
  const Result<std::string> bytes = learn::ReadFileWhole(words.weights);
  if (!bytes) Die(bytes.error().message);
  const Result<PlacementNetworks> networks = DecodeNetworks(words.weights, *bytes);
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
