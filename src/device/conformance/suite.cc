#include "device/conformance/suite.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

namespace lagoon::conformance {
std::chrono::seconds Patience() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no test changes the environment.
  const char* seconds = std::getenv("LAGOON_TEST_PATIENCE_SECONDS");
  return std::chrono::seconds(seconds == nullptr ? 60 : std::atoi(seconds));
}

void Spin(Nanoseconds work) {
  const TimePoint until = Now() + work;
  while (Now() < until) {
  }
}

bool Await(Device& device, const std::function<bool()>& condition) {
  constexpr Nanoseconds kStep = std::chrono::microseconds(1);
  const bool virtual_time = device.info().virtual_time;
  const TimePoint until = Now() + Patience();
  while (!condition()) {
    if (Now() > until) {
      ADD_FAILURE() << "waited too long in vain";
      return false;
    }
    if (virtual_time) {
      device.Wait(device.Now() + kStep);
    } else {
      std::this_thread::yield();
    }
  }
  return true;
}

void Session::Pass(Nanoseconds time) {
  if (!virtual_time()) return Spin(time);
  const TimePoint until = device_.Now() + time;
  while (device_.Now() < until) device_.Wait(until);
}

KernelHandle Session::Load(Body body, const Cost& cost) {
  // Without checks the whole block is one stretch.
  const Nanoseconds check = cost.check > Nanoseconds(0) ? cost.check : cost.block;
  const KernelSpec spec{cost.scratch_bytes, {.time = cost.block, .check_interval = check}};
  const Result<KernelHandle> kernel =
      device_.Load({"test", body, cuda_form == nullptr ? nullptr : cuda_form(body)}, spec);
  EXPECT_TRUE(kernel.has_value());
  return kernel.value_or(KernelHandle{});
}

GuardId Session::NewGuard() {
  const Result<GuardId> guard = device_.CreateGuard();
  EXPECT_TRUE(guard.has_value());
  return guard.value_or(GuardId{});
}

StreamId Session::NewStream() {
  const Result<StreamId> stream = device_.CreateStream({"test"});
  EXPECT_TRUE(stream.has_value());
  return stream.value_or(kUnordered);
}

Guard Session::On(GuardId guard, std::uint32_t limit, bool only_before_start) const {
  return {device_.GuardWord(guard), limit, only_before_start};
}

LaunchId Session::Submit(const Launch& launch, Place place) {
  const LaunchId id{next_id_++};
  launches_[id] = {};
  ++live_;
  EXPECT_EQ(device_.Submit(launch.As(id, place.stream, place.rank)), SubmitResult::kOk);
  return id;
}

LaunchId Session::Transfer(Copy copy) {
  copy.id = LaunchId{next_id_++};
  launches_[copy.id] = {};
  ++live_;
  EXPECT_EQ(device_.Transfer(copy), SubmitResult::kOk);
  return copy.id;
}

SubmitResult Session::TrySubmit(const Launch& launch, LaunchId& id) {
  id = LaunchId{next_id_};
  const SubmitResult result = device_.Submit(launch.As(id));
  if (result == SubmitResult::kOk) {
    ++next_id_;
    launches_[id] = {};
    ++live_;
  }
  return result;
}

void Session::Raise(GuardId guard, std::uint32_t value) {
  EXPECT_EQ(device_.Raise(guard, value), SubmitResult::kOk);
}

void Session::RaiseAndAwait(GuardId guard, std::uint32_t value) {
  Raise(guard, value);
  if (await_guards != nullptr) await_guards();
}

void Session::Poll() {
  std::array<DeviceEvent, 16> events;
  while (const std::size_t count = device_.Poll(events)) {
    for (const DeviceEvent& event : std::span(events).first(count)) Take(event);
  }
}

