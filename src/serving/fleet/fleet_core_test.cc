// A fleet of members without devices: routes, moves, losses, sums.

#include "serving/fleet/fleet_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serving/config/model_config.pb.h"
#include "serving/fleet/fleet_placers.h"
#include "serving/testing/fake_member.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeMember;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Loaded = std::set<std::string>;

/// Puts each model on the member that the test says; elsewhere it stays.
class Wishes {
 public:
  void Want(std::map<std::string, std::size_t> wishes) {
    const MutexLock lock(mutex_);
    wishes_ = std::move(wishes);
  }
  /// The granules of each replica of these models; 1 of the others.
  void WantGranules(std::map<std::string, std::uint32_t> granules) {
    const MutexLock lock(mutex_);
    granules_ = std::move(granules);
  }
  /// The limit of all batches.
  void WantRows(std::int64_t rows) {
    const MutexLock lock(mutex_);
    rows_ = rows;
  }
  /// What the last view expected of the model's batches, of 4 rows on the whole device.
  double FourRowsMs() const {
    const MutexLock lock(mutex_);
    return four_rows_ms_;
  }
  /// How much longer batches of the model take beside a load of 1, in the last view.
  double SlowdownOf(const std::string& model) const {
    const MutexLock lock(mutex_);
    const auto found = slowdowns_.find(model);
    return found == slowdowns_.end() ? 0 : found->second;
  }
  /// Latency models that any view has had.
  std::size_t Latencies() const {
    const MutexLock lock(mutex_);
    return latencies_.size();
  }
  Assignment Place(const PlacementView& view) {
    const MutexLock lock(mutex_);
    for (const ModelView& model : view.models) {
      latencies_.insert(model.latency);
      four_rows_ms_ = model.latency->AloneMs(4, 1);
      slowdowns_[model.name] = model.latency->Slowdown({.cache = 1}, true);
    }
    Assignment placed = StaticPlacer().Place(view);
    for (PlacedReplica& replica : placed.replicas) {
      const auto wish = wishes_.find(view.models[replica.model].name);
      if (wish != wishes_.end()) replica.gpu = wish->second;
      const auto granules = granules_.find(view.models[replica.model].name);
      replica.granules = granules == granules_.end() ? 1 : granules->second;
      replica.rows = rows_;
    }
    SortReplicas(placed);
    return placed;
  }

 private:
  mutable Mutex mutex_;
  std::set<const LatencyModel*> latencies_ GUARDED_BY(mutex_);
  double four_rows_ms_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, double> slowdowns_ GUARDED_BY(mutex_);
  std::int64_t rows_ GUARDED_BY(mutex_) = 1;
  std::map<std::string, std::size_t> wishes_ GUARDED_BY(mutex_);
  std::map<std::string, std::uint32_t> granules_ GUARDED_BY(mutex_);
};

class WishPlacer final : public Placer {
 public:
  explicit WishPlacer(Wishes& wishes) : wishes_(wishes) {}
  std::string_view name() const override { return "wishes"; }
  Assignment Place(const PlacementView& view) override { return wishes_.Place(view); }

 private:
  Wishes& wishes_;
};

class FleetCoreTest : public ::testing::Test {
 protected:
  /// `loaded`: what each member serves at first.
  void Make(const std::vector<Loaded>& loaded, std::vector<FleetModel> models) {
    std::vector<FleetMember> members;
    for (const Loaded& of_member : loaded) {
      auto core = std::make_unique<FakeMember>(of_member);
      fakes_.push_back(core.get());
      FleetMember member;
      member.name = std::to_string(members.size()) + "/fake";
      member.core = std::move(core);
      member.memory_bytes = 1000;
      members.push_back(std::move(member));
    }
    FleetOptions options;
    options.models = std::move(models);
    options.placer = "wishes";
    options.make_placer = [this](std::string_view name) -> Result<std::unique_ptr<Placer>> {
      if (name == "wishes") return std::make_unique<WishPlacer>(wishes_);
      return MakeFleetPlacer(name);
    };
    options.rules = {.period = std::chrono::milliseconds(1), .hold_down = Nanoseconds(0)};
    options.rules.limit = std::chrono::minutes(1);
    options.rules.retry = std::chrono::hours(1);
    options.rules.longest_drain = longest_drain_;
    auto fleet = FleetCore::Make(std::move(options), std::move(members));
    ASSERT_TRUE(fleet) << fleet.error().message;
    fleet_ = *std::move(fleet);
  }

