#include "sim/learn/replay.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sim/learn/state_file.h"

namespace lagoon::learn {
namespace {

TEST(Replay, AFullOneForgetsTheOldest) {
  Replay replay(3, 1);
  for (const float value : {1.F, 2.F, 3.F, 4.F}) replay.Add(std::span(&value, 1));
  ASSERT_EQ(replay.size(), 3U);
  EXPECT_EQ(replay.Row(0)[0], 4);
  EXPECT_EQ(replay.Row(1)[0], 2);
  EXPECT_EQ(replay.Row(2)[0], 3);
}

TEST(Replay, SamplesAreOfAllRows) {
  Replay replay(8, 1);
  for (int i = 0; i < 8; ++i) {
    const auto value = static_cast<float>(i);
    replay.Add(std::span(&value, 1));
  }
  Random random(1);
  const Matrix sample = replay.Sample(200, random);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE((sample.array() == static_cast<float>(i)).any()) << i;
}

TEST(Replay, ComesBackFromAStateFile) {
  Replay replay(3, 2);
  for (int i = 0; i < 4; ++i) {
    const float row[] = {static_cast<float>(i), 0.5F};
    replay.Add(row);
  }
  std::stringstream stream;
  StateWriter writer(stream);
  replay.Save(writer);
  Replay other(3, 2);
  StateReader reader(stream);
  other.Load(reader);
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(other.size(), 3U);
  EXPECT_EQ(other.Row(0)[0], 3);
  const float row[] = {9, 9};
  other.Add(row);
  EXPECT_EQ(other.Row(1)[0], 9);  // the oldest one
}

TEST(StateReader, FailsAtTheEndOfTheBytes) {
  std::stringstream stream("short");
  StateReader reader(stream);
  EXPECT_EQ(reader.Number(), 0U);
  EXPECT_FALSE(reader.ok());
  Replay replay(3, 2);
  replay.Load(reader);
  EXPECT_EQ(replay.size(), 0U);
}

}  // namespace
}  // namespace lagoon::learn
