#include "device/host/copy_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lagoon {
namespace {

std::vector<std::byte> Bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

void ExpectOnlyItsBytes(bool past_caches) {
  constexpr std::size_t kEdge = 100;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{3} << 20}) {
    const std::vector<std::byte> from = Bytes(bytes + kEdge);
    for (const std::size_t shift : {0, 1, 63}) {
      for (const std::size_t begin : {std::size_t{0}, bytes / 3}) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{63}, std::size_t{65536}}) {
          std::vector<std::byte> to(bytes + 2 * kEdge);
          Copy copy;
          copy.from = from.data() + shift % 7;
          copy.to = to.data() + shift;
          copy.bytes = bytes;
          copy.past_caches = past_caches;
          const std::size_t some = std::min(count, bytes - begin);
          CopyRange(copy, begin, some);
          std::vector<std::byte> want(to.size());
          std::copy_n(from.data() + shift % 7 + begin, some, want.data() + shift + begin);
          EXPECT_TRUE(to == want) << bytes << " bytes, " << some << " of them from " << begin;
        }
      }
    }
  }
}

TEST(CopyRange, CopiesOfAnySizeAndPlaceWriteTheirBytesOnly) {
  ExpectOnlyItsBytes(/*past_caches=*/false);
  ExpectOnlyItsBytes(/*past_caches=*/true);
}

TEST(CopyRange, CopiesPastTheCachesInPartsReadAndWriteEachPart) {
  constexpr std::size_t kBytes = std::size_t{3} << 20, kFirst = 1'000'001;
  std::vector<std::byte> host = Bytes(kBytes), device(kBytes);
  const std::vector<std::byte> before = host;
  const HostPart parts[] = {
      {host.data(), kFirst}, {nullptr, 77}, {host.data() + kFirst, kBytes - kFirst - 77}};
  Copy copy;
  copy.bytes = kBytes;
  copy.past_caches = true;
  copy.parts = parts;
  copy.to = device.data();
  ASSERT_TRUE(PartsFit(copy));
  CopyRange(copy, 0, kBytes);
  EXPECT_TRUE(std::equal(host.begin(), host.begin() + kFirst, device.begin()));
  EXPECT_EQ(std::count(device.begin() + kFirst, device.begin() + kFirst + 77, std::byte{}), 77);
  EXPECT_TRUE(std::equal(device.begin() + kFirst + 77, device.end(), host.begin() + kFirst));

  std::ranges::fill(host, std::byte{});
  copy.from = device.data();
  copy.to = nullptr;
  CopyRange(copy, 0, kBytes);
  EXPECT_TRUE(std::equal(host.begin(), host.end() - 77, before.begin()));
}

}  // namespace
}  // namespace lagoon