  struct Sent {
    RequestHandle handle{};
    std::future<Result<InferResponse>> answer;
  };
  Sent Send(const std::string& model, SequencePart sequence = {}) {
    auto promise = std::make_shared<std::promise<Result<InferResponse>>>();
    Sent sent;
    sent.answer = promise->get_future();
    InferRequest request;
    request.model = model;
    request.id = "r";
    request.sequence = std::move(sequence);
    sent.handle = fleet_->Infer(std::move(request), [promise](Result<InferResponse> answer) {
      promise->set_value(std::move(answer));
    });
    return sent;
  }
  std::optional<ErrorCode> Ask(const std::string& model, SequencePart sequence = {}) {
    const auto answer = Send(model, std::move(sequence)).answer.get();
    if (answer) return std::nullopt;
    message_ = answer.error().message;
    return answer.error().code;
  }
  /// Returns when the keeper has made this true.
  template <typename Condition>
  void Await(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }
  std::uint64_t Decisions() { return fleet_->ReadFleet().decisions; }
  void AwaitDecisions(std::uint64_t more) {
    const std::uint64_t until = Decisions() + more;
    Await([&] { return Decisions() >= until; });
  }
  bool Serves(std::size_t member, const std::string& model) {
    const FleetReport report = fleet_->ReadFleet();
    return std::ranges::any_of(report.replicas, [&](const FleetReplicaReport& replica) {
      return replica.model == model && replica.device == member &&
             replica.state == FleetReplicaReport::State::kServing;
    });
  }

  Nanoseconds longest_drain_ = std::chrono::hours(1);
  Wishes wishes_;
  std::vector<FakeMember*> fakes_;
  std::unique_ptr<FleetCore> fleet_;
  std::string message_;
};

TEST_F(FleetCoreTest, RequestsGoToTheMembersThatServeTheirModels) {
  Make({{"a"}, {"b"}}, {{"a", 10}, {"b", 10}});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Ask("a"), std::nullopt);
    EXPECT_EQ(Ask("b"), std::nullopt);
  }
  EXPECT_EQ(fakes_[0]->Statistics("a", "")->front().success.count, 5u);
  EXPECT_EQ(fakes_[1]->Statistics("b", "")->front().success.count, 5u);
  EXPECT_EQ(Ask("absent"), ErrorCode::kNotFound);
  EXPECT_THAT(message_, HasSubstr("'absent'"));
  EXPECT_EQ(fleet_->Metadata("b", "")->name, "b");
  EXPECT_EQ(fleet_->Config("b", "")->name(), "b");
  EXPECT_TRUE(fleet_->ModelReady("a", ""));
  EXPECT_EQ(fleet_->ModelReady("absent", "").error().code, ErrorCode::kNotFound);
}

