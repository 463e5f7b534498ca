#include "kernels/elementwise/byte_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/testing/typed.h"

namespace lagoon {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(ByteTable, LooksUpEveryByte) {
  Bytes table(kByteTableSize);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i * 73 + 5);
  for (const std::size_t count : {1U, 31U, 32U, 33U, 256U, 1000U, 100'003U}) {
    Bytes x(count), expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      x[i] = static_cast<std::uint8_t>(i * 3 + i / 256);
      expected[i] = static_cast<std::uint8_t>(x[i] * 73 + 5);
    }
    testing::TypedRun run(*MakeByteTable(count), {testing::ToBytes(x), testing::ToBytes(table)},
                          {count});
    run.ExpectTiles();
    ASSERT_EQ(testing::FromBytes<std::uint8_t>(run.Run()[0]), expected) << count;
  }
  EXPECT_FALSE(MakeByteTable(0));
}

}  // namespace
}  // namespace lagoon
