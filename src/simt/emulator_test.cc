#include "simt/emulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "simt/cuda.h"

namespace lagoon::simt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Status RunKernel(Emulator& emulator, unsigned blocks, unsigned threads,
                 std::function<void()> kernel, std::size_t shared_bytes = 0) {
  return emulator.Run({.name = "kernel",
                       .grid = {blocks},
                       .block = {threads},
                       .shared_bytes = shared_bytes,
                       .kernel = std::move(kernel)});
}

TEST(Emulator, RunsEveryThreadOfEveryBlockOnce) {
  Emulator emulator;
  std::vector<int> runs(7 * 96);
  ASSERT_TRUE(RunKernel(emulator, 7, 96, [&] { ++runs[blockIdx.x * blockDim.x + threadIdx.x]; }));
  EXPECT_EQ(runs, std::vector<int>(7 * 96, 1));
  EXPECT_FALSE(emulator.Step());
}

TEST(Emulator, IndicesHaveThreeDimensions) {
  Emulator emulator;
  std::set<std::tuple<unsigned, unsigned, unsigned, unsigned>> seen;
  ASSERT_TRUE(emulator.Run({.name = "kernel", .grid = {2, 3}, .block = {4, 2, 2}, .kernel = [&] {
                              seen.emplace(blockIdx.x, blockIdx.y, threadIdx.x,
                                           threadIdx.y * blockDim.z + threadIdx.z);
                            }}));
  EXPECT_EQ(seen.size(), 2u * 3 * 4 * 4);
}

TEST(Emulator, BarrierOrdersWritesAndReadsOfSharedMemory) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Emulator emulator({.seed = seed});
    std::vector<unsigned> out(256);
    ASSERT_TRUE(RunKernel(
        emulator, 1, 256,
        [&] {
          auto* shared = reinterpret_cast<unsigned*>(DynamicShared());
          shared[threadIdx.x] = threadIdx.x;
          __syncthreads();
          out[threadIdx.x] = shared[255 - threadIdx.x];
        },
        1024));
    for (unsigned i = 0; i < 256; ++i) EXPECT_EQ(out[i], 255 - i);
  }
}

TEST(Emulator, MissingBarrierShowsAsPoisonOrStaleData) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Emulator emulator({.seed = seed});
    bool stale = false;
    ASSERT_TRUE(RunKernel(
        emulator, 1, 64,
        [&] {
          auto* shared = reinterpret_cast<unsigned*>(DynamicShared());
          shared[threadIdx.x] = threadIdx.x;
          stale |= shared[63 - threadIdx.x] == ~0u;
        },
        256));
    wrong += stale ? 1 : 0;
  }
  EXPECT_EQ(wrong, 20);
}

TEST(Emulator, BarrierVotes) {
  Emulator emulator;
  int count = 0, any = 0, none = 1, all = 0, not_all = 1;
  ASSERT_TRUE(RunKernel(emulator, 1, 64, [&] {
    count = __syncthreads_count(threadIdx.x < 10);
    any = __syncthreads_or(threadIdx.x == 63);
    none = __syncthreads_or(0);
    all = __syncthreads_and(1);
    not_all = __syncthreads_and(threadIdx.x != 5);
  }));
  EXPECT_THAT((std::vector{count, any, none, all, not_all}),
              ::testing::ElementsAre(10, 1, 0, 1, 0));
}

TEST(Emulator, ThreadThatEndsBeforeABarrierIsAnError) {
  Emulator emulator;
  const Status status = RunKernel(emulator, 3, 64, [] {
    if (threadIdx.x == 40) return;
    __syncthreads();
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInternal);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("kernel 'kernel', block"),
                    HasSubstr("deadlock: 63 threads (from 0 on) "
                              "at the barrier of"),
                    HasSubstr("emulator_test.cc"), HasSubstr("1 threads (from 40 on) ended")));
}

TEST(Emulator, DifferentBarriersAreAnError) {
  Emulator emulator;
  const Status status = RunKernel(emulator, 1, 64, [] {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  });
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("threads meet at different barriers"));
}

