#include "ort/borrowed_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace lagoon::plugin {
namespace {

std::string TextAt(const BorrowedWeights& weights, const std::string& location, std::size_t offset,
                   std::size_t bytes) {
  std::string text(bytes, '?');
  const Status read = weights.ReadAt(location, offset, std::as_writable_bytes(std::span(text)));
  return read ? text : read.error().message;
}

TEST(BorrowedWeights, AreReadWhereTheyLieAndThenFromTheCopy) {
  std::string first = "abcdef", empty, second = "ghi";
  BorrowedWeights weights;
  const std::string a = weights.Add(std::as_bytes(std::span(first)));
  weights.Add(std::as_bytes(std::span(empty)));
  const std::string b = weights.Add(std::as_bytes(std::span(second)));
  EXPECT_EQ(weights.SizeOf(a), 6u);
  EXPECT_EQ(weights.SizeOf(b), 3u);
  EXPECT_EQ(weights.bytes(), 9u);
  EXPECT_EQ(TextAt(weights, a, 2, 4), "cdef");
  first[2] = 'C';
  EXPECT_EQ(TextAt(weights, a, 2, 4), "Cdef") << "no copy";
  ASSERT_TRUE(weights.Keep());
  first = second = "******";
  EXPECT_EQ(TextAt(weights, a, 0, 6), "abCdef");
  EXPECT_EQ(TextAt(weights, b, 1, 2), "hi");
}

TEST(BorrowedWeights, ThoseThatWereForgottenOrAreNotThereAreErrors) {
  const std::string first = "abcdef";
  BorrowedWeights weights;
  const std::string a = weights.Add(std::as_bytes(std::span(first)));
  EXPECT_THAT(TextAt(weights, a, 5, 2), testing::HasSubstr("there is no constant"));
  for (const char* location : {"", "1", "-1", "0x", "99999999999999999999999"}) {
    EXPECT_FALSE(weights.SizeOf(location)) << location;
    EXPECT_THAT(TextAt(weights, location, 0, 1), testing::HasSubstr("there is no constant"));
  }
  weights.Forget();
  EXPECT_THAT(TextAt(weights, a, 0, 1), testing::HasSubstr("was not kept"));
}

}  // namespace
}  // namespace lagoon::plugin