TEST_F(FleetCoreTest, ASequenceStaysAtTheMemberWhereItBegan) {
  Make({{"a"}, {"a"}}, {{"a", 10}});
  for (FakeMember* fake : fakes_) fake->HaveSequences();
  AwaitDecisions(2);
  std::size_t of_first = 0;
  for (std::uint64_t number = 1; number <= 20; ++number) {
    EXPECT_EQ(Ask("a", {.number = number, .text = {}, .start = true}), std::nullopt) << message_;
  }
  for (std::uint64_t number = 1; number <= 20; ++number) {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask("a", {.number = number, .text = {}}), std::nullopt);
    EXPECT_EQ(Ask("a", {.number = number, .text = {}, .end = true}), std::nullopt) << message_;
    EXPECT_EQ(fakes_[0]->RequestsOf(number) % 7, 0U) << number;
    EXPECT_EQ(fakes_[0]->RequestsOf(number) + fakes_[1]->RequestsOf(number), 7U);
    of_first += fakes_[0]->RequestsOf(number) / 7;
    EXPECT_EQ(Ask("a", {.number = number, .text = {}}), ErrorCode::kInvalidArgument) << "ended";
  }
  EXPECT_GT(of_first, 0U);
  EXPECT_LT(of_first, 20U);
  EXPECT_THAT(message_, HasSubstr("sequence 20 to model 'a' must specify the START flag"));
}

TEST_F(FleetCoreTest, ASequenceOfALostMemberIsRefusedUntilItBeginsAnew) {
  Make({{"a"}, {"a"}}, {{"a", 10}});
  for (FakeMember* fake : fakes_) fake->HaveSequences();
  AwaitDecisions(2);
  ASSERT_EQ(Ask("a", {.number = 7, .text = {}, .start = true}), std::nullopt);
  const std::size_t first = fakes_[0]->RequestsOf(7) == 1 ? 0 : 1;
  FakeMember& other = *fakes_[1 - first];
  fakes_[first]->Lose();
  EXPECT_EQ(Ask("a", {.number = 7, .text = {}}), ErrorCode::kUnavailable);
  AwaitDecisions(2);
  EXPECT_EQ(Ask("a", {.number = 7, .text = {}, .end = true}), ErrorCode::kUnavailable);
  EXPECT_THAT(message_, HasSubstr("sequence 7 began at member '" + std::to_string(first)));
  EXPECT_EQ(other.RequestsOf(7), 0U) << "it has no states of the sequence";
  EXPECT_EQ(fleet_->ReadFleet().retries, 0U);
  EXPECT_EQ(Ask("a", {.number = 7, .text = {}, .start = true}), std::nullopt) << message_;
  EXPECT_EQ(Ask("a", {.number = 7, .text = {}}), std::nullopt) << message_;
  EXPECT_EQ(other.RequestsOf(7), 2U);
}

