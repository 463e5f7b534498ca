#include "local/plans/plan_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "local/plans/failed_plans.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<PlanDraft> DraftOf(const PlanKey& key, std::size_t ops = 1) {
  auto draft = std::make_unique<PlanDraft>();
  draft->loaded = std::make_shared<LoadedPlan>();
  draft->loaded->plan.ops.resize(ops);
  draft->key = key;
  return draft;
}

std::shared_ptr<ServedPlan> PlanOf(const PlanKey& key, std::size_t ops = 1) {
  return std::make_shared<ServedPlan>(DraftOf(key, ops));
}

std::vector<PlanKey> Keys(const std::vector<std::shared_ptr<ServedPlan>>& plans) {
  std::vector<PlanKey> keys;
  for (const auto& plan : plans) keys.push_back(plan->key);
  return keys;
}

/// Adds a plan and returns the keys of those that went for it.
std::vector<PlanKey> Add(PlanCache& cache, const PlanKey& key, bool pinned = false,
                         std::size_t ops = 1) {
  return Keys(cache.Add(key, PlanOf(key, ops), pinned));
}

TEST(PlanCacheTest, FindsWhatWasAdded) {
  PlanCache cache({});
  EXPECT_EQ(cache.Find("a"), nullptr);
  EXPECT_THAT(Add(cache, "a"), IsEmpty());
  ASSERT_NE(cache.Find("a"), nullptr);
  EXPECT_EQ(cache.Find("a")->key, "a");
  EXPECT_EQ(cache.Find("b"), nullptr);
}

TEST(PlanCacheTest, OfPlansThatWereUsedOnceTheOldestGoes) {
  PlanCache cache({.plans = 3});
  for (const char* key : {"a", "b", "c"}) EXPECT_THAT(Add(cache, key), IsEmpty());
  EXPECT_THAT(Add(cache, "d"), ElementsAre("a"));
  EXPECT_THAT(Add(cache, "e"), ElementsAre("b"));
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(cache.Find("a"), nullptr);
}

TEST(PlanCacheTest, APlanThatWasUsedAgainStaysInAFloodOfNewOnes) {
  PlanCache cache({.plans = 3});
  Add(cache, "a");
  cache.Find("a");
  for (const char* key : {"b", "c", "d", "e", "f"}) Add(cache, key);
  EXPECT_NE(cache.Find("a"), nullptr);
  EXPECT_EQ(cache.Find("d"), nullptr);
}

TEST(PlanCacheTest, OfPlansThatWereUsedAgainTheLeastRecentlyUsedGoes) {
  PlanCache cache({.plans = 3});
  for (const char* key : {"a", "b", "c"}) {
    Add(cache, key);
    cache.Find(key);
  }
  cache.Find("a");
  EXPECT_THAT(Add(cache, "d"), ElementsAre("b"));
  cache.Find("d");
  cache.Find("c");
  EXPECT_THAT(Add(cache, "e"), ElementsAre("a"));
}

TEST(PlanCacheTest, PinnedPlansStayAndCount) {
  PlanCache cache({.plans = 3});
  for (const char* key : {"a", "b"}) Add(cache, key, /*pinned=*/true);
  Add(cache, "c");
  EXPECT_THAT(Add(cache, "d"), ElementsAre("c"));
  // More of them than the limit, and one plan more for the request that asked for it.
  for (const char* key : {"e", "f"}) Add(cache, key, /*pinned=*/true);
  EXPECT_THAT(Add(cache, "g"), ElementsAre("d"));
  for (const char* key : {"a", "b", "e", "f", "g"}) EXPECT_NE(cache.Find(key), nullptr) << key;
  // Use does not make them ordinary ones.
  for (const char* key : {"h", "i", "j"}) Add(cache, key);
  for (const char* key : {"a", "b", "e", "f"}) EXPECT_NE(cache.Find(key), nullptr) << key;
}

TEST(PlanCacheTest, KeepsPlansUpToASumOfBytes) {
  const std::size_t bytes = BytesOf(*PlanOf("a", 100));
  EXPECT_GE(bytes, 100 * sizeof(PlanOp));
  PlanCache cache({.bytes = 3 * bytes});
  for (const char* key : {"a", "b", "c"}) EXPECT_THAT(Add(cache, key, false, 100), IsEmpty());
  EXPECT_EQ(cache.bytes(), 3 * bytes);
  EXPECT_THAT(Add(cache, "d", false, 100), ElementsAre("a"));
  EXPECT_EQ(cache.bytes(), 3 * bytes);
  EXPECT_THAT(Add(cache, "e", false, 250), ElementsAre("b", "c", "d"));
  EXPECT_EQ(cache.bytes(), BytesOf(*PlanOf("e", 250)));
}

TEST(PlanCacheTest, ThePlanThatWasJustMadeStaysHoweverLarge) {
  PlanCache cache({.bytes = 1});
  EXPECT_THAT(Add(cache, "a", false, 100), IsEmpty());
  EXPECT_THAT(Add(cache, "b", false, 100), ElementsAre("a"));
  EXPECT_NE(cache.Find("b"), nullptr);
  EXPECT_THAT(Add(cache, "c", false, 100), ElementsAre("b"));
  EXPECT_NE(cache.Find("c"), nullptr);
}

/// A plan with constants of `bytes` bytes, which no memory backs.
std::shared_ptr<ServedPlan> PlanWithConstants(const PlanKey& key, std::size_t bytes,
                                              bool from_request = true) {
  static std::byte memory{};
  auto draft = DraftOf(key);
  draft->loaded->weights.push_back(std::make_shared<const WeightChunk>(
      WeightChunk{0, Buffer(&memory, bytes, [](void*, std::size_t) {}), from_request}));
  return std::make_shared<ServedPlan>(std::move(draft));
}

