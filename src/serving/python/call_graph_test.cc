#include "serving/python/call_graph.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

TEST(CallGraph, CallsWithoutACircleAreFine) {
  CallGraph graph;
  EXPECT_TRUE(graph.Add("a", "b", {}));
  EXPECT_TRUE(graph.Add("a", "c", {}));
  EXPECT_TRUE(graph.Add("b", "c", {}));
  EXPECT_TRUE(graph.Add("a", "b", {}));
}

TEST(CallGraph, ACircleIsRefusedWithItsModels) {
  CallGraph graph;
  EXPECT_FALSE(graph.Add("a", "a", {}));
  ASSERT_TRUE(graph.Add("a", "b", {}));
  ASSERT_TRUE(graph.Add("b", "c", {}));
  const Status circle = graph.Add("c", "a", {});
  ASSERT_FALSE(circle);
  EXPECT_EQ(circle.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(circle.error().message.find("c -> a -> b -> c"), std::string::npos)
      << circle.error().message;
  EXPECT_TRUE(graph.Add("a", "c", {})) << "a refused call leaves nothing behind";
}

TEST(CallGraph, StepsOfAnEnsembleCount) {
  CallGraph graph;
  EXPECT_FALSE(graph.Add("a", "ensemble", {"x", "a"}));
  EXPECT_TRUE(graph.Add("a", "ensemble", {"x"})) << "the ensemble was loaded with other steps";
  EXPECT_FALSE(graph.Add("x", "a", {}));
}

TEST(CallGraph, AModelThatIsLoadedAnewBeginsAnew) {
  CallGraph graph;
  ASSERT_TRUE(graph.Add("a", "b", {}));
  graph.Forget("a");
  EXPECT_TRUE(graph.Add("b", "a", {}));
}

}  // namespace
}  // namespace lagoon