TEST(Emulator, WarpCallThatALaneMissesIsAnError) {
  Emulator emulator;
  const Status status = RunKernel(emulator, 1, 32, [] {
    if (threadIdx.x != 3) __shfl_xor_sync(~0u, 1, 1);
  });
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("31 threads (from 0 on) in the warp call of"));
}

TEST(Emulator, FailureLeavesTheMachineUsable) {
  Emulator emulator;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(RunKernel(emulator, 9, 64, [] {
      if (threadIdx.x == 40) return;
      __syncthreads();
    }));
    EXPECT_TRUE(RunKernel(emulator, 9, 64, [] { __syncthreads(); }));
  }
}

TEST(Emulator, EndlessWaitEndsWithAnError) {
  Emulator emulator({.max_steps = 1000});
  const Status status = RunKernel(emulator, 1, 32, [] {
    for (;;) __nanosleep(100);
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(status.error().message, HasSubstr("1000 steps"));
}

TEST(Emulator, TrapNamesThePlace) {
  Emulator emulator;
  const Status status = RunKernel(emulator, 1, 32, [] {
    if (threadIdx.x == 7) __trap();
  });
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("__trap()"), HasSubstr("thread 7")));
}

TEST(Emulator, BlocksWaitForEachOtherWhenTheySleep) {
  Emulator emulator;
  unsigned turn = 0;
  ASSERT_TRUE(RunKernel(emulator, 4, 32, [&] {
    while (*static_cast<volatile unsigned*>(&turn) != blockIdx.x * 32 + threadIdx.x)
      __nanosleep(20);
    ++turn;
  }));
  EXPECT_EQ(turn, 128u);
}

TEST(Emulator, LaunchesAndBlocksInterleave) {
  Emulator emulator({.multiprocessors = 2, .blocks_per_multiprocessor = 2});
  std::string order;
  std::set<unsigned> multiprocessors;
  for (const char name : {'a', 'b'}) {
    emulator.Submit({.name = std::string(1, name), .grid = {4}, .block = {64}, .kernel = [&, name] {
                       for (int i = 0; i < 4; ++i) {
                         if (threadIdx.x == 0) order += name;
                         __syncthreads();
                       }
                       multiprocessors.insert(MultiprocessorId());
                     }});
  }
  while (emulator.Step()) {
  }
  EXPECT_EQ(order.size(), 32u);
  EXPECT_THAT(order, AllOf(HasSubstr("ab"), HasSubstr("ba")));
  EXPECT_EQ(multiprocessors, (std::set<unsigned>{0, 1}));
}

TEST(Emulator, BlocksOfAHigherPriorityBeginFirst) {
  Emulator emulator({.multiprocessors = 1, .blocks_per_multiprocessor = 1});
  std::string order;
  for (const char name : {'b', 'a'}) {
    emulator.Submit({.name = std::string(1, name),
                     .grid = {8},
                     .block = {32},
                     .priority = name == 'a' ? 1 : 0,
                     .kernel = [&, name] {
                       if (threadIdx.x == 0) order += name;
                     }});
  }
  while (emulator.Step()) {
  }
  EXPECT_EQ(order, "aaaaaaaabbbbbbbb");
}

TEST(Emulator, SameSeedSameOrder) {
  const auto order_of = [](std::uint64_t seed) {
    Emulator emulator({.seed = seed});
    std::vector<unsigned> order;
    EXPECT_TRUE(RunKernel(emulator, 4, 64, [&] {
      __syncthreads();
      order.push_back(blockIdx.x * 64 + threadIdx.x);
    }));
    return order;
  };
  EXPECT_EQ(order_of(3), order_of(3));
  EXPECT_NE(order_of(3), order_of(4));
}

TEST(Emulator, HookSeesEveryBarrier) {
  Emulator emulator;
  std::vector<std::uint64_t> barriers;
  emulator.OnBarrier([&](const BarrierEvent& event) {
    EXPECT_EQ(event.kernel, "kernel");
    EXPECT_EQ(event.barrier, event.barriers);
    barriers.push_back(event.barrier);
  });
  ASSERT_TRUE(RunKernel(emulator, 1, 64, [] {
    for (int i = 0; i < 3; ++i) __syncthreads();
  }));
  EXPECT_EQ(barriers, (std::vector<std::uint64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace lagoon::simt
