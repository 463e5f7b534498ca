#include "learn/weights.h"

#include <gtest/gtest.h>

#include <limits>

namespace lagoon::learn {
namespace {

constexpr std::uint64_t kMeaning = 42;

std::string Encoded() {
  Random random(1);
  const Mlp first({3, 4, 2}, random), second({2, 1}, random);
  return EncodeWeights(kMeaning, {&first, &second});
}

std::string ErrorOf(std::string_view bytes, std::uint64_t meaning = kMeaning) {
  const auto decoded = DecodeWeights("w", bytes, meaning);
  if (decoded) return "";
  EXPECT_EQ(decoded.error().code, ErrorCode::kInvalidArgument);
  return decoded.error().message;
}

TEST(Weights, ComeBackAsTheyWere) {
  Random random(1);
  const Mlp first({3, 4, 2}, random), second({2, 1}, random);
  const auto decoded = DecodeWeights("w", EncodeWeights(kMeaning, {&first, &second}), kMeaning);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  ASSERT_EQ(decoded->size(), 2U);
  EXPECT_EQ((*decoded)[0].sizes(), first.sizes());
  EXPECT_TRUE(std::ranges::equal((*decoded)[0].parameters(), first.parameters()));
  EXPECT_TRUE(std::ranges::equal((*decoded)[1].parameters(), second.parameters()));
}

TEST(Weights, OfOtherFeaturesAreRefused) {
  EXPECT_EQ(ErrorOf(Encoded(), 43),
            "weights 'w': was trained for other features or sizes (hash 000000000000002a, this "
            "program has 000000000000002b): train it again");
}

TEST(Weights, ThatAreNoneAreRefused) {
  EXPECT_EQ(ErrorOf(""), "weights 'w': is not a file of weights");
  EXPECT_EQ(ErrorOf("PNG and so on, long enough to be one"),
            "weights 'w': is not a file of weights");
  std::string other = Encoded();
  other[7] = 9;
  EXPECT_EQ(ErrorOf(other), "weights 'w': has version 9 of the format, must be 1");
}

TEST(Weights, AreRefusedIfAnyByteIsMissingOrChanged) {
  const std::string whole = Encoded();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(ErrorOf(std::string_view(whole).substr(0, size)), "") << size;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_NE(ErrorOf(damaged), "") << i;
  }
}

// With a hash that is right, so that only the content is wrong.
std::string Sealed(std::string body) {
  const std::uint64_t hash = HashOf(body);
  for (int i = 0; i < 8; ++i) body.push_back(static_cast<char>((hash >> (8 * i)) & 0xff));
  return body;
}

TEST(Weights, WithSizesOutOfBoundsAreRefused) {
  const std::string whole = Encoded();
  std::string body = whole.substr(0, whole.size() - 8);
  body[24] = 99;  // number of sizes of the first network
  EXPECT_EQ(ErrorOf(Sealed(body)), "weights 'w': has a network of 99 sizes, must be 2 to 16");
  body = whole.substr(0, whole.size() - 8);
  body[32] = 0;  // its first size
  EXPECT_EQ(ErrorOf(Sealed(body)), "weights 'w': has a layer of 0 neurons, must be 1 to 65536");
  body = whole.substr(0, whole.size() - 8) + "more";
  EXPECT_EQ(ErrorOf(Sealed(body)), "weights 'w': goes on behind its networks");
}

TEST(Weights, ThatAreNotFiniteAreRefused) {
  Mlp mlp({1, 1});
  mlp.parameters()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(ErrorOf(EncodeWeights(kMeaning, {&mlp})),
            "weights 'w': has a weight that is not finite");
}

TEST(Weights, FilesThatCannotBeReadOrWrittenAreNamed) {
  const Status written = WriteFileWhole("/no/such/folder/w", "x");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().message,
            "cannot write '/no/such/folder/w': is there such a folder, and space?");
  const auto read = ReadFileWhole("/no/such/folder/w");
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().message, "cannot read '/no/such/folder/w'");
}

}  // namespace
}  // namespace lagoon::learn
