// conv2d in bf16: the same shapes as in fp32, on every unit of this process's level. Compares with
// fp64 sums over operands rounded to bf16.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/conv/bf16/bf16_unit.h"
#include "kernels/conv/conv2d_kernel.h"
#include "kernels/testing/conv2d_cases.h"
#include "kernels/testing/conv2d_protocol.h"

namespace lagoon {
namespace {

using testing::ConvCase;
using testing::ConvProblem;
using ::testing::HasSubstr;
using testing::ProtocolCase;
using ::testing::StartsWith;

/// The names of all units, so that the tests of a unit that this machine lacks are listed as
/// skipped.
std::vector<std::string> UnitNames() {
  std::vector<std::string> names;
  for (const Bf16Unit* unit : Bf16UnitsOf(CpuLevel::kAmx)) names.emplace_back(unit->name);
  return names;
}

const Bf16Unit* FindByName(const std::string& name) {
  for (const Bf16Unit* unit : Bf16UnitsOf(ActiveCpuLevel())) {
    if (name == unit->name) return unit;
  }
  return nullptr;
}

template <typename Shape>
class OnUnit : public ::testing::TestWithParam<std::tuple<std::string, Shape>> {
 protected:
  void SetUp() override {
    unit_ = FindByName(std::get<0>(this->GetParam()));
    if (unit_ == nullptr) GTEST_SKIP() << "this CPU has no " << std::get<0>(this->GetParam());
  }
  const Shape& shape() const { return std::get<1>(this->GetParam()); }
  /// The problem in bf16. A matrix-vector product needs no unit.
  ConvProblem Problem(Conv2dSpec spec) const {
    spec.precision = Precision::kBf16;
    return ConvProblem(spec, IsGemv(spec) ? nullptr : unit_);
  }