TEST_F(FleetCoreTest, AMoveLoadsSwitchesAnswersAndUnloadsInThisOrder) {
  Make({{"a", "b"}, {}}, {{"a", 10}, {"b", 10}});
  fakes_[0]->AnswerAtOnce(false);
  Sent before = Send("a");
  wishes_.Want({{"a", 1}});
  Await([&] { return Serves(1, "a"); });
  EXPECT_EQ(Ask("a"), std::nullopt) << "the new replica answers";
  EXPECT_THAT(fakes_[0]->Changes(), IsEmpty()) << "the old one has a request";
  EXPECT_EQ(before.answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  fakes_[0]->AnswerAll();
  EXPECT_TRUE(before.answer.get().has_value());
  Await([&] { return fleet_->ReadFleet().unloads == 1; });
  EXPECT_THAT(fakes_[0]->Changes(), ElementsAre("unload a"));
  EXPECT_THAT(fakes_[1]->Changes(), ElementsAre("load a"));
  EXPECT_EQ(fakes_[0]->Loaded(), Loaded{"b"});
}

TEST_F(FleetCoreTest, ARequestWithoutAnEndHoldsUpItsOwnReplicaOnly) {
  Make({{"a"}, {"b"}, {}}, {{"a", 10}, {"b", 10}});
  fakes_[0]->AnswerAtOnce(false);
  Sent endless = Send("a");
  wishes_.Want({{"a", 1}});
  Await([&] { return Serves(1, "a"); });
  wishes_.Want({});
  fakes_[1]->Lose();
  Await([&] { return Serves(0, "a"); });  // it is still loaded there, and its route comes back
  Await([&] { return Serves(0, "b") || Serves(2, "b"); });
  EXPECT_EQ(endless.answer.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_EQ(fakes_[0]->Loaded().count("a"), 1U);
  fakes_[0]->AnswerAll();
  EXPECT_TRUE(endless.answer.get().has_value());
}

TEST_F(FleetCoreTest, AReplicaThatIsWantedAgainBeforeItIsIdleStays) {
  Make({{"a"}, {}}, {{"a", 10}});
  fakes_[0]->AnswerAtOnce(false);
  Sent before = Send("a");
  wishes_.Want({{"a", 1}});
  Await([&] { return Serves(1, "a"); });
  wishes_.Want({{"a", 0}});
  Await([&] { return Serves(0, "a") && !Serves(1, "a"); });
  AwaitDecisions(3);
  EXPECT_THAT(fakes_[0]->Changes(), IsEmpty());
  fakes_[0]->AnswerAll();
  EXPECT_TRUE(before.answer.get().has_value());
  AwaitDecisions(3);
  EXPECT_EQ(fakes_[0]->Loaded(), Loaded{"a"});
}

TEST_F(FleetCoreTest, RequestsThatHoldUpAMoveForLongAreCancelled) {
  longest_drain_ = Nanoseconds(0);
  Make({{"a"}, {}}, {{"a", 10}});
  fakes_[0]->AnswerAtOnce(false);
  Sent endless = Send("a");
  wishes_.Want({{"a", 1}});
  EXPECT_EQ(endless.answer.get().error().code, ErrorCode::kCancelled);
  Await([&] { return fleet_->ReadFleet().unloads == 1; });
  EXPECT_THAT(fakes_[0]->Changes(), ElementsAre("unload a"));
}

TEST_F(FleetCoreTest, DevicesOfUnlikeSpeedGiveOneLatencyModel) {
  Make({{"a"}, {"a"}}, {{"a", 10}});
  AwaitDecisions(2);
  const std::size_t before = wishes_.Latencies();
  fakes_[1]->SetStandalone(std::chrono::milliseconds(7));
  AwaitDecisions(200);
  EXPECT_LE(wishes_.Latencies(), before + 1);
  EXPECT_EQ(fleet_->ReadFleet().models[0].standalone, std::chrono::milliseconds(7))
      << "the longest";
  // Times that are measured anew scatter, and come back.
  for (int i = 0; i < 50; ++i) {
    fakes_[1]->SetStandalone(std::chrono::microseconds(7000 + 10 * i));
    AwaitDecisions(1);
  }
  EXPECT_LE(wishes_.Latencies(), before + 4);
}

TEST_F(FleetCoreTest, NoRequestFailsWhileModelsMoveToAndFro) {
  Make({{"a"}, {"b"}, {}}, {{"a", 10}, {"b", 10}});
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0}, answered{0};
  std::vector<std::thread> clients;
  for (const char* model : {"a", "b"}) {
    clients.emplace_back([&, model] {
      while (!stop) {
        const bool good = Send(model).answer.get().has_value();
        failed += !good;
        answered += good;
      }
    });
  }
  for (std::size_t round = 0; round < 12; ++round) {
    const std::size_t to = round % 3;
    wishes_.Want({{"a", to}, {"b", 2 - to}});
    Await([&] { return Serves(to, "a") && Serves(2 - to, "b"); });
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed.load(), 0);
  const auto statistics = fleet_->Statistics("", "");
  ASSERT_TRUE(statistics);
  std::uint64_t counted = 0;
  for (const ModelStatistics& row : *statistics) counted += row.success.count;
  EXPECT_EQ(counted, static_cast<std::uint64_t>(answered.load())) << "unloaded replicas count too";
}

TEST_F(FleetCoreTest, ALoadThatFailsLeavesTheOldReplica) {
  Make({{"a"}, {}}, {{"a", 10}});
  fakes_[1]->RefuseToLoad("a");
  wishes_.Want({{"a", 1}});
  Await([&] { return fleet_->ReadFleet().failed_loads == 1; });
  AwaitDecisions(5);
  EXPECT_EQ(Ask("a"), std::nullopt);
  EXPECT_TRUE(Serves(0, "a"));
  EXPECT_EQ(fleet_->ReadFleet().failed_loads, 1u) << "it is tried again after a pause only";
  EXPECT_EQ(fakes_[0]->Loaded(), Loaded{"a"});
}

TEST_F(FleetCoreTest, AModelThatServesNowhereIsLoadedOnAnotherMemberWhereItsOwnRefuses) {
  Make({{"b"}, {"c"}, {}}, {{"a", 600}, {"b", 10}, {"c", 600}});
  fakes_[0]->RefuseToLoad("a");
  wishes_.Want({{"a", 0}, {"c", 1}});
  Await([&] { return fakes_[2]->Loaded() == Loaded{"a"}; });
  Await([&] { return Ask("a") == std::nullopt; });
  EXPECT_EQ(fakes_[1]->Loaded(), Loaded{"c"}) << "it has no room for both";
}

TEST_F(FleetCoreTest, ModelsOfALostMemberAppearElsewhere) {
  Make({{"a", "b"}, {"c"}}, {{"a", 10}, {"b", 10}, {"c", 10}});
  fakes_[0]->AnswerAtOnce(false);
  Sent lost = Send("a");
  fakes_[0]->Lose();
  const auto answer = lost.answer.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
  Await([&] { return Serves(1, "a") && Serves(1, "b"); });
  EXPECT_EQ(Ask("a"), std::nullopt);
  EXPECT_EQ(Ask("b"), std::nullopt);
  EXPECT_TRUE(fleet_->Ready());
  EXPECT_FALSE(fleet_->ReadFleet().devices[0].ready);
  // The member comes back with what it had: those models are served elsewhere now.
  fakes_[0]->Recover();
  Await([&] { return fakes_[0]->Loaded().empty(); });
  EXPECT_EQ(Ask("a"), std::nullopt);
}

TEST_F(FleetCoreTest, OneReplicaOfALostMemberIsLeftOutAtOnce) {
  Make({{"a"}, {"a"}}, {{"a", 10}});
  AwaitDecisions(1);
  EXPECT_TRUE(Serves(0, "a"));
  EXPECT_TRUE(Serves(1, "a"));
  fakes_[0]->Lose();
  AwaitDecisions(2);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ask("a"), std::nullopt) << message_;
}

