#include "plan/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "plan/bytes_tensor.h"
#include "plan/tensor.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> Table(const std::vector<StringElement>& elements) {
  return std::as_bytes(std::span(elements));
}

TEST(Strings, BecomeATableAndTheProtocolsFormAgain) {
  std::vector<std::byte> data;
  for (const std::string& text : {std::string("one"), std::string(), std::string("a\0b", 3)}) {
    AppendBytesElement(text, data);
  }
  const auto table = StringsOf(data, 3);
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ(Table(*table).size(), 3 * SizeOf(DataType::kString));
  EXPECT_EQ((*table)[0].text(), "one");
  EXPECT_NE((*table)[1].data, nullptr);  // an empty string is there
  EXPECT_EQ((*table)[1].text(), "");
  EXPECT_EQ((*table)[2].text(), std::string("a\0b", 3));
  ASSERT_EQ(ProtocolBytes(Table(*table)).value(), data.size());
  std::vector<std::byte> again(data.size());
  WriteProtocolBytes(Table(*table), again.data());
  EXPECT_EQ(again, data);
}

TEST(Strings, MemoryOfZerosReadsAsZeros) {
  const std::vector<StringElement> table(2);
  EXPECT_EQ(StringAt(table.data(), 1).text(), "0");
  std::vector<char> data(ProtocolBytes(Table(table)).value());
  WriteProtocolBytes(Table(table), reinterpret_cast<std::byte*>(data.data()));
  EXPECT_THAT(data, ElementsAre(1, 0, 0, 0, '0', 1, 0, 0, 0, '0'));
}

TEST(Strings, CountsThatLieTakeNoMemory) {
  std::vector<std::byte> data;
  AppendBytesElement("one", data);
  const auto table = StringsOf(data, std::numeric_limits<std::size_t>::max());
  ASSERT_FALSE(table.has_value());
  EXPECT_THAT(table.error().message, HasSubstr("has 1 elements"));
  EXPECT_TRUE(StringsOf({}, 0).has_value());
}

TEST(Strings, AnElementThatIsTooLongForTheProtocolIsRefused) {
  const std::vector<StringElement> table = {{"", std::uint64_t{1} << 32}};  // never read
  const auto bytes = ProtocolBytes(Table(table));
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(bytes.error().message, HasSubstr("element 0 has 4294967296 bytes"));
}

}  // namespace
}  // namespace lagoon
