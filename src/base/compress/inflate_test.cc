#include "base/compress/inflate.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

#include "base/compress/deflate.h"
#include "base/testing/deflate.h"

namespace lagoon {
namespace {

// Feeds `deflated` in pieces of `in` bytes, and takes pieces of `out` bytes. nullopt: kBad.
std::optional<std::string> Inflate(std::string_view deflated, std::size_t in, std::size_t out) {
  Inflater inflater;
  std::string inflated;
  std::string piece(out, '\0');
  for (;;) {
    const bool last = deflated.size() <= in;
    auto input = std::as_bytes(std::span(deflated.substr(0, in)));
    const std::size_t offered = input.size();
    const auto step = inflater.Next(input, last, std::as_writable_bytes(std::span(piece)));
    deflated.remove_prefix(offered - input.size());
    inflated += piece.substr(0, step.written);
    if (step.state == Inflater::State::kDone) return inflated;
    if (step.state == Inflater::State::kBad) return std::nullopt;
  }
}

TEST(Inflater, InflatesGzipAndDeflateInAnyPieces) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * i);
  for (const bool gzip : {true, false}) {
    const std::string deflated = Deflated(text, gzip);
    for (const std::size_t in : {1u, 100u, 1u << 20}) {
      EXPECT_EQ(Inflate(deflated, in, 999), text);
    }
    EXPECT_EQ(Inflate(deflated, 77, 1 << 20), text);
  }
  EXPECT_EQ(Inflate(Deflated(""), 5, 10), "");
  EXPECT_EQ(Inflate(Deflated("ab") + Deflated("cd"), 7, 1), "abcd") << "members of gzip add up";
}

TEST(Inflater, RefusesWhatIsDamaged) {
  const std::string deflated = Deflated("some text that is long enough");
  for (std::size_t size = 0; size < deflated.size(); ++size) {
    EXPECT_EQ(Inflate(deflated.substr(0, size), 1000, 100), std::nullopt) << size;
  }
  EXPECT_EQ(Inflate(deflated + "x", 1000, 100), std::nullopt);
  EXPECT_EQ(Inflate("{}", 1000, 100), std::nullopt);
  std::string wrong = deflated;
  wrong[wrong.size() - 6] ^= 1;  // the checksum
  EXPECT_EQ(Inflate(wrong, 1000, 100), std::nullopt);
}

TEST(Deflate, IsInflatedToTheSameParts) {
  std::string noise(700'000, '\0');
  unsigned state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  const std::string text(3'000'000, 'a');
  for (const bool gzip : {true, false}) {
    for (const auto& [first, second] :
         {std::pair(noise, text), std::pair(text, noise), std::pair(std::string(), std::string()),
          std::pair(std::string("a"), std::string())}) {
      const std::array parts = {std::as_bytes(std::span(first)), std::as_bytes(std::span(second))};
      std::string deflated;
      for (const UnfilledBytes& piece : Deflate(parts, gzip)) {
        deflated.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      }
      EXPECT_EQ(Inflate(deflated, 1 << 16, 1 << 16), first + second);
      EXPECT_LT(deflated.size(), noise.size() + 20'000);
    }
  }
}

}  // namespace
}  // namespace lagoon
