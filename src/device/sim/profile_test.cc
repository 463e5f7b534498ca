#include "device/sim/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>

#include "base/testing/paths.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

std::string Text() { return std::string(BuiltInSimProfileText("mi50")); }

// `text` with the first `from` replaced; the test fails if there is none.
std::string With(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string ErrorOf(const std::string& text) {
  const Result<SimProfile> profile = ParseSimProfile(text, "x.json");
  EXPECT_FALSE(profile.has_value());
  if (profile) return "";
  EXPECT_EQ(profile.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(profile.error().message, HasSubstr("x.json"));
  return profile.error().message;
}

TEST(SimProfile, AllThatAreBuiltInLoadAndTellTheirSources) {
  EXPECT_EQ(BuiltInSimProfiles().size(), 7u);
  for (const std::string_view name : BuiltInSimProfiles()) {
    const Result<SimProfile> profile = LoadSimProfile(std::string(name));
    ASSERT_TRUE(profile.has_value()) << profile.error().message;
    EXPECT_EQ(profile->name, name);
    EXPECT_EQ(profile->sources.size(), SimConstantTable().size());
  }
}

TEST(SimProfile, NamesTheUnitsOfTheirPapers) {
  EXPECT_EQ(LoadSimProfile("mi50")->constants.units, 60);      // REEF 6.2
  EXPECT_EQ(LoadSimProfile("gv100")->constants.units, 80);     // REEF 6.2
  EXPECT_EQ(LoadSimProfile("gtx1660s")->constants.units, 22);  // Paella 2.1
}

TEST(SimProfile, ConstantsAreAddressableByName) {
  std::set<std::string_view> names;
  for (const SimConstantInfo& info : SimConstantTable()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(FindSimConstant(info.name)->member, info.member);
    EXPECT_FALSE(info.meaning.empty());
  }
  EXPECT_EQ(names.size() * sizeof(std::int64_t), sizeof(SimConstants)) << "one has no name";
  EXPECT_EQ(FindSimConstant("speed"), nullptr);
}

TEST(SimProfile, TheDocumentListsEveryConstantOfEveryDevice) {
  std::ifstream file(SourceFolder() + "/docs/design/simulator.md");
  const std::string document((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
  for (const SimConstantInfo& info : SimConstantTable()) {
    std::string row = "| `" + std::string(info.name) + "` | " + std::string(info.meaning) + " |";
    for (const std::string_view name : BuiltInSimProfiles()) {
      const SimProfile profile = *LoadSimProfile(std::string(name));
      row += " " + std::to_string(profile.constants.*info.member) + " |";
    }
    EXPECT_THAT(document, HasSubstr(row));
  }
}

TEST(SimProfile, AFileIsReadLikeOneThatIsBuiltIn) {
  const std::string path = testing::TempDir() + "lagoon_sim_profile.json";
  std::ofstream(path) << With(Text(), "\"units\": {\"value\": 60", "\"units\": {\"value\": 7");
  const Result<SimProfile> profile = LoadSimProfile(path);
  std::remove(path.c_str());
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_EQ(profile->constants.units, 7);
}

TEST(SimProfile, UnknownNamesAndFilesAreNamed) {
  const Result<SimProfile> none = LoadSimProfile("mi5");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, HasSubstr("'mi5'"));
  EXPECT_THAT(none.error().message, HasSubstr("gtx1660s"));
  const Result<SimProfile> file = LoadSimProfile("/no/such/profile.json");
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message, HasSubstr("/no/such/profile.json"));
}

TEST(SimProfile, WrongFilesAreRefusedByKeyAndValue) {
  EXPECT_THAT(ErrorOf("{"), HasSubstr("not JSON"));
  EXPECT_THAT(ErrorOf("[3]"), HasSubstr("[3]"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"units\"", "\"unlts\"")), HasSubstr("'unlts'"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"description\"", "\"name\"")), HasSubstr("'name' twice"));
  const std::string units = "\"units\": {\"value\": 60, \"source\": \"REEF 6.2\"}";
  EXPECT_THAT(ErrorOf(With(Text(), units + ",", "")), HasSubstr("no 'units'"));
  EXPECT_THAT(ErrorOf(With(Text(), units, "\"units\": 60")), HasSubstr("60"));
  EXPECT_THAT(ErrorOf(With(Text(), units, "\"units\": {\"value\": 60}")), HasSubstr("'source'"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"value\": 60", "\"value\": -60")), HasSubstr("-60"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"value\": 60", "\"value\": 6.5")), HasSubstr("6.5"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"value\": 60", "\"value\": 60000000")),
              HasSubstr("'units' is 60000000"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"value\": 60", "\"value\": 18446744073709551615")),
              HasSubstr("18446744073709551615"));
  EXPECT_THAT(ErrorOf(With(Text(), "\"source\": \"REEF 6.2\"", "\"source\": \"\"")),
              HasSubstr("'source'"));
}

TEST(SimProfile, ConstantsThatContradictEachOtherAreRefused) {
  const std::string fewer = With(Text(), "\"threads_per_unit\": {\"value\": 2560",
                                 "\"threads_per_unit\": {\"value\": 15");
  EXPECT_THAT(ErrorOf(fewer), HasSubstr("'threads_per_unit' is 15, less than 'blocks_per_unit'"));
  const std::string registers = With(Text(), "\"registers_per_unit\": {\"value\": 65536",
                                     "\"registers_per_unit\": {\"value\": 100");
  EXPECT_THAT(ErrorOf(registers), HasSubstr("'registers_per_unit' is 100, less than"));
  const std::string faster = With(Text(), "\"stream_switch_ns\": {\"value\": 22000",
                                  "\"stream_switch_ns\": {\"value\": 3");
  EXPECT_THAT(ErrorOf(faster), HasSubstr("'stream_switch_ns' is 3, less than 'dispatch_ns'"));
}

}  // namespace
}  // namespace lagoon
