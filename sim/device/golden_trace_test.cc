// Published schedules, as numbers.

#include <array>
#include <vector>

#include "sim/device/testing/sim_fixture.h"

namespace lagoon::sim_testing {
namespace {

constexpr Nanoseconds kUnit = std::chrono::microseconds(1);

// Paella, Figure 1: four tasks of three kernels each, all submitted at time 0; every kernel takes
// one of two units for one unit of time.
class PaellaFigure1 {
 public:
  static constexpr std::size_t kTasks = 4, kKernels = 3;

  explicit PaellaFigure1(std::int64_t queues) : device_(MakeDevice(queues)), session_(*device_) {
    kernel_ = LoadKernel(*device_, {.time = kUnit});
    for (std::size_t task = 0; task < kTasks; ++task) {
      for (std::size_t i = 0; i < kKernels; ++i) {
        records_[task].push_back(std::make_unique<Record>(1));
        deps_[task][i] = records_[task][i]->AllDone();
      }
    }
  }

  void Submit(std::size_t task, std::size_t kernel, StreamId stream = kUnordered) {
    const Launch launch{.kernel = kernel_,
                        .progress = records_[task][kernel]->get(),
                        .deps = {&deps_[task][kernel == 0 ? 0 : kernel - 1],
                                 kernel == 0 ? std::size_t{0} : std::size_t{1}}};
    last_[task] = session_.Submit(launch, {stream});
  }

  /// Submits one task after the other, each to its own stream.
  void SubmitTasks() {
    for (std::size_t task = 0; task < kTasks; ++task) {
      const StreamId stream = session_.NewStream();
      for (std::size_t i = 0; i < kKernels; ++i) Submit(task, i, stream);
    }
  }

  /// When each task ends.
  std::vector<double> Ends() {
    session_.AwaitAllRetired();
    std::vector<double> ends;
    for (const LaunchId id : last_) ends.push_back(Microseconds(session_.CompleteAt(id)));
    return ends;
  }

  Session& session() { return session_; }
  LaunchId last(std::size_t task) const { return last_[task]; }

 private:
  static std::unique_ptr<SimDevice> MakeDevice(std::int64_t queues) {
    GpuModel gpu = Ideal(2);
    gpu.constants.hardware_queues = queues;
    return Make(gpu);
  }

  std::unique_ptr<SimDevice> device_;
  Session session_;
  KernelHandle kernel_{};
  std::array<std::vector<std::unique_ptr<Record>>, kTasks> records_;
  std::array<std::array<Dep, kKernels>, kTasks> deps_;
  std::array<LaunchId, kTasks> last_{};
};

// One hardware queue: the device looks only at its head. A1 and A2 run alone, as each kernel waits
// for the one before. When A3 is placed at 2, B1 comes to the head and depends on nothing that
// runs: it takes the other unit. So tasks overlap by one kernel: A is done at 3, B at 5, C at 7, D
// at 9.
TEST(SimGoldenTrace, PaellaFigure1OneQueue) {
  PaellaFigure1 figure(1);
  figure.SubmitTasks();
  EXPECT_EQ(figure.Ends(), (std::vector<double>{3, 5, 7, 9}));
}

// One queue per task: the heads take turns in the order in which they became able to run. At 0: A1
// B1. At 1: C1 D1, which waited longer than A2 B2. At 2: A2 B2. At 3: C2 D2. At 4: A3 B3. At 5: C3
// D3.
TEST(SimGoldenTrace, PaellaFigure1AQueuePerTask) {
  PaellaFigure1 figure(32);
  figure.SubmitTasks();
  EXPECT_EQ(figure.Ends(), (std::vector<double>{5, 5, 6, 6}));
}

// Paella holds kernels back: two tasks at a time, and each kernel is submitted when the one before
// has ended. A and B end at 3, C and D at 6.
TEST(SimGoldenTrace, PaellaFigure1SoftwareDispatch) {
  PaellaFigure1 figure(32);
  for (const std::size_t first : {0u, 2u}) {
    for (std::size_t kernel = 0; kernel < PaellaFigure1::kKernels; ++kernel) {
      figure.Submit(first, kernel);
      figure.Submit(first + 1, kernel);
      const LaunchId a = figure.last(first), b = figure.last(first + 1);
      figure.session().PollUntil(
          [&] { return figure.session().Retired(a) && figure.session().Retired(b); });
    }
  }
  EXPECT_EQ(figure.Ends(), (std::vector<double>{3, 3, 6, 6}));
}

// Paella, Figure 2: 22 units of 1024 threads hold 176 blocks of 128 threads. Kernels of one block
// in 32 queues use 32 of these places (18 %) if each queue holds the 8 kernels of a job. Launched
// as they become able to run, they use all 176.
class PaellaFigure2 {
 public:
  static constexpr std::uint32_t kJobs = 176, kKernels = 8;