TEST_F(FleetCoreTest, APlacementThatADeviceCannotHoldIsRefusedAndNamed) {
  Make({{"a"}, {"b"}}, {{"a", 600}, {"b", 600}});
  wishes_.Want({{"b", 0}});
  AwaitDecisions(5);
  const FleetReport report = fleet_->ReadFleet();
  ASSERT_TRUE(report.last);
  EXPECT_FALSE(report.last->applied);
  EXPECT_THAT(report.last->reason, HasSubstr("1200 bytes of 1000"));
  EXPECT_THAT(fakes_[0]->Changes(), IsEmpty());
  EXPECT_EQ(Ask("b"), std::nullopt);
}

TEST_F(FleetCoreTest, CancelsAcrossMembers) {
  Make({{"a"}, {"b"}}, {{"a", 10}, {"b", 10}});
  for (FakeMember* fake : fakes_) fake->AnswerAtOnce(false);
  Sent a = Send("a");
  Sent b = Send("b");
  EXPECT_NE(a.handle, b.handle);
  fleet_->Cancel(b.handle);
  EXPECT_EQ(b.answer.get().error().code, ErrorCode::kCancelled);
  EXPECT_THAT(fakes_[0]->Cancelled(), IsEmpty());
  fleet_->Cancel(b.handle);  // no longer in flight
  fleet_->Cancel(RequestHandle{999});
  EXPECT_EQ(fakes_[1]->Cancelled().size(), 1u);
  fakes_[0]->AnswerAll();
  EXPECT_TRUE(a.answer.get().has_value());
}

