#include "serving/fleet/placement_keeper.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <latch>
#include <stdexcept>
#include <string>

namespace lagoon {
namespace {

using std::chrono::milliseconds;

/// A placer that does what a test says.
class ScriptedPlacer final : public Placer {
 public:
  using Script = std::function<Assignment(const PlacementView& view)>;
  explicit ScriptedPlacer(Script script, bool decides_shares = true)
      : script_(std::move(script)), decides_shares_(decides_shares) {}
  std::string_view name() const override { return "scripted"; }
  bool DecidesShares() const override { return decides_shares_; }
  Assignment Place(const PlacementView& view) override { return script_(view); }

 private:
  const Script script_;
  const bool decides_shares_;
};

LatencyModel OneMillisecond() {
  return {*Surface::FromFormula({.row_ms = 1, .fixed = 0}), LoadLine(), LoadLine(),
          SlowdownTerms()};
}

/// One model of 60 bytes on two GPUs of 100.
PlacementView SmallView(const LatencyModel& latency) {
  PlacementView view;
  ModelView model;
  model.name = "m";
  model.slo = milliseconds(50);
  model.latency = &latency;
  model.memory_bytes = 60;
  view.models = {model};
  view.gpus = {{100, 100}, {100, 100}};
  view.current.replicas = {{0, 0, 1, 1, 1}};
  return view;
}

TEST(PlacerRunner, ReturnsWhatThePlacerDecides) {
  const LatencyModel latency = OneMillisecond();
  PlacerRunner runner(
      std::make_unique<ScriptedPlacer>([](const PlacementView& view) { return view.current; }));
  for (int i = 0; i < 3; ++i) {
    const auto placed = runner.Place(SmallView(latency), std::chrono::minutes(1));
    ASSERT_TRUE(placed);
    EXPECT_EQ(*placed, SmallView(latency).current);
  }
}

TEST(PlacerRunner, AnExceptionIsAnErrorWithItsText) {
  const LatencyModel latency = OneMillisecond();
  PlacerRunner runner(std::make_unique<ScriptedPlacer>(
      [](const PlacementView&) -> Assignment { throw std::runtime_error("no idea"); }));
  for (int i = 0; i < 2; ++i) {
    const auto placed = runner.Place(SmallView(latency), std::chrono::minutes(1));
    ASSERT_FALSE(placed);
    EXPECT_EQ(placed.error().code, ErrorCode::kInternal);
    EXPECT_NE(placed.error().message.find("no idea"), std::string::npos);
  }
}

TEST(PlacerRunner, ADecisionThatOverrunsIsDropped) {
  const LatencyModel latency = OneMillisecond();
  std::latch go_on(1), returned(1);
  PlacerRunner runner(std::make_unique<ScriptedPlacer>([&](const PlacementView& view) {
    go_on.wait();  // later calls pass
    returned.count_down(returned.try_wait() ? 0 : 1);
    return view.current;
  }));
  const auto late = runner.Place(SmallView(latency), milliseconds(1));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kDeadlineExceeded);
  const auto busy = runner.Place(SmallView(latency), milliseconds(1));
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, ErrorCode::kUnavailable);
  go_on.count_down();
  returned.wait();
  PlacementView other = SmallView(latency);
  other.current.replicas[0].gpu = 1;
  Result<Assignment> placed = runner.Place(other, std::chrono::minutes(1));
  while (!placed) {  // the dropped call is about to end
    EXPECT_EQ(placed.error().code, ErrorCode::kUnavailable);
    placed = runner.Place(other, std::chrono::minutes(1));
  }
  EXPECT_EQ(placed->replicas[0].gpu, 1u) << "the result of the new view, not of the dropped one";
}

/// Counts decisions, and remembers what was applied.
class FakeHost final : public PlacementHost {
 public:
  PlacementView View(TimePoint) override {
    const MutexLock lock(mutex_);
    ++views_;
    changed_.NotifyAll();
    PlacementView view = SmallView(latency_);
    view.current = current_;
    return view;
  }
  void Apply(const Assignment& assignment) override {
    const MutexLock lock(mutex_);
    current_ = assignment;
    ++applied_;
    changed_.NotifyAll();
  }
  void SetShares(const Assignment&, bool decided) override {
    const MutexLock lock(mutex_);
    ++(decided ? shares_decided_ : shares_left_);
  }
  int shares_decided() const {
    const MutexLock lock(mutex_);
    return shares_decided_;
  }
  int shares_left() const {
    const MutexLock lock(mutex_);
    return shares_left_;
  }
  /// Returns when `count` more decisions have begun.
  void AwaitDecisions(int count) {
    const MutexLock lock(mutex_);
    const int until = views_ + count;
    while (views_ < until) changed_.Wait(mutex_);
  }
  void AwaitApplied(int count) {
    const MutexLock lock(mutex_);
    while (applied_ < count) changed_.Wait(mutex_);
  }
  int applied() const {
    const MutexLock lock(mutex_);
    return applied_;
  }
  Assignment current() const {
    const MutexLock lock(mutex_);
    return current_;
  }

 private:
  const LatencyModel latency_ = OneMillisecond();
  mutable Mutex mutex_;
  CondVar changed_;
  Assignment current_ GUARDED_BY(mutex_) = SmallView(latency_).current;
  int views_ GUARDED_BY(mutex_) = 0;
  int applied_ GUARDED_BY(mutex_) = 0;
  int shares_decided_ GUARDED_BY(mutex_) = 0;
  int shares_left_ GUARDED_BY(mutex_) = 0;
};

Assignment OnGpu(std::size_t gpu) { return {{{0, gpu, 1, 1, 1}}, {}}; }