  PaellaFigure2() : device_(*CreateSimDevice("gtx1660s")), session_(*device_) {
    kernel_ = LoadKernel(
        *device_,
        {.time = std::chrono::microseconds(300), .threads = 128, .registers_per_thread = 9});
    for (std::uint32_t i = 0; i < kJobs * kKernels; ++i) {
      records_.push_back(std::make_unique<Record>(1));
    }
  }
  void Submit(std::uint32_t job, std::uint32_t kernel, StreamId stream) {
    const Launch launch{.kernel = kernel_, .progress = records_[job * kKernels + kernel]->get()};
    session_.Submit(launch, {stream});
  }
  /// Milliseconds for all jobs.
  double Finish() {
    session_.AwaitAllRetired();
    return Microseconds(device_->Now()) / 1000;
  }
  Session& session() { return session_; }

 private:
  std::unique_ptr<SimDevice> device_;
  Session session_;
  KernelHandle kernel_{};
  std::vector<std::unique_ptr<Record>> records_;
};

TEST(SimGoldenTrace, PaellaFigure2FullQueuesUseAFifthOfTheDevice) {
  PaellaFigure2 together;
  for (std::uint32_t job = 0; job < PaellaFigure2::kJobs; ++job) {
    const StreamId stream = together.session().NewStream();
    for (std::uint32_t i = 0; i < PaellaFigure2::kKernels; ++i) together.Submit(job, i, stream);
  }
  // 5.5 jobs per queue, one after the other, 8 kernels of 300 us each. The last kernel of a job
  // runs beside the first of the next, so 7 kernel times per job and one more.
  const double ms = together.Finish();
  EXPECT_GE(ms, (6 * 7 + 1) * 0.3);
  EXPECT_LE(ms, (6 * 7 + 1) * 0.3 * 1.1);

  PaellaFigure2 held;
  for (std::uint32_t i = 0; i < PaellaFigure2::kKernels; ++i) {
    for (std::uint32_t job = 0; job < PaellaFigure2::kJobs; ++job) held.Submit(job, i, kUnordered);
    held.session().AwaitAllRetired();
  }
  // All 176 at once: 8 kernel times, up to 1.3 times as long in full company (the GPU model's
  // assumption), and the host's time for 176 submissions before each.
  const double held_ms = held.Finish();
  EXPECT_GE(held_ms, 8 * 0.3);
  EXPECT_LE(held_ms, 8 * (0.3 * 1.3 + 176 * 0.0039 + 0.01));
  // The paper's gain in goodput is 2.2. Here the host submits nothing while a round runs; Figure 2
  // of the dispatcher, which does, has 2.20 (bench/papers/golden_test.cc).
  EXPECT_GE(ms / held_ms, 1.6);
}

// REEF, Figure 20b: preempting one job with four kernels in the device's queue takes 3 us on the
// host, 31 us for the queue and 3 us for the units. Here: the same, plus 1 us of the model until
// the word is seen.
TEST(SimGoldenTrace, ReefPreemptionIsASumOfSteps) {
  SimDeviceOptions options;
  options.gpu = *LoadGpuModel("mi50");
  options.abort = SimAbort::kKill;
  const auto device = Make(options);
  Session session(*device);
  const KernelHandle kernel = LoadKernel(*device, {.time = std::chrono::microseconds(100)});
  const GuardId guard = session.NewGuard();
  std::vector<std::unique_ptr<Record>> records;
  std::array<Dep, 4> deps;
  for (std::size_t i = 0; i < deps.size(); ++i) {
    records.push_back(std::make_unique<Record>(60));
    Launch launch{.kernel = kernel, .progress = records[i]->get()};
    launch.guards[0] = session.On(guard, 0);
    if (i > 0) {
      deps[i] = records[i - 1]->AllDone();
      launch.deps = {&deps[i], 1};
    }
    session.Submit(launch);
  }
  session.Pass(std::chrono::microseconds(50));
  const TimePoint arrival = device->Now();
  session.Raise(guard, 1);
  Record urgent(60);
  const LaunchId id =
      session.Submit(Launch{.kernel = kernel, .progress = urgent.get()}, {kUnordered, 0});
  session.AwaitRetired(id);
  EXPECT_DOUBLE_EQ(Microseconds(session.PlacedAt(id), arrival), 3 + 1 + 3 + 4 * 7.75);
}

}  // namespace
}  // namespace lagoon::sim_testing
