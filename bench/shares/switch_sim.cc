#include <fmt/format.h>

#include <memory>
#include <random>

#include "bench/shares/share_recorder.h"
#include "bench/shares/sim_rows.h"
#include "bench/shares/switch.h"
#include "bench/sim/sim_stage.h"

namespace lagoon::bench {
namespace {

constexpr std::size_t kInFlight = 2;  // requests of a model

struct Loop final : JobClient {
  void Finished(const JobResult& result) override {
    done += result.outcome == Outcome::kDone ? 1 : 0;
    ++free;
  }
  QueueId queue{};
  std::uint64_t posted = 0, done = 0;
  std::size_t free = kInFlight;  // posted by Post(): posting in Finished() would recurse
};

// One thread, in virtual time.
class SimSwitch {
 public:
  SimSwitch(SimStage& stage, const SwitchOptions& options, const SwitchKind& kind)
      : stage_(stage), options_(options), kind_(kind), random_(options.seed) {
    for (std::size_t i = 0; i < loops_.size(); ++i) loops_[i].queue = *stage.queues()[i];
  }

  Status Run() {
    constexpr Nanoseconds kSettle = std::chrono::milliseconds(50);
    RunUntil(stage_.device().Now() + kSettle);
    for (int turn = 1; 2 * turn <= options_.moves + 1; ++turn) {
      const auto& place = kind_.places[static_cast<std::size_t>(turn) % 2];
      const QueueMove moves[] = {{loops_[0].queue, place[0]}, {loops_[1].queue, place[1]}};
      LAGOON_RETURN_IF_ERROR(stage_.dispatcher().MoveShares(moves));
      // Moves come at every moment of a kernel: 2 to 4 ms apart.
      RunUntil(stage_.device().Now() + std::chrono::microseconds(2000 + random_() % 2000));
    }
    posting_ = false;
    while (loops_[0].free + loops_[1].free < 2 * kInFlight) stage_.device().Wait(kNoDeadline);
    return {};
  }
  std::uint64_t posted() const { return loops_[0].posted + loops_[1].posted; }
  std::uint64_t done() const { return loops_[0].done + loops_[1].done; }

 private:
  void RunUntil(TimePoint until) {
    while (stage_.device().Now() < until) {
      for (Loop& loop : loops_) {
        while (posting_ && loop.free > 0) {
          --loop.free;
          ++loop.posted;
          LAGOON_CHECK(
              stage_.dispatcher().Post({loop.queue, kNoDeadline, {}, {}, &loop}).has_value());
        }
      }
      stage_.device().Wait(until);
    }
  }

  SimStage& stage_;
  const SwitchOptions& options_;
  const SwitchKind& kind_;
  std::mt19937 random_;
  std::array<Loop, 2> loops_;
  bool posting_ = true;
};

}  // namespace

Result<SwitchRun> RunSimSwitch(const SwitchOptions& options, const SwitchKind& kind) {
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(options.gpu));
  std::vector<SimModel> models;
  for (const std::string& name : options.gpu_models) {
    LAGOON_ASSIGN_OR_RETURN(models.emplace_back(), MakeSimModel(gpu.name, name));
  }
  if (models.size() != 2) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} models on '{}', must be two", models.size(), gpu.name));
  }
  std::vector<SimStageQueue> queues;
  for (std::size_t i = 0; i < 2; ++i) {
    queues.push_back(
        {options.gpu_models[i], JobClass::kBestEffort, &models[i], kInFlight, kind.places[0][i]});
  }
  LAGOON_ASSIGN_OR_RETURN(Scheduler shares, MakeScheduler("shares"));
  ShareRecorder* recorder = nullptr;
  const auto wrap = [&](Device& device) -> std::unique_ptr<Device> {
    auto made = std::make_unique<ShareRecorder>(device);
    recorder = made.get();
    return made;
  };
  LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                          SimStage::Open({.gpu = gpu}, std::move(shares), queues, wrap));
  SimSwitch loops(stage, options, kind);
  LAGOON_RETURN_IF_ERROR(loops.Run());
  if (recorder->dropped() > 0) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} blocks did not fit the record; ask for fewer --moves",
                            recorder->dropped()));
  }
  SwitchRun run;
  run.times = TimesOfSwitches(recorder->Blocks(), recorder->moves());
  run.jobs = loops.posted();
  run.lost = loops.posted() - loops.done();
  run.evictions = stage.dispatcher().Stats().share_evictions;
  return run;
}

}  // namespace lagoon::bench
