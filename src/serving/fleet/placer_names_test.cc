#include "serving/fleet/placer_names.h"

#include <gtest/gtest.h>

#include <string>

namespace lagoon {
namespace {

TEST(FleetPlacerNames, UnknownOnesAreRefusedWithTheList) {
  for (const std::string& name : FleetPlacers()) {
    const auto made = MakeFleetPlacer(name);
    ASSERT_TRUE(made);
    EXPECT_EQ((*made)->name(), name);
  }
  const auto unknown = MakeFleetPlacer("best");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message.find("'best'"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("least-loaded, lagoon"), std::string::npos);
}

}  // namespace
}  // namespace lagoon
