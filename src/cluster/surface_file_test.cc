#include "cluster/surface_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/test_folder.h"
#include "sim/surfaces/v100_surfaces.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const auto surface = ParseSurface(text, "a.json");
  return surface ? "" : surface.error().message;
}

// A document with these fields beside the texts.
std::string With(std::string_view fields) {
  return R"({"model":"m","device":"d","source":"s",)" + std::string(fields) + "}";
}

void ExpectSame(const NamedSurface& left, const NamedSurface& right) {
  EXPECT_EQ(left.model, right.model);
  EXPECT_EQ(left.device, right.device);
  EXPECT_EQ(left.source, right.source);
  for (const std::int64_t rows : {1, 3, 8, 40}) {
    for (const double share : {0.01, 0.3, 0.77, 1.0}) {
      EXPECT_EQ(left.surface.LatencyMs(rows, share), right.surface.LatencyMs(rows, share));
    }
  }
}

TEST(SurfaceFile, FormulasAreReadBackAsWritten) {
  for (const NamedSurface& named : V100Surfaces()) {
    const auto read = ParseSurface(SurfaceText(named), "a.json");
    ASSERT_TRUE(read) << read.error().message;
    ExpectSame(*read, named);
  }
}

TEST(SurfaceFile, PointsAreReadBackAsWritten) {
  const auto surface =
      Surface::FromPoints({{1, 8}, {0.1, 1.0 / 3, 1}, {{50, 30, 1.0 / 7}, {51, 33, 20.1}}});
  ASSERT_TRUE(surface);
  const NamedSurface named{"m", "d", "s", *surface};
  const TestFolder folder;
  const std::string path = folder / "surface.json";
  ASSERT_TRUE(WriteSurfaceFile(path, named));
  const auto read = ReadSurfaceFile(path);
  ASSERT_TRUE(read) << read.error().message;
  ExpectSame(*read, named);
}

TEST(SurfaceFile, AFileThatIsNotThereIsNamed) {
  const auto read = ReadSurfaceFile("/nowhere/a.json");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read.error().message, "surface '/nowhere/a.json': cannot be read");
  const auto written = WriteSurfaceFile("/nowhere/a.json", V100Surfaces().front());
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "surface '/nowhere/a.json': cannot be written");
  EXPECT_FALSE(ReadSurfaceFile("/"));  // a folder
}

TEST(SurfaceFile, ABadFileIsRefusedWithItsNameTheFieldAndTheValue) {
  EXPECT_THAT(ErrorOf("{"),
              HasSubstr("surface 'a.json': is not JSON: '{'; it takes {\"model\": a"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("surface 'a.json': is '[]', not an object: {\"model\": a"));
  EXPECT_EQ(ErrorOf(R"({"model":7})"),
            "surface 'a.json': 'model' is '7'; it takes a text that is not empty");
  EXPECT_EQ(ErrorOf(R"({"model":"m","device":""})"),
            "surface 'a.json': 'device' is '\"\"'; it takes a text that is not empty");
  EXPECT_EQ(ErrorOf(R"({"model":"m","device":"d"})"),
            "surface 'a.json': has no 'source', which is a text that is not empty");
  EXPECT_EQ(
      ErrorOf(With(R"("extra":1)")),
      "surface 'a.json': has the unknown field 'extra', which is '1'; there are model, device, "
      "source, formula, points");
  EXPECT_EQ(ErrorOf(R"({"model":"m","device":"d","source":"s"})"),
            "surface 'a.json': has neither 'formula' nor 'points', must have one of them");
  EXPECT_EQ(ErrorOf(With(R"("formula":{"base_ms":1,"row_ms":1,"fixed":0,"knee":1,"growth":0},)"
                         R"("points":{"rows":[1],"shares":[1],"latency_ms":[[1]]})")),
            "surface 'a.json': has both 'formula' and 'points', must have one of them");
  EXPECT_THAT(ErrorOf(With(R"("formula":[1])")),
              HasSubstr("surface 'a.json': 'formula': is '[1]', not an object: {\"base_ms\": a"));
  EXPECT_EQ(ErrorOf(With(R"("formula":{"base_ms":1,"row_ms":"x"})")),
            "surface 'a.json': 'formula': 'row_ms' is '\"x\"'; it takes a number");
  EXPECT_EQ(ErrorOf(With(R"("formula":{"base_ms":1,"row_ms":1,"fixed":2,"knee":1,"growth":0})")),
            "surface 'a.json': 'formula': fixed is 2, must be from 0 to 1");
  EXPECT_EQ(ErrorOf(With(R"("points":{"rows":[1.5],"shares":[1],"latency_ms":[[1]]})")),
            "surface 'a.json': 'points': 'rows' is '[1.5]'; it takes a list of whole numbers");
  EXPECT_EQ(ErrorOf(With(R"("points":{"rows":[18446744073709551615],"shares":[1],)"
                         R"("latency_ms":[[1]]})")),
            "surface 'a.json': 'points': an entry of rows is -1, must be from 1 to 1000000");
  EXPECT_EQ(ErrorOf(With(R"("points":{"rows":[1],"shares":1,"latency_ms":[[1]]})")),
            "surface 'a.json': 'points': 'shares' is '1'; it takes a list of numbers");
  EXPECT_EQ(ErrorOf(With(R"("points":{"rows":[1],"shares":[1],"latency_ms":[1]})")),
            "surface 'a.json': 'points': 'latency_ms' is '[1]'; it takes a list of lists of "
            "numbers");
  EXPECT_EQ(ErrorOf(With(R"("points":{"rows":[1],"shares":[1],"latency_ms":[[-3]]})")),
            "surface 'a.json': 'points': latency_ms[0][0] is -3, must be from 1e-06 to 1000000000");
  EXPECT_THAT(ErrorOf(With("\"\xff\":1")), HasSubstr("surface 'a.json': is not JSON"));
}

}  // namespace
}  // namespace lagoon