void Session::Take(const DeviceEvent& event) {
  const auto found = launches_.find(event.launch);
  ASSERT_NE(found, launches_.end()) << "an event of a launch that was never made";
  Seen& seen = found->second;
  EXPECT_FALSE(seen.retired) << "an event after kRetired";
  switch (event.kind) {
    case DeviceEvent::Kind::kPlaced:
      EXPECT_FALSE(seen.placed.has_value()) << "placed twice";
      seen.placed = event.at;
      break;
    case DeviceEvent::Kind::kProgress:
      EXPECT_TRUE(seen.placed.has_value()) << "progress before placed";
      EXPECT_FALSE(seen.complete.has_value()) << "progress after complete";
      EXPECT_GE(event.placed, event.done) << "done before they began";
      if (!seen.progress.empty()) {
        EXPECT_GE(event.placed, seen.progress.back().first) << "fewer than before";
        EXPECT_GE(event.done, seen.progress.back().second) << "fewer than before";
      }
      seen.progress.emplace_back(event.placed, event.done);
      break;
    case DeviceEvent::Kind::kComplete:
      EXPECT_FALSE(seen.complete.has_value()) << "complete twice";
      seen.complete = event.at;
      ASSERT_TRUE(seen.placed.has_value()) << "complete before placed";
      EXPECT_LE(*seen.placed, event.at);
      break;
    case DeviceEvent::Kind::kRetired:
      seen.retired = true;
      seen.stolen = event.stolen;
      --live_;
      break;
    case DeviceEvent::Kind::kLost:
      ADD_FAILURE() << "the device was lost";
      break;
  }
}

bool Session::PollUntil(const std::function<bool()>& done) {
  const TimePoint until = Now() + Patience();
  for (Poll(); !done(); Poll()) {
    if (Now() > until) {
      ADD_FAILURE() << "waited too long in vain, with " << live_ << " launches in flight";
      return false;
    }
    device_.Wait(device_.Now() + std::chrono::milliseconds(1));
  }
  return true;
}

void Session::AwaitRetired(LaunchId id) {
  PollUntil([&] { return Retired(id); });
}

void Session::AwaitAllRetired() {
  PollUntil([&] { return live_ == 0; });
}

bool DeviceConformance::RetiredAtOnce(Session& session, LaunchId launch) {
  session.Poll();
  if (!GetParam().prompt) session.AwaitRetired(launch);
  return session.Retired(launch);
}

std::unique_ptr<Device> DeviceConformance::Create(const Needs& needs) {
  Result<std::unique_ptr<Device>> device = GetParam().create(needs);
  if (!device) {
    ADD_FAILURE() << device.error().message;
    std::abort();
  }
  return *std::move(device);
}

bool CountBody(const void* args, std::uint32_t, BlockContext&) {
  const auto& count = *static_cast<const CountArgs*>(args);
  const int inside = count.inside.fetch_add(1) + 1;
  int most = count.most_inside.load();
  while (inside > most && !count.most_inside.compare_exchange_weak(most, inside)) {
  }
  Spin(count.work);
  count.inside.fetch_sub(1);
  count.runs.fetch_add(1);
  return true;
}

bool GateBody(const void* args, std::uint32_t, BlockContext&) {
  const auto& gate = *static_cast<const GateArgs*>(args);
  gate.waiting.fetch_add(1);
  while (!gate.open.load()) std::this_thread::yield();
  return true;
}

bool LogBody(const void* args, std::uint32_t, BlockContext&) {
  const auto& log = *static_cast<const LogArgs*>(args);
  log.list[log.next->fetch_add(1)] = log.name;
  return true;
}

std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2);
  return a * 0xff51afd7ed558ccd;
}

namespace {

std::uint64_t MixOf(const MixArgs& mix, std::uint32_t block) {
  std::uint64_t value = mix.in_place ? mix.y[block] : block;
  for (std::uint32_t i = 0; i < mix.x_count; ++i) value = Mix(value, mix.x[i]);
  return Mix(value, block + 1);
}

}  // namespace

bool MixBody(const void* args, std::uint32_t block, BlockContext& ctx) {
  const auto& mix = *static_cast<const MixArgs*>(args);
  const std::uint64_t value = MixOf(mix, block);
  for (int i = 0; i < mix.checks; ++i) {
    if (mix.check_count != nullptr && mix.check_count->fetch_add(1) + 1 == mix.stop_at) {
      mix.stopped->store(true);
      while (!mix.resume->load()) std::this_thread::yield();
    }
    if (ctx.ShouldLeave()) {
      if (mix.left != nullptr) mix.left->fetch_add(1);
      return false;
    }
    Spin(mix.work);
  }
  mix.y[block] = value;
  return true;
}

void WriteMix(const MixArgs& mix, std::uint32_t block) { mix.y[block] = MixOf(mix, block); }

}  // namespace lagoon::conformance