TEST(PlanCacheTest, ConstantsThatARequestMadeCountAndWeightsDoNot) {
  const std::size_t bytes = BytesOf(*PlanOf("a"));
  EXPECT_EQ(BytesOf(*PlanWithConstants("a", 1000)), bytes + 1000);
  EXPECT_EQ(BytesOf(*PlanWithConstants("a", 1000, /*from_request=*/false)), bytes);
  PlanCache cache({.bytes = 100'000});
  for (const char* key : {"a", "b"}) {
    EXPECT_THAT(cache.Add(key, PlanWithConstants(key, 40'000), false), IsEmpty());
  }
  EXPECT_THAT(Keys(cache.Add("c", PlanWithConstants("c", 40'000), false)), ElementsAre("a"));
  EXPECT_EQ(cache.bytes(), 2 * (bytes + 40'000));
}

TEST(PlanCacheTest, APlanOverTheLimitByItselfPushesOutNoOtherAndGoesWithTheNext) {
  PlanCache cache({.bytes = 100'000});
  for (const char* key : {"a", "b"}) Add(cache, key);
  const std::size_t bytes = cache.bytes();
  EXPECT_THAT(cache.Add("large", PlanWithConstants("large", 100'000), false), IsEmpty());
  for (int use = 0; use < 2; ++use) EXPECT_NE(cache.Find("large"), nullptr);
  // Again, as where it was made twice.
  EXPECT_THAT(Keys(cache.Add("large", PlanWithConstants("large", 100'000), false)),
              ElementsAre("large"));
  EXPECT_THAT(Keys(cache.Add("larger", PlanWithConstants("larger", 200'000), false)),
              ElementsAre("large"));
  EXPECT_EQ(cache.bytes(), bytes);
  EXPECT_THAT(Add(cache, "c"), ElementsAre("larger"));
  EXPECT_EQ(cache.Find("larger"), nullptr);
  for (const char* key : {"a", "b", "c"}) EXPECT_NE(cache.Find(key), nullptr) << key;
  EXPECT_EQ(cache.size(), 3u);
}

TEST(PlanCacheTest, AnotherPlanOfAKeyReplacesTheFirst) {
  PlanCache cache({.plans = 2});
  Add(cache, "a", false, 100);
  const auto before = cache.Find("a");
  const auto plan = PlanOf("a", 10);
  const auto gone = cache.Add("a", plan, false);
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone.front(), before);
  EXPECT_EQ(cache.Find("a"), plan);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.bytes(), BytesOf(*plan));
}

TEST(DecidingInputsTest, OnlyGrow) {
  DecidingInputs inputs;
  EXPECT_TRUE(inputs.Get().empty());
  EXPECT_FALSE(inputs.Add({}));
  EXPECT_TRUE(inputs.Add({2}));
  const std::set<std::size_t>& former = inputs.Get();
  EXPECT_TRUE(inputs.Add({0}));
  EXPECT_FALSE(inputs.Add({2}));
  EXPECT_THAT(inputs.Get(), ElementsAre(0, 2));
  EXPECT_THAT(former, ElementsAre(2));  // for the threads that still read it
}

TEST(PlanCacheTest, AMereQuestionIsNoUse) {
  PlanCache cache({.plans = 2});
  Add(cache, "asked for");
  EXPECT_NE(cache.Peek("asked for"), nullptr);
  EXPECT_EQ(cache.Peek("unknown"), nullptr);
  Add(cache, "b");
  EXPECT_THAT(Add(cache, "c"), ElementsAre("asked for"));
}

// ---- Plans that could not be made

constexpr TimePoint At(Nanoseconds time) { return TimePoint(time); }

TEST(FailedPlansTest, TriesAgainAfterAPauseThatDoubles) {
  using namespace std::chrono_literals;
  FailedPlans failed;
  EXPECT_EQ(failed.Find("a", At(0s)), nullptr);
  EXPECT_TRUE(failed.Add("a", {ErrorCode::kUnimplemented, "why"}, At(0s)));
  ASSERT_NE(failed.Find("a", At(999ms)), nullptr);
  EXPECT_EQ(failed.Find("a", At(999ms))->message, "why");
  EXPECT_EQ(failed.Find("b", At(0s)), nullptr);
  EXPECT_EQ(failed.Find("a", At(1s)), nullptr);
  EXPECT_FALSE(failed.Add("a", {ErrorCode::kUnimplemented, "again"}, At(1s)));
  EXPECT_NE(failed.Find("a", At(2999ms)), nullptr);
  EXPECT_EQ(failed.Find("a", At(3s)), nullptr);
  for (int i = 0; i < 100; ++i) failed.Add("a", {ErrorCode::kUnimplemented, "again"}, At(3s));
  EXPECT_EQ(failed.Find("a", At(3s) + FailedPlans::kLongestPause), nullptr);
  failed.Remove("a");
  EXPECT_TRUE(failed.Add("a", {ErrorCode::kUnimplemented, "why"}, At(3s)));
}

TEST(FailedPlansTest, AreBounded) {
  FailedPlans failed;
  for (std::size_t i = 0; i < 3 * FailedPlans::kMost; ++i) {
    failed.Add(std::to_string(i), {ErrorCode::kUnimplemented, "why"}, At(Nanoseconds(0)));
  }
  EXPECT_EQ(failed.size(), FailedPlans::kMost);
  EXPECT_EQ(failed.Find("0", At(Nanoseconds(0))), nullptr);
  EXPECT_NE(failed.Find(std::to_string(3 * FailedPlans::kMost - 1), At(Nanoseconds(0))), nullptr);
}

}  // namespace
}  // namespace lagoon