TEST_F(FleetCoreTest, SumsWhatItsMembersSay) {
  Make({{"a"}, {"a", "b"}}, {{"a", 10}, {"b", 10}});
  EXPECT_EQ(fleet_->device().units, 4u);
  EXPECT_EQ(fleet_->SchedulerStatistics().launches, 10u);
  const std::vector<ModelStatus> models = fleet_->Models();
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].name, "a");
  EXPECT_EQ(models[0].state, ModelState::kReady);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Ask("a"), std::nullopt);
  EXPECT_EQ(fleet_->Statistics("a", "")->front().success.count, 10u);
  EXPECT_EQ(fleet_->Statistics("a", "1")->size(), 1u);
  EXPECT_FALSE(fleet_->Statistics("absent", ""));
  std::promise<Status> switched;
  fleet_->SwitchScheduler(*MakeScheduler("streams"),
                          [&](Status status) { switched.set_value(std::move(status)); });
  EXPECT_TRUE(switched.get_future().get());
  fakes_[1]->Lose();
  std::promise<Status> failed;
  fleet_->SwitchScheduler(*MakeScheduler("streams"),
                          [&](Status status) { failed.set_value(std::move(status)); });
  EXPECT_THAT(failed.get_future().get().error().message, HasSubstr("1/fake"));
}

TEST_F(FleetCoreTest, DrainingRefusesNewRequestsAndAnswersOthers) {
  Make({{"a"}, {"b"}}, {{"a", 10}, {"b", 10}});
  fakes_[0]->AnswerAtOnce(false);
  Sent a = Send("a");
  fleet_->Drain(Now());
  EXPECT_TRUE(a.answer.get().has_value());
  EXPECT_FALSE(fleet_->Ready());
  EXPECT_EQ(Ask("b"), ErrorCode::kUnavailable);
  EXPECT_THAT(message_, HasSubstr("shutting down"));
}

