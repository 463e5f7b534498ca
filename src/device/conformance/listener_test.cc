// Conformance: which listener is called when there is news, and until when.

#include <array>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/conformance/suite.h"

namespace lagoon::conformance {
namespace {

TEST_P(DeviceConformance, TheListenerHearsOfCompletionAndMayUseTheQueue) {
  struct Chain : DeviceListener {
    void OnDeviceNews() override {
      // The thread that brings news polls, as the dispatcher does; one at a time.
      const std::lock_guard<std::mutex> lock(mutex);
      std::array<DeviceEvent, 8> events;
      while (const std::size_t count = device->Poll(events)) {
        for (std::size_t i = 0; i < count; ++i) {
          if (events[i].kind != DeviceEvent::Kind::kRetired) continue;
          if (++retired < records.size()) SubmitNext();
        }
      }
    }
    void SubmitNext() {
      const Launch launch{.kernel = kernel, .args = &args, .progress = records[retired]->get()};
      EXPECT_EQ(device->Submit(launch.As(LaunchId{retired + 1})), SubmitResult::kOk);
    }
    Device* device = nullptr;
    KernelHandle kernel{};
    CountArgs args;
    std::vector<std::unique_ptr<Record>> records;
    std::mutex mutex;
    std::atomic<std::size_t> retired{0};
  };
  Chain chain;
  const auto device = Create();
  chain.device = device.get();
  chain.kernel = Session(*device).Load(CountBody);
  for (int i = 0; i < 500; ++i) chain.records.push_back(std::make_unique<Record>(3));
  device->SetListener(&chain);
  {
    const std::lock_guard<std::mutex> lock(chain.mutex);
    chain.SubmitNext();
  }
  Await(*device, [&] { return chain.retired.load() == chain.records.size(); });
  EXPECT_EQ(chain.args.runs.load(), 1500);
}

/// Its first call waits for a gate.
struct GateListener : DeviceListener {
  void OnDeviceNews() override {
    calls.fetch_add(1);
    while (!open.load()) std::this_thread::yield();
    returned.fetch_add(1);
  }
  std::atomic<int> calls{0}, returned{0};
  std::atomic<bool> open{false};
};

/// Time for a wrong device to do what it must not do. A right device never needs it.
constexpr Nanoseconds kChance = std::chrono::milliseconds(10);

// Makes news come. In virtual time news comes only inside Wait(), which runs on its own thread
// here.
std::jthread Drive(Device& device, const std::atomic<int>& until_called) {
  if (!device.info().virtual_time) return {};
  return std::jthread([&] {
    while (until_called.load() == 0) device.Wait(device.Now() + std::chrono::microseconds(10));
  });
}

TEST_P(DeviceConformance, AListenerIsClearedOnlyWhenItsLastCallHasReturned) {
  const auto device = Create();
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  CountArgs args;
  GateListener listener;
  device->SetListener(&listener);
  Record record(2);
  const LaunchId first =
      session.Submit(Launch{.kernel = count, .args = &args, .progress = record.get()});
  const std::jthread driver = Drive(*device, listener.calls);
  while (listener.calls.load() == 0) std::this_thread::yield();

  std::atomic<bool> cleared{false};
  std::jthread clearing([&] {
    device->SetListener(nullptr);
    EXPECT_EQ(listener.calls.load(), listener.returned.load());
    cleared.store(true);
  });
  const TimePoint until = Now() + kChance;
  while (!cleared.load() && Now() < until) std::this_thread::yield();
  EXPECT_FALSE(cleared.load()) << "SetListener(nullptr) returned during a call";
  listener.open.store(true);
  clearing.join();
  const int calls = listener.calls.load();

  session.AwaitRetired(first);
  for (int i = 0; i < 5; ++i) {
    Record more(2);
    session.AwaitRetired(
        session.Submit(Launch{.kernel = count, .args = &args, .progress = more.get()}));
  }
  EXPECT_EQ(listener.calls.load(), calls) << "a call after SetListener(nullptr)";
}

TEST_P(DeviceConformance, NoCallBeginsAfterAListenerWasClearedWhileNewsCome) {
  struct Listener : DeviceListener {
    void OnDeviceNews() override {
      late.fetch_add(cleared.load() ? 1 : 0);
      std::this_thread::yield();
      late.fetch_add(cleared.load() ? 1 : 0);
    }
    std::atomic<bool> cleared{false};
    std::atomic<int> late{0};
  };
  const auto device = Create();
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  CountArgs args;
  const int rounds = device->info().blocks_on_host ? 500 : 50;  // an emulated block takes long
  std::vector<Listener> listeners(static_cast<std::size_t>(rounds));
  for (Listener& listener : listeners) {
    device->SetListener(&listener);
    Record record(1);
    const LaunchId id =
        session.Submit(Launch{.kernel = count, .args = &args, .progress = record.get()});
    session.AwaitRetired(id);  // the listener may be about to be called for this, too
    device->SetListener(nullptr);
    listener.cleared.store(true);
  }
  for (const Listener& listener : listeners) EXPECT_EQ(listener.late.load(), 0);
}

TEST_P(DeviceConformance, AListenerMayClearItself) {
  struct Once : DeviceListener {
    void OnDeviceNews() override {
      device->SetListener(nullptr);
      calls.fetch_add(1);
    }
    Device* device = nullptr;
    std::atomic<int> calls{0};
  };
  const auto device = Create({.units = 1});
  Session session(*device);
  const KernelHandle count = session.Load(CountBody);
  CountArgs args;
  Once listener;
  listener.device = device.get();
  device->SetListener(&listener);
  std::vector<std::unique_ptr<Record>> records;
  const auto submit = [&] {
    records.push_back(std::make_unique<Record>(1));
    return session.Submit(
        Launch{.kernel = count, .args = &args, .progress = records.back()->get()});
  };
  submit();
  // Do not poll here: polled events are no news.
  ASSERT_TRUE(session.Await([&] { return listener.calls.load() != 0; }));
  for (int i = 0; i < 5; ++i) session.AwaitRetired(submit());
  device->SetListener(nullptr);
  EXPECT_EQ(listener.calls.load(), 1);
}

}  // namespace
}  // namespace lagoon::conformance
