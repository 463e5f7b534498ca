#include "ort/factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace lagoon::plugin {
namespace {

using testing::HasSubstr;

// An ONNX Runtime whose newest ABI is version 22.
std::string said;
std::array<const void*, 1> oldest;

AbiStatus* MakeStatus(int code, const char* message) {
  said = std::to_string(code) + " " + message;
  return reinterpret_cast<AbiStatus*>(&said);
}
const void* const* TableOf(std::uint32_t version) {
  return version <= 22 ? oldest.data() : nullptr;
}

TEST(OrtFactory, AnOnnxRuntimeThatIsTooOldIsRefusedByName) {
  oldest[0] = reinterpret_cast<const void*>(&MakeStatus);
  const ApiBase base{TableOf, [] { return "1.22.1"; }};
  Factory* factory = nullptr;
  std::size_t made = 7;
  EXPECT_NE(CreateEpFactories("lagoon", &base, nullptr, &factory, 1, &made), nullptr);
  EXPECT_EQ(made, 0u);
  EXPECT_THAT(said, HasSubstr("this is ONNX Runtime 1.22.1"));
  EXPECT_THAT(said, HasSubstr("9 lagoon: "));
}

TEST(OrtFactory, WithoutAnyTableThereIsNoFactory) {
  const ApiBase base{[](std::uint32_t) -> const void* const* { return nullptr; }, nullptr};
  Factory* factory = nullptr;
  std::size_t made = 7;
  EXPECT_EQ(CreateEpFactories("lagoon", &base, nullptr, &factory, 1, &made), nullptr);
  EXPECT_EQ(made, 0u);
  EXPECT_EQ(factory, nullptr);
}

TEST(OrtFactory, TotalsAreZeroBeforeTheDeviceIsOpen) {
  std::uint64_t totals[3] = {1, 2, 3};
  LagoonOrtTotals(totals);
  EXPECT_THAT(totals, testing::ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace lagoon::plugin