 private:
  const Bf16Unit* unit_ = nullptr;
};

std::string NameOf(const std::string& unit, const std::string& shape) {
  std::string name = unit + "_" + shape;
  std::ranges::replace(name, '-', '_');
  return name;
}

class Bf16Conv2dTest : public OnUnit<ConvCase> {};

TEST_P(Bf16Conv2dTest, MatchesReferenceOfRoundedOperands) {
  ConvProblem problem = Problem(shape().spec);
  std::ranges::fill(problem.y.span(), testing::kUnwritten);
  ASSERT_TRUE(problem.RunAll());
  testing::ExpectReference(problem);
}

TEST_P(Bf16Conv2dTest, BlocksWriteTheirOwnTileOnly) {
  ConvProblem problem = Problem(shape().spec);
  testing::ExpectBlocksWriteTheirOwnTileOnly(problem);
}

// The order of additions does not depend on how the output is cut.
TEST_P(Bf16Conv2dTest, AllVersionsGiveTheSameBits) {
  ConvProblem problem = Problem(shape().spec);
  ASSERT_TRUE(problem.RunAll());
  const std::vector<float> first(problem.y.span().begin(), problem.y.span().end());
  for (const KernelVersion& version : problem.kernel.versions) {
    problem.Use(version);
    std::ranges::fill(problem.y.span(), testing::kUnwritten);
    ASSERT_TRUE(problem.RunAll());
    ASSERT_TRUE(std::ranges::equal(problem.y.span(), first)) << version.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Bf16Conv2dTest,
                         ::testing::Combine(::testing::ValuesIn(UnitNames()),
                                            ::testing::ValuesIn(testing::ConvCases())),
                         [](const auto& test) {
                           return NameOf(std::get<0>(test.param), std::get<1>(test.param).name);
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Bf16Conv2dTest);

class Bf16Conv2dProtocolTest : public OnUnit<ProtocolCase> {};

TEST_P(Bf16Conv2dProtocolTest, LeavesUnseenAtEveryCheckAndComputesTheSameAgain) {
  ConvProblem problem = Problem(testing::SpecOf(shape()));
  testing::ExpectLeavesUnseenAtEveryCheckAndComputesTheSameAgain(problem);
}

TEST_P(Bf16Conv2dProtocolTest, ChecksOftenEnoughAndBlocksAreShort) {
#ifdef LAGOON_TEST_SANITIZED
  GTEST_SKIP() << "times mean nothing under a sanitizer";
#endif
  ConvProblem problem = Problem(testing::SpecOf(shape()));
  testing::ExpectChecksOftenEnoughAndShortBlocks(problem);
}

INSTANTIATE_TEST_SUITE_P(Layers, Bf16Conv2dProtocolTest,
                         ::testing::Combine(::testing::ValuesIn(UnitNames()),
                                            ::testing::ValuesIn(testing::kProtocolCases)),
                         [](const auto& test) {
                           return NameOf(std::get<0>(test.param), std::get<1>(test.param).name);
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Bf16Conv2dProtocolTest);

// A pixel with an infinity does not change its neighbours, also where the depth ends within a step.
TEST(Bf16Conv2d, InfinityStaysInItsPixel) {
  if (Bf16UnitsOf(ActiveCpuLevel()).empty()) GTEST_SKIP() << "this CPU has no bf16";
  for (const Bf16Unit* unit : Bf16UnitsOf(ActiveCpuLevel())) {
    Conv2dSpec spec = testing::Gemm(40, 21, 48);
    spec.precision = Precision::kBf16;
    ConvProblem problem(spec, unit);
    problem.x.data()[7 * 21 + 3] = std::numeric_limits<float>::infinity();
    ASSERT_TRUE(problem.RunAll());
    for (std::size_t i = 0; i < problem.OutputCount(); ++i) {
      ASSERT_EQ(std::isfinite(problem.y.data()[i]), i / 48 != 7) << unit->name << " " << i;
    }
  }
}

Conv2dSpec DeepSpec() {
  Conv2dSpec spec = testing::SquareConv(256, 14, 256, 3, 1, 1);
  spec.precision = Precision::kBf16;
  return spec;
}

// How a convolution is cut depends on the speed of a unit: a fast unit has more cuts with blocks
// that are short enough. For units that this machine lacks, the test only computes the cuts.
TEST(Bf16Conv2d, DeepConvolutionsHaveManyVersionsOnEveryUnit) {
  for (const Bf16Unit* unit : Bf16UnitsOf(CpuLevel::kAmx)) {
    const std::size_t least = unit->level == CpuLevel::kAmx ? 20 : 7;
    EXPECT_GE(TileBf16Conv2d(DeepSpec(), *unit, kConvVersions).size(), least) << unit->name;
  }
}

TEST(Bf16Conv2d, VersionsAreNamedApartAndByTheirLevel) {
  if (Bf16UnitsOf(ActiveCpuLevel()).empty()) GTEST_SKIP() << "this CPU has no bf16";
  for (const Bf16Unit* unit : Bf16UnitsOf(ActiveCpuLevel())) {
    const Result<Kernel> kernel = MakeBf16Conv2d(DeepSpec(), *unit);
    ASSERT_TRUE(kernel);
    std::vector<std::string> names;
    for (const KernelVersion& version : kernel->versions) names.push_back(version.name);
    EXPECT_THAT(names, ::testing::Each(StartsWith(std::string(NameOf(unit->level)) + ":")));
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end()) << unit->name;
  }
}

TEST(Bf16Unit, ConvertRoundsToNearestEvenAndKeepsNaN) {
  if (Bf16UnitsOf(ActiveCpuLevel()).empty()) GTEST_SKIP() << "this CPU has no bf16";
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0f,      -0.0f,      1.0f,        1.00390625f, 1.01171875f,
                               -1.5f,     3.4e38f,    -3.39e38f,   kInfinity,   -kInfinity,
                               1e-38f,    1e-40f,     -1e-45f,     0.1f,        65537.0f,
                               1.003907f, 1.0039062f, 1.17549e-38f};
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  values.push_back(std::numeric_limits<float>::signaling_NaN());
  const testing::AlignedFloats random = testing::AlignedFloats::Random(1000, 5);
  values.insert(values.end(), random.span().begin(), random.span().end());
  std::vector<Bf16> rounded(values.size());
  for (const Bf16Unit* unit : Bf16UnitsOf(ActiveCpuLevel())) {
    unit->convert(values.data(), values.size(), rounded.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(rounded[i], ToBf16(values[i])) << unit->name << ": " << values[i];
    }
  }
}

TEST(Bf16Unit, ConvertTouchesNothingBehindTheEnd) {
  if (Bf16UnitsOf(ActiveCpuLevel()).empty()) GTEST_SKIP() << "this CPU has no bf16";
  constexpr Bf16 kMark{0x1234};
  for (const Bf16Unit* unit : Bf16UnitsOf(ActiveCpuLevel())) {
    for (std::size_t count = 0; count <= 70; ++count) {
      const std::vector<float> values(count, 1.0f);
      std::vector<Bf16> rounded(count + 1, kMark);
      unit->convert(values.data(), count, rounded.data());
      ASSERT_EQ(std::ranges::count(rounded, ToBf16(1.0f)), static_cast<std::ptrdiff_t>(count));
      ASSERT_EQ(rounded[count], kMark);
    }
  }
}

TEST(Bf16Unit, ErrorNamesTheLevelThatIsNeededAndTheOneThatThereIs) {
  for (const CpuLevel level : {CpuLevel::kPortable, CpuLevel::kAvx2, CpuLevel::kAvx512}) {
    const Result<const Bf16Unit*> none = FindBf16Unit(level);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::kUnimplemented);
    EXPECT_THAT(none.error().message, HasSubstr("needs a CPU of level 'avx512bf16'"));
    EXPECT_THAT(none.error().message, HasSubstr("runs at level '" + std::string(NameOf(level))));
  }
}

TEST(Bf16Unit, TheFastestOfTheLevelIsFound) {
  if (UnitNames().empty()) GTEST_SKIP() << "this build has no bf16";
  EXPECT_STREQ((*FindBf16Unit(CpuLevel::kAmx))->name, "AMX-BF16");
  EXPECT_STREQ((*FindBf16Unit(CpuLevel::kAvx512Bf16))->name, "AVX512-BF16");
}

TEST(Precision, IsParsedByNameAndRefusedByName) {
  EXPECT_EQ(*ParsePrecision("fp32"), Precision::kFp32);
  EXPECT_EQ(*ParsePrecision("bf16"), Precision::kBf16);
  const Result<Precision> wrong = ParsePrecision("int4");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("'int4'"));
}

// On any machine: MakeConv2d and CheckPrecision agree.
TEST(Precision, IsRefusedByTheFactoryWhereTheCpuLacksIt) {
  Conv2dSpec spec = testing::Gemm(10, 20, 30);
  spec.precision = Precision::kBf16;
  const Result<Kernel> kernel = MakeConv2d(spec);
  const Status status = CheckPrecision(Precision::kBf16);
  EXPECT_EQ(kernel.has_value(), status.has_value());
  EXPECT_EQ(status.has_value(), !Bf16UnitsOf(ActiveCpuLevel()).empty());
  if (kernel) return;
  EXPECT_EQ(kernel.error().message, status.error().message);
}

}  // namespace
}  // namespace lagoon
