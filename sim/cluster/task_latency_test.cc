#include "sim/cluster/task_latency.h"

#include <gtest/gtest.h>

#include <limits>

namespace lagoon {
namespace {

TEST(TaskLatency, WaitsForWholeBatchesAheadOfIt) {
  TaskAhead ahead{.waiting = 3, .rows = 4, .running_ms = 7, .batch_ms = 10, .rate = 100};
  EXPECT_DOUBLE_EQ(TaskLatencyMs(ahead), 17);  // it fills the first batch
  ahead.waiting = 8;                           // it is the ninth: in the third batch
  EXPECT_DOUBLE_EQ(TaskLatencyMs(ahead), 37);
}

TEST(TaskLatency, WaitsUntilItsBatchIsFull) {
  TaskAhead ahead{.waiting = 1, .rows = 4, .running_ms = 7, .batch_ms = 10, .rate = 100};
  EXPECT_DOUBLE_EQ(TaskLatencyMs(ahead), 30);  // two more come in 20 ms
  ahead.running_ms = 25;                       // longer than that
  EXPECT_DOUBLE_EQ(TaskLatencyMs(ahead), 35);
  ahead.rate = 0;
  EXPECT_EQ(TaskLatencyMs(ahead), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace lagoon
