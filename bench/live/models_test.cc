#include "bench/live/models.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/client/temporary_folder.h"

namespace lagoon::bench {
namespace {

TEST(Models, OfAZooCountInTheSetOfTheirStamp) {
  const TemporaryFolder zoo = *TemporaryFolder::Make();
  const auto stamp = [&](const std::string& model, const std::string& text) {
    const auto folder = std::filesystem::path(zoo.path()) / model;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "zoo.json") << text;
  };
  stamp("a", R"({"set": "ten"})");
  stamp("b", R"({"key": "without a set"})");
  stamp("c", "no json");
  stamp("d", R"({"set": 10})");
  stamp("e.qdq", R"({"set": "ten"})");
  EXPECT_EQ(SetOf(zoo.path(), "a"), "ten");
  for (const char* const model : {"b", "c", "d", "absent"}) {
    EXPECT_EQ(SetOf(zoo.path(), model), "zoo") << model;
  }
  EXPECT_EQ(SetOf(zoo.path(), "e.qdq"), "ten_int8");
  EXPECT_EQ(SetOf(zoo.path(), "absent.dynamic"), "zoo_int8");
}

TEST(Models, AreQuantisedByTheirNames) {
  for (const char* const name : {"a.qdq", "a.qoperator", "a.dynamic"})
    EXPECT_TRUE(IsQuantised(name));
  for (const char* const name : {"a", "qdq", "a.qdq.b", "a.optimised"}) {
    EXPECT_FALSE(IsQuantised(name)) << name;
  }
}

}  // namespace
}  // namespace lagoon::bench