TEST_F(FleetCoreTest, ThePlacerIsSetByName) {
  Make({{"a"}, {}}, {{"a", 10}});
  EXPECT_EQ(fleet_->ReadFleet().placer, "wishes");
  ASSERT_TRUE(fleet_->SetPlacer("static"));
  EXPECT_EQ(fleet_->ReadFleet().placer, "static");
  EXPECT_EQ(fleet_->SetPlacer("best").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(fleet_->ReadFleet().placer, "static");
}

TEST_F(FleetCoreTest, ThePlacerDecidesAboutSharesThatAreTuned) {
  Make({{"a", "b"}, {"c"}}, {{"a", 10}, {"b", 10}, {"c", 10}});
  for (FakeMember* fake : fakes_) fake->SetShareOfModels("auto");
  wishes_.WantGranules({{"a", 60}, {"b", 30}, {"c", 100}});
  Await([&] { return fakes_[0]->ShareOf("a") == 0.6 && fakes_[0]->ShareOf("b") == 0.3; });
  Await([&] { return fakes_[1]->ShareOf("c") == 1.0; });
  wishes_.WantGranules({{"a", 30}, {"b", 60}, {"c", 99}});
  Await([&] { return fakes_[0]->ShareOf("a") == 0.3 && fakes_[0]->ShareOf("b") == 0.6; });
  EXPECT_EQ(fakes_[1]->ShareOf("c"), 1.0) << "one point is not worth a move";
}

TEST_F(FleetCoreTest, SharesOfModelsThatHaveNoneOrFixedOnesStay) {
  Make({{"a"}, {"b"}}, {{"a", 10}, {"b", 10}});
  fakes_[1]->SetShareOfModels("25");
  wishes_.WantGranules({{"a", 60}, {"b", 60}});
  AwaitDecisions(5);
  EXPECT_EQ(fakes_[0]->ShareOf("a"), std::nullopt);
  EXPECT_EQ(fakes_[1]->ShareOf("b"), std::nullopt);
}

TEST_F(FleetCoreTest, WhatAnOperatorSaysOfAShareHolds) {
  Make({{"a"}, {"a"}}, {{"a", 10}});
  for (FakeMember* fake : fakes_) fake->SetShareOfModels("auto");
  wishes_.WantGranules({{"a", 60}});
  Await([&] { return fakes_[0]->ShareOf("a") == 0.6; });
  ASSERT_TRUE(fleet_->ResizeShare("a", "", {.part = 0.2}));
  AwaitDecisions(5);
  EXPECT_EQ(fakes_[0]->ShareOf("a"), 0.2);
  EXPECT_EQ(fakes_[1]->ShareOf("a"), 0.2);
  EXPECT_FALSE(fleet_->ResizeShare("absent", "", {.part = 0.2}));
  ASSERT_TRUE(fleet_->ResizeShare("a", "", {.automatic = true}));
  Await([&] { return fakes_[0]->ShareOf("a") == 0.6 && fakes_[1]->ShareOf("a") == 0.6; });
}

TEST_F(FleetCoreTest, AShareThatOneDeviceRefusesChangesNone) {
  Make({{"a"}, {"a"}}, {{"a", 10}});
  ASSERT_TRUE(fleet_->ResizeShare("a", "", {.part = 0.5}));
  fakes_[1]->RefuseToResize();
  const Status resized = fleet_->ResizeShare("a", "", {.part = 0.2});
  ASSERT_FALSE(resized);
  EXPECT_THAT(resized.error().message, HasSubstr("1/fake"));
  EXPECT_EQ(fakes_[0]->ShareOf("a"), 0.5);
  EXPECT_EQ(fakes_[1]->ShareOf("a"), 0.5);
}

TEST_F(FleetCoreTest, AShareOfAnOperatorMovesWithTheModel) {
  Make({{"a"}, {}}, {{"a", 10}});
  ASSERT_TRUE(fleet_->ResizeShare("a", "", {.part = 0.2}));
  wishes_.Want({{"a", 1}});
  Await([&] { return fakes_[1]->ShareOf("a") == 0.2; });
}

TEST_F(FleetCoreTest, DevicesTuneSharesUnderAPlacerThatDoesNotDecideThem) {
  Make({{"a"}, {}}, {{"a", 10}});
  fakes_[0]->SetShareOfModels("auto");
  wishes_.WantGranules({{"a", 60}});
  Await([&] { return fakes_[0]->ShareOf("a") == 0.6; });
  ASSERT_TRUE(fleet_->SetPlacer("static"));
  Await([&] { return fakes_[0]->ShareOf("a") == std::nullopt; });
}

// The standalone time of a row says 40 ms for four of them.
TEST_F(FleetCoreTest, BatchesThatWereMeasuredTellThePlacerAndGetItsLimits) {
  Make({{"a"}}, {{"a", 10}});
  fakes_[0]->SetShareOfModels("auto");
  fakes_[0]->SetStandalone(std::chrono::milliseconds(10));
  wishes_.WantGranules({{"a", 100}});
  wishes_.WantRows(3);
  Await([&] { return fakes_[0]->ShareOf("a") == 1.0; });
  Await([&] { return std::abs(wishes_.FourRowsMs() - 40) < 1; });
  AwaitDecisions(5);
  EXPECT_EQ(fakes_[0]->CeilingOf("a"), 0) << "nothing was measured";
  fakes_[0]->SetBatches("a", 4, 16);
  Await([&] { return fakes_[0]->CeilingOf("a") == 3; });
  Await([&] { return std::abs(wishes_.FourRowsMs() - 16) < 0.5; });
  wishes_.WantRows(4);
  Await([&] { return fakes_[0]->CeilingOf("a") == 4; });
  EXPECT_EQ(fakes_[0]->ShareOf("a"), 1.0);
  ASSERT_TRUE(fleet_->SetPlacer("static"));
  Await([&] { return fakes_[0]->CeilingOf("a") == 0; });
}

// The standalone time of a row says 40 ms for four of them, the stored surface 22.
TEST_F(FleetCoreTest, AStoredSurfaceTellsThePlacerBeforeABatchHasRun) {
  Make({{"a"}, {"b"}}, {{"a", 10}});
  for (FakeMember* fake : fakes_) fake->SetStandalone(std::chrono::milliseconds(10));
  fakes_[0]->SetSurface(
      Surface::FromPoints({.rows = {1, 4}, .shares = {0.5, 1}, .latency_ms = {{16, 8}, {44, 22}}})
          .value());
  Await([&] { return std::abs(wishes_.FourRowsMs() - 22) < 0.1; });
}

// A batch of `a` takes 10 ms alone and 15 while `b` is busy.
TEST_F(FleetCoreTest, BatchesBesideOthersTellThePlacerWhatThatCosts) {
  Make({{"a", "b"}}, {{"a", 10}, {"b", 10}});
  FakeMember& fake = *fakes_[0];
  fake.SetBatches("b", 1, 5);
  double slowdown = 0;
  for (int turn = 0; turn < 1000 && std::abs(slowdown - 1.5) > 0.1; ++turn) {
    for (const bool busy : {false, true}) {
      fake.SetArrivals("b", busy ? 200 : 0);
      fake.SetBatches("a", 4, busy ? 15 : 10);
      AwaitDecisions(6);
    }
    slowdown = wishes_.SlowdownOf("a");
  }
  EXPECT_NEAR(slowdown, 1.5, 0.1);
  EXPECT_LT(wishes_.SlowdownOf("b"), 1.1);
  for (const FleetReplicaReport& replica : fleet_->ReadFleet().replicas) {
    ASSERT_TRUE(replica.batches) << replica.model;
    EXPECT_NEAR(replica.batches->measured_ms, replica.model == "a" ? 15 : 5, 1e-9);
    EXPECT_NEAR(replica.batches->expected_ms, replica.batches->measured_ms, 2);
  }
}

TEST_F(FleetCoreTest, SharesMakeRoomForAModelThatComes) {
  Make({{"a"}, {"b"}}, {{"a", 10}, {"b", 10}});
  for (FakeMember* fake : fakes_) fake->SetShareOfModels("auto");
  wishes_.WantGranules({{"a", 100}, {"b", 100}});
  Await([&] { return fakes_[0]->ShareOf("a") == 1.0; });
  fakes_[0]->OnLoad([&] { EXPECT_EQ(fakes_[0]->ShareOf("a"), std::nullopt); });
  wishes_.WantGranules({{"a", 40}, {"b", 60}});
  wishes_.Want({{"b", 0}});
  Await([&] { return fakes_[0]->ShareOf("a") == 0.4 && fakes_[0]->ShareOf("b") == 0.6; });
}

TEST_F(FleetCoreTest, AMemberMustBeAbleToLoadModels) {
  auto core = std::make_unique<FakeMember>(std::set<std::string>{"a"});
  core->HaveNoRepository();
  std::vector<FleetMember> members;
  members.push_back({.name = "fixed", .core = std::move(core)});
  const auto fleet = FleetCore::Make({}, std::move(members));
  ASSERT_FALSE(fleet);
  EXPECT_EQ(fleet.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(fleet.error().message, HasSubstr("'fixed' cannot be of a fleet: it has no repo"));
}

TEST_F(FleetCoreTest, AFleetNeedsADevice) {
  const auto fleet = FleetCore::Make({}, {});
  ASSERT_FALSE(fleet);
  EXPECT_EQ(fleet.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lagoon
