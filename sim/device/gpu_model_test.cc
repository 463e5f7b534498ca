#include "sim/device/gpu_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "base/testing/paths.h"
#include "base/testing/test_folder.h"

namespace lagoon {
namespace {

using ::testing::HasSubstr;

std::string Text() { return std::string(BuiltInGpuModelText("mi50")); }

// `text` with the first `from` replaced; the test fails if there is none.
std::string With(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string ErrorOf(const std::string& text) {
  const Result<GpuModel> gpu = ParseGpuModel(text, "x.json");
  EXPECT_FALSE(gpu.has_value());
  if (gpu) return "";
  EXPECT_EQ(gpu.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(gpu.error().message, HasSubstr("x.json"));
  return gpu.error().message;
}

TEST(GpuModel, AllThatAreBuiltInLoadAndTellTheirSources) {
  EXPECT_EQ(BuiltInGpuModels().size(), 11u);
  for (const std::string_view name : BuiltInGpuModels()) {
    const Result<GpuModel> gpu = LoadGpuModel(std::string(name));
    ASSERT_TRUE(gpu.has_value()) << gpu.error().message;
    EXPECT_EQ(gpu->name, name);
    EXPECT_EQ(gpu->sources.size(), SimConstantTable().size());
  }
}

TEST(GpuModel, NamesTheUnitsOfTheirPapers) {
  EXPECT_EQ(LoadGpuModel("mi50")->constants.units, 60);      // REEF 6.2
  EXPECT_EQ(LoadGpuModel("gv100")->constants.units, 80);     // REEF 6.2
  EXPECT_EQ(LoadGpuModel("gtx1660s")->constants.units, 22);  // Paella 2.1
}

TEST(GpuModel, ConstantsAreAddressableByName) {
  std::set<std::string_view> names;
  for (const SimConstantInfo& info : SimConstantTable()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(FindSimConstant(info.name)->member, info.member);
    EXPECT_FALSE(info.meaning.empty());
  }
  EXPECT_EQ(names.size() * sizeof(std::int64_t), sizeof(SimConstants)) << "one has no name";
  EXPECT_EQ(FindSimConstant("speed"), nullptr);
}

TEST(GpuModel, TheDocumentListsEveryConstantOfEveryDevice) {
  std::ifstream file(SourceFolder() + "/sim/device/README.md");
  const std::string document((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
  for (const SimConstantInfo& info : SimConstantTable()) {
    std::string row = "| `" + std::string(info.name) + "` | " + std::string(info.meaning) + " |";
    for (const std::string_view name : BuiltInGpuModels()) {
      const GpuModel gpu = *LoadGpuModel(std::string(name));
      row += " " + std::to_string(gpu.constants.*info.member) + " |";
    }
    EXPECT_THAT(document, HasSubstr(row));
  }
}

TEST(GpuModel, AFileIsReadLikeOneThatIsBuiltIn) {
  const TestFolder folder;
  const std::string path = folder / "profile.json";
  std::ofstream(path) << With(Text(), "\"units\": {\"value\": 60", "\"units\": {\"value\": 7");
  const Result<GpuModel> gpu = LoadGpuModel(path);
  ASSERT_TRUE(gpu.has_value()) << gpu.error().message;
  EXPECT_EQ(gpu->constants.units, 7);
}

// GPUs have no threads of the idle class. A CPU has as many workers as its name says, which hold
// one block each, and nothing before them that holds up work.
TEST(GpuModel, CpusHaveABackgroundAndNoQueues) {
  EXPECT_FALSE(LoadGpuModel("mi50")->background);
  for (const std::int64_t cores : {2, 4, 8}) {
    const GpuModel cpu = *LoadGpuModel("cpu" + std::to_string(cores));
    EXPECT_TRUE(cpu.background);
    EXPECT_EQ(cpu.constants.units, cores);
    EXPECT_EQ(cpu.constants.blocks_per_unit, 1);
    EXPECT_EQ(cpu.constants.check_interval_ns, 10'000);
    EXPECT_EQ(cpu.constants.dispatch_ns + cpu.constants.evict_ns, 0);
  }
}

TEST(GpuModel, UnknownNamesAndFilesAreNamed) {
  const Result<GpuModel> none = LoadGpuModel("mi5");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("'mi5'"));
  EXPECT_THAT(none.error().message, HasSubstr("gtx1660s"));
  const Result<GpuModel> file = LoadGpuModel("/no/such/profile.json");
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message, HasSubstr("/no/such/profile.json"));
}

TEST(GpuModel, WrongFilesAreRefusedByKeyAndValue) {
  EXPECT_THAT(ErrorOf("{"), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[3]"), HasSubstr("[3]"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"units\"", "\"unlts\"")), HasSubstr("'unlts'"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"description\"", "\"name\"")), HasSubstr("'name' twice"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"constants\"", "\"background\": 1, \"constants\"")),
              HasSubstr("'background' is '1'; it takes true or false"));
  const std::string units = "\"units\": {\"value\": 60, \"source\": \"REEF 6.2\"}";
  EXPECT_THAT(ErrorOf(With(Text(), units + ",", "")), HasSubstr("no 'units'"));
  EXPECT_THAT(ErrorOf(With(Text(), units, "\"units\": 60")), HasSubstr("60"));
  EXPECT_THAT(ErrorOf(With(Text(), units, "\"units\": {\"value\": 60}")), HasSubstr("'source'"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"value\": 60", "\"value\": -60")), HasSubstr("-60"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"value\": 60", "\"value\": 6.5")), HasSubstr("6.5"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"value\": 60", "\"value\": 60000000")),
              HasSubstr("'units': 'value' is '60000000'"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"value\": 60", "\"value\": 18446744073709551615")),
              HasSubstr("18446744073709551615"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"source\": \"REEF 6.2\"", "\"source\": \"\"")),
              HasSubstr("'source'"));
}

TEST(GpuModel, IsBuiltInIfNameAndConstantsAre) {
  for (const std::string_view name : BuiltInGpuModels()) {
    GpuModel gpu = *LoadGpuModel(std::string(name));
    EXPECT_TRUE(IsBuiltIn(gpu)) << name;
    ++gpu.constants.memory_mib;
    EXPECT_FALSE(IsBuiltIn(gpu)) << name;
  }
  GpuModel renamed = *LoadGpuModel("mi50");
  renamed.name = "mine";
  EXPECT_FALSE(IsBuiltIn(renamed));
}

TEST(GpuModel, ConstantsThatContradictEachOtherAreRefused) {
  const std::string fewer = With(Text(), "\"threads_per_unit\": {\"value\": 2560",
                                 "\"threads_per_unit\": {\"value\": 15");
  EXPECT_THAT(ErrorOf(fewer), HasSubstr("'threads_per_unit' is 15, less than 'blocks_per_unit'"));
  const std::string registers = With(Text(), "\"registers_per_unit\": {\"value\": 65536",
                                     "\"registers_per_unit\": {\"value\": 100");
  EXPECT_THAT(ErrorOf(registers), HasSubstr("'registers_per_unit' is 100, less than"));
  const std::string faster = With(Text(), "\"stream_switch_ns\": {\"value\": 20000",
                                  "\"stream_switch_ns\": {\"value\": 3");
  EXPECT_THAT(ErrorOf(faster), HasSubstr("'stream_switch_ns' is 3, less than 'dispatch_ns'"));
}

}  // namespace
}  // namespace lagoon
