#include "bench/report/csv.h"

#include <gtest/gtest.h>

namespace lagoon::bench {
namespace {

TEST(CsvTable, QuotesWhatAReaderWouldSplit) {
  CsvTable table({"scheduler", "value"});
  table.Add({"reef:padding_kernels=4,depth=2", "1.5"});
  table.Add({"say \"x\"\n", ""});
  EXPECT_EQ(table.Text(),
            "scheduler,value\n\"reef:padding_kernels=4,depth=2\",1.5\n\"say \"\"x\"\"\n\",\n");
}

TEST(CsvTable, NamesAFileThatCannotBeWritten) {
  const Status status = CsvTable({"a"}).Write("/nowhere/at/all.csv");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "'/nowhere/at/all.csv' cannot be written");
}

}  // namespace
}  // namespace lagoon::bench
