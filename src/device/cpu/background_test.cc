// Launches of the background: threads of the idle class run them, and nothing else waits for these
// threads, wherever they are stopped.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/testing/stopper.h"
#include "base/thread.h"
#include "device/conformance/suite.h"
#include "device/cpu/cpu_device.h"
#include "device/host/machine.h"

namespace lagoon {
namespace {

using conformance::CountArgs;
using conformance::CountBody;
using conformance::Record;
using conformance::Session;

// As a dispatcher: takes a lock that callers of the device take, too.
struct LockingListener final : DeviceListener {
  void OnDeviceNews() override {
    MutexLock lock(mutex);
    conformance::Spin(std::chrono::microseconds(20));
  }
  Mutex mutex;
};

// What a body saw of its thread.
struct SeenThread {
  mutable std::atomic<int> policy{-1}, nice{-1};
};

TEST(Background, RunsOnThreadsOfTheIdleClass) {
  if (!ThreadsMayGiveWay()) GTEST_SKIP() << "the system refuses threads of lower priority";
  const SeenThread seen[2];
  const Body body = [](const void* args, std::uint32_t, BlockContext&) {
    static_cast<const SeenThread*>(args)->policy = sched_getscheduler(0);
    static_cast<const SeenThread*>(args)->nice = getpriority(PRIO_PROCESS, 0);
    return true;
  };
  const auto device = *CreateCpuDevice({.workers = 2});
  Session session(*device);
  const KernelHandle kernel = session.Load(body);
  for (const bool background : {false, true}) {
    Record record(1);
    session.AwaitRetired(session.Submit(Launch{.kernel = kernel,
                                               .args = &seen[background ? 1 : 0],
                                               .progress = record.get(),
                                               .background = background}));
  }
  EXPECT_EQ(seen[0].policy, sched_getscheduler(0));
  EXPECT_EQ(seen[0].nice, getpriority(PRIO_PROCESS, 0));
  EXPECT_TRUE(seen[1].policy == SCHED_IDLE || seen[1].nice == 19);
}

TEST(Background, CompetesWhileItHurriesIfTheSystemPermits) {
  if (!ThreadsMayGiveWay()) GTEST_SKIP() << "the system refuses threads of lower priority";
  const Body body = [](const void* args, std::uint32_t, BlockContext&) {
    static_cast<const SeenThread*>(args)->policy = sched_getscheduler(0);
    return true;
  };
  const auto device = *CreateCpuDevice({.workers = 1});
  Session session(*device);
  const KernelHandle kernel = session.Load(body);
  const auto policy = [&] {
    const SeenThread seen;
    Record record(1);
    session.AwaitRetired(session.Submit(
        Launch{.kernel = kernel, .args = &seen, .progress = record.get(), .background = true}));
    return seen.policy.load();
  };
  const int low = policy();
  // Whether this process may raise a thread again.
  std::atomic<pid_t> lowered{0};
  std::atomic<bool> end{false};
  std::jthread other([&] {
    GiveWay(gettid());
    lowered.store(gettid());
    lowered.notify_one();
    end.wait(false);
  });
  lowered.wait(0);
  TakeBack(lowered.load());
  const int raised = sched_getscheduler(lowered.load());
  end.store(true);
  end.notify_one();
  device->HurryBackground(true);
  EXPECT_EQ(policy(), raised);
  device->HurryBackground(false);
  EXPECT_EQ(policy(), low);
}

TEST(Background, TimesSayHowLongOthersHadTheCores) {
  std::int64_t on = 0;
  if (!(std::ifstream("/proc/self/schedstat") >> on) || on == 0) {
    GTEST_SKIP() << "the system does not count how long threads wait for a core";
  }
  const Body body = [](const void*, std::uint32_t, BlockContext&) {
    conformance::Spin(std::chrono::milliseconds(1));
    return true;
  };
  const auto device = *CreateCpuDevice({.workers = 1});
  Session session(*device);
  const KernelHandle kernel = session.Load(body);
  std::atomic<bool> end{false};
  std::vector<std::jthread> others(2 * UsableCores().size());
  for (std::jthread& other : others) {
    other = std::jthread([&] {
      while (!end.load()) {
      }
    });
  }
  while (device->Times().off_core < std::chrono::milliseconds(1)) {  // more threads than cores
    Record record(1);
    session.AwaitRetired(session.Submit(Launch{.kernel = kernel, .progress = record.get()}));
  }
  end.store(true);
}

// A launch of the front that counts the blocks of one in the background, and the reverse, is not in
// the contract but for guards: padding leaves when its real-time kernel ends.
TEST(Background, ALaunchLeavesWhenTheFrontHasDoneSoManyBlocks) {
  const auto device = *CreateCpuDevice({.workers = 1});
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  CountArgs args, never;
  Record front(3), padding(1), missing(1);
  const Dep dep = missing.AllDone();  // so that it waits
  Launch launch{.kernel = count,
                .args = &never,
                .progress = padding.get(),
                .background = true,
                .deps = {&dep, 1}};
  launch.guards[0] = {&front->done_word(), 2};
  const LaunchId id = session.Submit(launch);
  session.AwaitRetired(
      session.Submit(Launch{.kernel = count, .args = &args, .progress = front.get()}));
  session.AwaitRetired(id);
  EXPECT_EQ(never.runs.load(), 0);
}

// The next launch is sent when the worker has told of the last one and looks for work.
TEST(Background, AWorkerThatGoesToSleepHasReadAllLetters) {
  const auto device = *CreateCpuDevice({.workers = 1});
  device->HurryBackground(true);  // other programs do not keep it from running
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  CountArgs args;
  std::array<DeviceEvent, 8> events;
  const TimePoint end = Now() + std::chrono::seconds(5);
  std::uint64_t i = 1;
  for (; i <= 20'000 && Now() < end; ++i) {
    Record record(1);
    ASSERT_EQ(device->Submit(Launch{.id = LaunchId{i},
                                    .kernel = count,
                                    .args = &args,
                                    .progress = record.get(),
                                    .background = true}),
              SubmitResult::kOk);
    const TimePoint begin = Now();
    int sleeps = 0;  // counted, as all of this program may stand still for a while
    for (bool retired = false; !retired;) {
      const std::size_t got = device->Poll(events);
      for (std::size_t k = 0; k < got; ++k) {
        retired = retired || events[k].kind == DeviceEvent::Kind::kRetired;
      }
      if (retired || Now() - begin < std::chrono::microseconds(200)) continue;
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // on one core it needs that
      ASSERT_LT(++sleeps, 100'000) << "launch " << i << " is asleep";
    }
    conformance::Spin(Nanoseconds(i % 64 * 10));
  }
  EXPECT_EQ(args.runs.load(), i - 1);
}

TEST(Background, NothingElseWaitsForAThreadThatIsStoppedAnywhere) {
  const auto device = *CreateCpuDevice({.workers = 2});
  Stopper stopper;
  LockingListener listener;
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  const GuardId guard = session.NewGuard();
  device->SetListener(&listener);
  std::vector<pid_t> threads;  // a thread names itself when it begins
  session.Await([&] { return (threads = ThreadsNamed("lagoon-idle")).size() == 2; });

  constexpr int kRounds = 300;
  CountArgs below, front;
  std::vector<std::unique_ptr<Record>> records;
  std::vector<LaunchId> ids;
  std::mt19937 random(7);
  std::uint32_t epoch = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 3; ++i) {
      MutexLock lock(listener.mutex);
      records.push_back(std::make_unique<Record>(1 + random() % 4));
      Launch launch{
          .kernel = count, .args = &below, .progress = records.back()->get(), .background = true};
      launch.guards[0] = session.On(guard, epoch);
      ids.push_back(session.Submit(launch));
    }
    conformance::Spin(std::chrono::microseconds(random() % 50));
    stopper.Stop(threads[random() % 2]);
    if (round % 50 == 0) {  // larger scratch memory for all threads
      ASSERT_TRUE(device->Load({.name = "large", .body = CountBody},
                               {.scratch_bytes = 4096u << (round / 50)}));
    }
    Record record(2);
    {
      MutexLock lock(listener.mutex);
      if (random() % 4 == 0) session.Raise(guard, ++epoch);
    }
    const LaunchId id =
        session.Submit(Launch{.kernel = count, .args = &front, .progress = record.get()});
    session.AwaitRetired(id);
    stopper.Resume();
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
    if (round % 8 == 0) session.AwaitAllRetired();
  }
  session.AwaitAllRetired();
  device->SetListener(nullptr);
  EXPECT_EQ(front.runs.load(), 2 * kRounds);
  EXPECT_GT(below.runs.load(), 0);
}

}  // namespace
}  // namespace lagoon
