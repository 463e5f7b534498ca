// Conformance: many jobs on real threads, revoked at random moments.

#include <array>
#include <random>
#include <vector>

#include "device/conformance/suite.h"

namespace lagoon::conformance {
namespace {

constexpr std::size_t kKernels = 5;
constexpr std::uint32_t kBlocks = 4;

// A job whose kernels go through one buffer, in place: tile = Mix over its own former value. A tile
// that ran twice, or while its predecessor was not done, gives another result.
class InPlaceJob {
 public:
  InPlaceJob() {
    values_.fill(1);
    for (std::size_t k = 0; k < kKernels; ++k) {
      records_.push_back(std::make_unique<Record>(kBlocks));
      // The sum over all tiles would race with the writes in place, so every kernel sums over the
      // buffer before.
      args_[k] = {.x = buffer(k),
                  .x_count = kBlocks,
                  .y = buffer(k + 1),
                  .in_place = true,
                  .checks = 4,
                  .work = std::chrono::microseconds(1)};
      if (k > 0) deps_[k] = records_[k - 1]->AllDone();
    }
  }

  void Submit(Session& session, KernelHandle mix, Guard guard, Place place) {
    for (std::size_t k = 0; k < kKernels; ++k) {
      if ((*records_[k])->Complete()) continue;
      Launch launch{.kernel = mix,
                    .args = &args_[k],
                    .progress = records_[k]->get(),
                    .deps = {&deps_[k], k == 0 ? 0u : 1u}};
      launch.guards[0] = guard;
      launches_.push_back(session.Submit(launch, place));
    }
  }

  bool Complete() { return (*records_.back())->Complete(); }

  bool AllRetired(const Session& session) {
    std::erase_if(launches_, [&](LaunchId id) { return session.Retired(id); });
    return launches_.empty();
  }

  /// Reuses records and buffers for another job.
  void Reset() {
    values_.fill(1);
    for (const auto& record : records_) (*record)->Reset();
  }

  bool ResultIsRight() const {
    std::array<std::uint64_t, kBlocks> x, y;
    x.fill(1);
    for (std::size_t k = 0; k < kKernels; ++k) {
      for (std::uint32_t tile = 0; tile < kBlocks; ++tile) {
        std::uint64_t value = 1;
        for (const std::uint64_t other : x) value = Mix(value, other);
        y[tile] = Mix(value, tile + 1);
      }
      x = y;
    }
    return std::equal(y.begin(), y.end(), values_.begin() + kKernels * kBlocks);
  }

 private:
  std::uint64_t* buffer(std::size_t k) { return values_.data() + k * kBlocks; }

  std::array<std::uint64_t, (kKernels + 1) * kBlocks> values_;
  std::vector<std::unique_ptr<Record>> records_;
  std::array<MixArgs, kKernels> args_;
  std::array<Dep, kKernels> deps_;
  std::vector<LaunchId> launches_;
};

// Seeded choices; the interleaving is the machine's. Relaunches do not wait for old blocks; records
// are reused as soon as all launches that name them have retired.
TEST_P(DeviceConformance, ManyJobsSurviveRandomRevocations) {
  std::array<InPlaceJob, 4> jobs;
  const auto device = Create({.units = 3});
  Session session(*device);
  const KernelHandle mix = session.Load(
      MixBody, {.block = std::chrono::microseconds(5), .check = std::chrono::microseconds(1)});
  const GuardId guard = session.NewGuard();
  const std::array<StreamId, 3> streams{kUnordered, session.NewStream(), session.NewStream()};
  std::mt19937 random(2024);
  std::uint32_t epoch = 0;
  const auto submit = [&](InPlaceJob& job) {
    const Place place{streams[random() % streams.size()], random() % 3};
    job.Submit(session, mix, session.On(guard, epoch), place);
  };
  for (InPlaceJob& job : jobs) submit(job);
  // An emulated block takes long: if it were revoked as often as others, none would ever commit.
  const bool emulated = !device->info().blocks_on_host && !real_gpu;
  const int jobs_to_run = emulated ? 100 : 800;
  const unsigned most_us = emulated ? 1200 : 60;
  const TimePoint until = Now() + Patience();
  for (int finished = 0; finished < jobs_to_run;) {
    ASSERT_LT(Now(), until) << "stuck after " << finished << " jobs, " << epoch << " revocations";
    session.Poll();
    for (InPlaceJob& job : jobs) {
      if (!job.AllRetired(session) || !job.Complete()) continue;
      ASSERT_TRUE(job.ResultIsRight()) << "job " << finished << ", revocation " << epoch;
      ++finished;
      job.Reset();
      submit(job);
    }
    session.Pass(std::chrono::microseconds(random() % most_us));
    if (random() % 2 == 0) {
      session.Raise(guard, ++epoch);
      // Where revoked launches retire later, relaunches would fill the device.
      if (!GetParam().prompt) session.PollUntil([&] { return session.live() < 50; });
      for (InPlaceJob& job : jobs) submit(job);
    }
  }
  session.AwaitAllRetired();
  EXPECT_GT(epoch, emulated ? 20u : 100u);
}

}  // namespace
}  // namespace lagoon::conformance