/// "stay", "move", "throw", "broken", "no shares": names of scripts.
Result<std::unique_ptr<Placer>> MakeScripted(std::string_view name) {
  if (name == "stay") {
    return std::make_unique<ScriptedPlacer>([](const PlacementView& view) { return view.current; });
  }
  if (name == "move") {
    return std::make_unique<ScriptedPlacer>([](const PlacementView&) { return OnGpu(1); });
  }
  if (name == "throw") {
    return std::make_unique<ScriptedPlacer>(
        [](const PlacementView&) -> Assignment { throw std::runtime_error("no idea"); });
  }
  if (name == "no shares") {
    return std::make_unique<ScriptedPlacer>([](const PlacementView& view) { return view.current; },
                                            false);
  }
  if (name == "broken") {
    return std::make_unique<ScriptedPlacer>([](const PlacementView&) { return OnGpu(7); });
  }
  return Fail(ErrorCode::kNotFound, "there is no placer '" + std::string(name) + "'");
}

std::unique_ptr<PlacementKeeper> Keep(FakeHost& host, const std::string& placer,
                                      Nanoseconds limit = std::chrono::minutes(1),
                                      PlacementKeeper::MakePlacer make = MakeScripted) {
  PlacementRules rules{.period = milliseconds(1), .hold_down = Nanoseconds(0)};
  rules.limit = limit;
  auto keeper = PlacementKeeper::Start(host, placer, std::move(make), rules);
  EXPECT_TRUE(keeper) << keeper.error().message;
  return *std::move(keeper);
}

TEST(PlacementKeeper, AppliesWhatThePlacerDecides) {
  FakeHost host;
  const auto keeper = Keep(host, "stay");
  host.AwaitDecisions(5);
  EXPECT_EQ(host.applied(), 0);
  EXPECT_FALSE(keeper->Read().last->applied);
  ASSERT_TRUE(keeper->SetPlacer("move"));
  host.AwaitApplied(1);
  EXPECT_EQ(host.current(), OnGpu(1));
  host.AwaitDecisions(5);
  EXPECT_EQ(host.applied(), 1) << "nothing more to move";
  EXPECT_GT(keeper->Read().decisions, 8u);
}

TEST(PlacementKeeper, SharesFollowEachDecisionWhoseReplicasAreThere) {
  FakeHost host;
  const auto keeper = Keep(host, "stay");
  host.AwaitDecisions(5);
  EXPECT_GE(host.shares_decided(), 4);
  EXPECT_EQ(host.shares_left(), 0);
  ASSERT_TRUE(keeper->SetPlacer("throw"));
  host.AwaitDecisions(2);
  const int before = host.shares_decided();
  host.AwaitDecisions(5);
  EXPECT_EQ(host.shares_decided(), before) << "there is no decision";
  ASSERT_TRUE(keeper->SetPlacer("no shares"));
  host.AwaitDecisions(5);
  EXPECT_EQ(host.shares_decided(), before);
  EXPECT_GE(host.shares_left(), 3);
}

TEST(PlacementKeeper, APlacerThatThrowsOrBreaksTheRulesChangesNothing) {
  for (const char* placer : {"throw", "broken"}) {
    FakeHost host;
    const auto keeper = Keep(host, placer);
    host.AwaitDecisions(5);
    EXPECT_EQ(host.applied(), 0);
    const PlacementKeeper::Report report = keeper->Read();
    EXPECT_FALSE(report.last->applied);
    const bool throws = std::string(placer) == "throw";
    EXPECT_NE(report.last->reason.find(throws ? "no idea" : "GPU"), std::string::npos)
        << report.last->reason;
    ASSERT_TRUE(keeper->SetPlacer("move"));  // the keeper goes on
    host.AwaitApplied(1);
  }
}

std::size_t Threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(PlacementKeeper, APlacerThatWasReplacedLeavesNothing) {
  FakeHost host;
  const auto keeper = Keep(host, "stay");
  host.AwaitDecisions(1);
  const std::size_t threads = Threads();
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(keeper->SetPlacer(i % 2 == 0 ? "no shares" : "stay"));
    host.AwaitDecisions(2);
  }
  EXPECT_LE(Threads(), threads + 1) << "one may be about to end";
}

TEST(PlacementKeeper, PlacersThatAreStuckHaveALimit) {
  FakeHost host;
  std::latch go_on(1);
  const auto make = [&](std::string_view name) -> Result<std::unique_ptr<Placer>> {
    if (name != "stuck") return MakeScripted(name);
    return std::make_unique<ScriptedPlacer>([&](const PlacementView& view) {
      go_on.wait();
      return view.current;
    });
  };
  const auto keeper = Keep(host, "stuck", milliseconds(1), make);
  Status set;
  for (std::size_t i = 0; i < 2 * PlacementKeeper::kMostStuck && set; ++i) {
    host.AwaitDecisions(3);
    set = keeper->SetPlacer("stuck");
  }
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code, ErrorCode::kUnavailable);
  go_on.count_down();
  while (!keeper->SetPlacer("move")) host.AwaitDecisions(1);
  host.AwaitApplied(1);
}

TEST(PlacementKeeper, UnknownPlacersAreRefusedAndChangeNothing) {
  FakeHost host;
  EXPECT_FALSE(PlacementKeeper::Start(host, "best", MakeScripted, {}));
  const auto keeper = Keep(host, "stay");
  const Status set = keeper->SetPlacer("best");
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code, ErrorCode::kNotFound);
  host.AwaitDecisions(3);
  EXPECT_EQ(keeper->Read().last->placer, "scripted");
}

}  // namespace
}  // namespace lagoon
