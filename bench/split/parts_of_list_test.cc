#include "bench/split/parts_of_list.h"

#include <gmock/gmock.h>

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

SimConstants OneUnit(Nanoseconds gap) {
  SimConstants constants;
  constants.units = 1;
  constants.dependent_gap_ns = gap.count();
  return constants;
}

SimModel ListOf(std::initializer_list<int> times_ms) {
  SimModel model;
  for (const int ms : times_ms) {
    SimModelKernel kernel;
    kernel.blocks = 8;
    kernel.time = milliseconds(ms);
    kernel.block.time = kernel.time / 2;
    model.kernels.push_back(kernel);
    model.statistics.time += kernel.time;
  }
  return model;
}

TEST(PartsOfList, CutsAreNearestToEvenShares) {
  EXPECT_THAT(EvenEnds(ListOf({1, 1, 1, 1, 4}), 2), ElementsAre(4, 5));
  EXPECT_THAT(EvenEnds(ListOf({5, 1, 1, 1, 1, 3}), 3), ElementsAre(1, 4, 6));
  EXPECT_THAT(EvenEnds(ListOf({9, 1, 1}), 3), ElementsAre(1, 2, 3));  // no part is empty
  EXPECT_THAT(EvenEnds(ListOf({1, 1, 9}), 3), ElementsAre(1, 2, 3));
}

TEST(PartsOfList, APlansPartsHaveTheSameKernels) {
  const SimModel cut = CutIntoParts(ListOf({2, 2, 2, 2}), 2, 0, OneUnit(Nanoseconds(0)));
  EXPECT_EQ(cut.kernels.size(), 4u);
  EXPECT_THAT(cut.part_ends, ElementsAre(2, 4));
  EXPECT_TRUE(CutIntoParts(ListOf({2, 2}), 1, 0, OneUnit(Nanoseconds(0))).part_ends.empty());
}

TEST(PartsOfList, ModelsOfTheirOwnCopyAtEveryCut) {
  const Nanoseconds gap(1000);
  const SimModel cut = CutIntoParts(ListOf({2, 2, 2, 2, 2, 2}), 3, 0.5, OneUnit(gap));
  ASSERT_EQ(cut.kernels.size(), 10u);
  EXPECT_THAT(cut.part_ends, ElementsAre(3, 7, 10));
  EXPECT_THAT(cut.cut_ops, ElementsAre(2, 3, 6, 7));
  EXPECT_EQ(cut.kernels[4].deps, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_FALSE(cut.kernels[5].deps);  // of the kernel before
  for (const std::size_t copy : {2, 3, 6, 7}) {
    EXPECT_EQ(cut.kernels[copy].time, std::chrono::microseconds(1500) - gap);  // of 6 ms in all
    EXPECT_EQ(cut.kernels[copy].block.time, cut.kernels[copy].time / 2);
    EXPECT_EQ(cut.kernels[copy].blocks, 8u);
  }
}

TEST(PartsOfList, Table3SaysTwoPartsForResNetAndThreeForVgg) {
  EXPECT_EQ(PartsOfTable3("resnet50"), 2u);
  EXPECT_EQ(PartsOfTable3("vgg19"), 3u);
  EXPECT_EQ(PartsOfTable3("yolov2"), 1u);
}

}  // namespace
}  // namespace lagoon::bench
