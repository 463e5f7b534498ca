#include "serving/request/tenants.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>

namespace lagoon {
namespace {

using ::testing::HasSubstr;

using Hold = std::shared_ptr<const Tenants::Hold>;

class TenantsTest : public ::testing::Test {
 protected:
  Result<Hold> TryTake(const std::string& name) {
    InferRequest request;
    request.tenant_of_header = name;
    request.tenant_of_parameter = "other";
    return tenants_->Take(request);
  }
  Hold Take(const std::string& name) {
    Result<Hold> hold = TryTake(name);
    EXPECT_TRUE(hold) << hold.error().message;
    return *hold;
  }

  std::array<std::uint64_t, kMaxTenants + 1> kernels_{};
  std::shared_ptr<Tenants> tenants_ = std::make_shared<Tenants>(
      TenantSource::kHeader, [this](std::uint32_t tenant) { return kernels_.at(tenant); });
};

TEST_F(TenantsTest, ANameHasOneNumberWhileItsRequestsAreInFlight) {
  const Hold a = Take("a"), b = Take("b"), again = Take("a");
  EXPECT_EQ(a->number(), again->number());
  EXPECT_NE(a->number(), b->number());
  EXPECT_GT(a->number(), 0u);
  EXPECT_EQ(Take(""), nullptr);
}

TEST_F(TenantsTest, OnlyTheSourceCounts) {
  InferRequest request;
  request.tenant_of_parameter = "a";
  EXPECT_EQ(*tenants_->Take(request), nullptr) << "the header counts";
  request.tenant_of_header = "b";
  const auto none = std::make_shared<Tenants>(TenantSource::kNone, [](std::uint32_t) { return 0; });
  EXPECT_EQ(*none->Take(request), nullptr);
  EXPECT_TRUE(none->Statistics().empty());
  const auto parameter =
      std::make_shared<Tenants>(TenantSource::kParameter, [](std::uint32_t) { return 0; });
  const Hold hold = *parameter->Take(request);
  EXPECT_EQ(parameter->Statistics().at(0).name, "a");
}

TEST_F(TenantsTest, HostileNamesAreRefused) {
  for (const std::string& name :
       {std::string(65, 'a'), std::string(1'000'000, 'a'), std::string("a\nb"),
        std::string("\xff\xfe"), std::string(1, '\0')}) {
    const Result<Hold> hold = TryTake(name);
    ASSERT_FALSE(hold);
    EXPECT_EQ(hold.error().code, ErrorCode::kInvalidArgument);
    EXPECT_LT(hold.error().message.size(), 400u);
  }
  EXPECT_THAT(TryTake(std::string(65, 'a')).error().message,
              HasSubstr("65 bytes, the limit is 64"));
  EXPECT_TRUE(TryTake(std::string(64, 'a')));
  EXPECT_EQ(tenants_->Statistics().size(), 1u);
}

TEST_F(TenantsTest, AreAsManyAsTheDispatcherKnowsHoweverManyClientsSend) {
  std::vector<Hold> holds;
  for (std::uint32_t i = 0; i < kMaxTenants; ++i) holds.push_back(Take(fmt::format("t{}", i)));
  const Result<Hold> refused = TryTake("late");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("tenant 'late': 1024 other tenants"));
  EXPECT_NE(Take("t7"), nullptr) << "it has a number";
  const std::uint32_t freed = holds[3]->number();
  holds[3] = nullptr;
  EXPECT_EQ(Take("late")->number(), freed);

  holds.clear();
  for (int i = 0; i < 100'000; ++i) {
    const Hold hold = Take(fmt::format("one of many {}", i));
    ASSERT_LE(hold->number(), kMaxTenants);
  }
  EXPECT_EQ(tenants_->Statistics().size(), kMaxTenants);
}

// The one that has been idle for longest gives its number, and its count, away.
TEST_F(TenantsTest, CountsBelongToANameUntilAnotherOneTakesItsNumber) {
  const std::uint32_t number = Take("first")->number();
  kernels_.at(number) = 10;
  EXPECT_EQ(tenants_->Statistics().at(0).kernels, 10u);
  for (std::uint32_t i = 1; i < kMaxTenants; ++i) Take(fmt::format("t{}", i));
  EXPECT_EQ(Take("first")->number(), number) << "kept while there are numbers";
  for (std::uint32_t i = 1; i < kMaxTenants; ++i) Take(fmt::format("u{}", i));
  EXPECT_EQ(Take("new")->number(), number);
  kernels_.at(number) = 12;
  EXPECT_EQ(tenants_->Statistics().at(number - 1).name, "new");
  EXPECT_EQ(tenants_->Statistics().at(number - 1).kernels, 2u);
}

TEST_F(TenantsTest, AHoldMayOutliveTheTable) {
  const Hold hold = Take("a");
  tenants_ = nullptr;
  EXPECT_EQ(hold->number(), 1u);
}

}  // namespace
}  // namespace lagoon
