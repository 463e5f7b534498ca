#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "lagoon/lagoon.h"
#include "local/testing/local_fixture.h"

namespace lagoon::capi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A device with a model of "x" [-1,4] and a run of that, which is bound.
class CapiRun : public ::testing::Test {
 protected:
  CapiRun() {
    lagoon_device_options options = LAGOON_DEVICE_OPTIONS_INIT;
    options.workers = 2;
    EXPECT_EQ(lagoon_device_open(&options, &device_, &error_), LAGOON_OK) << error_.message;
    bytes_ = testing::AddsWeights().Bytes();
    EXPECT_EQ(lagoon_model_load_bytes(device_, bytes_.data(), bytes_.size(), nullptr, nullptr,
                                      &model_, &error_),
              LAGOON_OK)
        << error_.message;
    run_ = NewRun();
  }
  ~CapiRun() override {
    lagoon_run_free(run_);
    lagoon_model_free(model_);
    lagoon_device_close(device_);
  }
  lagoon_run* NewRun() {
    lagoon_run* run = nullptr;
    EXPECT_EQ(lagoon_run_create(model_, &run, &error_), LAGOON_OK) << error_.message;
    const lagoon_tensor tensor = {LAGOON_FLOAT32, 2, dims_, x_, sizeof(x_)};
    EXPECT_EQ(lagoon_run_input(run, 0, &tensor), LAGOON_OK);
    return run;
  }
  static std::string ErrorOf(const lagoon_run* run) {
    lagoon_error error = {};
    lagoon_run_error(run, &error);
    return error.message;
  }
  static bool UnderWay(const lagoon_run* run) {
    lagoon_result result = LAGOON_RESULT_INIT;
    EXPECT_EQ(lagoon_run_result(run, &result), LAGOON_OK);
    return result.under_way != 0;
  }

  std::string bytes_;
  const std::int64_t dims_[2] = {1, 4};
  float x_[4] = {1, 2, 3, 4};
  lagoon_error error_ = {};
  lagoon_device* device_ = nullptr;
  lagoon_model* model_ = nullptr;
  lagoon_run* run_ = nullptr;
};

/// `done` that waits for the test, unless the thread of the test itself calls it.
struct Gated {
  static void Done(void* argument, lagoon_run*) {
    auto& gated = *static_cast<Gated*>(argument);
    ++gated.calls;
    if (std::this_thread::get_id() != gated.starter) {
      gated.waits = true;
      while (!gated.goes_on) std::this_thread::yield();
    }
    ++gated.returns;
  }
  const std::thread::id starter = std::this_thread::get_id();
  std::atomic<int> calls{0}, returns{0};
  std::atomic<bool> waits{false}, goes_on{false};
};

struct Count {
  static void Done(void* argument, lagoon_run*) { ++*static_cast<std::atomic<int>*>(argument); }
};

TEST_F(CapiRun, AStartWaitsForTheCallbackOfTheLastOne) {
  Gated gated;
  while (!gated.waits) {
    ASSERT_EQ(lagoon_run_start(run_, 0, &Gated::Done, &gated), LAGOON_OK) << ErrorOf(run_);
    while (!gated.waits && lagoon_run_wait(run_, 1) != LAGOON_OK) std::this_thread::yield();
  }
  while (UnderWay(run_)) std::this_thread::yield();
  std::atomic<int> others{0};
  std::atomic<bool> started{false};
  std::thread second([&] {
    EXPECT_EQ(lagoon_run_start(run_, 0, &Count::Done, &others), LAGOON_OK) << ErrorOf(run_);
    EXPECT_EQ(gated.returns, gated.calls) << "the callback before still runs";
    started = true;
    EXPECT_EQ(lagoon_run_wait(run_, 0), LAGOON_OK);
  });
  // A start that wrongly does not wait would be over by then.
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(started);
  EXPECT_EQ(others, 0);
  gated.goes_on = true;
  second.join();
  EXPECT_EQ(others, 1) << "each end calls the callback of its own start";
}

TEST_F(CapiRun, StartsInTurnsByTwoThreadsCallTheirOwnCallbacks) {
  std::atomic<int> calls[2] = {0, 0};
  constexpr int kTimes = 300;
  for (int i = 0; i < kTimes; ++i) {
    // Not lagoon_run_wait(): the callback may still run when the next thread starts.
    while (UnderWay(run_)) std::this_thread::yield();
    std::thread([&] {
      ASSERT_EQ(lagoon_run_start(run_, 0, &Count::Done, &calls[i % 2]), LAGOON_OK) << ErrorOf(run_);
    }).join();
  }
  EXPECT_EQ(lagoon_run_wait(run_, 0), LAGOON_OK);
  EXPECT_EQ(calls[0], kTimes / 2);
  EXPECT_EQ(calls[1], kTimes / 2);
}

/// Two runs. The callback of each one starts the other one.
struct PingPong {
  static void Done(void* argument, lagoon_run* run) {
    auto& both = *static_cast<PingPong*>(argument);
    if (both.left.fetch_sub(1) <= 1) return;
    lagoon_run* const other = run == both.runs[0] ? both.runs[1] : both.runs[0];
    // The callback that has started this run may not have returned yet.
    if (lagoon_run_start(other, 0, &Done, argument) == LAGOON_OK) return;
    lagoon_error error = {};
    lagoon_run_error(other, &error);
    if (std::strstr(error.message, "the callback of another run cannot wait") == nullptr) {
      ++both.wrong;
    }
    both.left = 0;
  }
  lagoon_run* runs[2];
  std::atomic<int> left{200}, wrong{0};
};

TEST_F(CapiRun, CallbacksOfTwoRunsMayStartEachOther) {
  lagoon_run* const other = NewRun();
  PingPong both{{run_, other}};
  ASSERT_EQ(lagoon_run_start(run_, 0, &PingPong::Done, &both), LAGOON_OK);
  while (both.left > 0) std::this_thread::yield();
  EXPECT_EQ(lagoon_run_wait(run_, 0), LAGOON_OK);
  EXPECT_EQ(lagoon_run_wait(other, 0), LAGOON_OK);
  EXPECT_EQ(both.wrong, 0);
  lagoon_run_free(other);
}

/// A callback that starts another run, `run`, while the callback of that run has not returned.
struct Other {
  static void Done(void* argument, lagoon_run*) {
    auto& other = *static_cast<Other*>(argument);
    other.code = lagoon_run_start(other.run, 0, nullptr, nullptr);
    lagoon_run_error(other.run, &other.error);
    lagoon_run_free(other.run);  // refused
    other.done = true;
  }
  lagoon_run* run;
  lagoon_code code = LAGOON_OK;
  lagoon_error error = {};
  std::atomic<bool> done{false};
};

TEST_F(CapiRun, WithinACallbackNothingWaitsForThatOfAnotherRun) {
  Gated gated;
  while (!gated.waits) {
    ASSERT_EQ(lagoon_run_start(run_, 0, &Gated::Done, &gated), LAGOON_OK);
    while (!gated.waits && lagoon_run_wait(run_, 1) != LAGOON_OK) std::this_thread::yield();
  }
  lagoon_run* const second = NewRun();
  Other other{run_};
  ASSERT_EQ(lagoon_run_start(second, 0, &Other::Done, &other), LAGOON_OK);
  ASSERT_EQ(lagoon_run_wait(second, 0), LAGOON_OK);
  ASSERT_TRUE(other.done);
  EXPECT_EQ(other.code, LAGOON_INVALID_ARGUMENT);
  EXPECT_THAT(other.error.message, HasSubstr("the callback of another run cannot wait for that"));
  gated.goes_on = true;
  EXPECT_EQ(lagoon_run_sync(run_, 0), LAGOON_OK) << ErrorOf(run_);
  lagoon_run_free(second);
}

/// A callback that starts its run again, and once more before that is over.
struct Twice {
  static void Done(void* argument, lagoon_run* run) {
    auto& twice = *static_cast<Twice*>(argument);
    if (twice.calls.fetch_add(1) > 0) return;
    twice.first = lagoon_run_start(run, 0, &Done, argument);
    twice.second = lagoon_run_start(run, 0, &Done, argument);
    twice.over = true;
  }
  std::atomic<int> calls{0};
  lagoon_code first = LAGOON_INTERNAL, second = LAGOON_INTERNAL;
  std::atomic<bool> over{false};
};

TEST_F(CapiRun, ACallbackStartsItsRunAgainOnceAtATime) {
  for (int i = 0; i < 100; ++i) {
    Twice twice;
    ASSERT_EQ(lagoon_run_start(run_, 0, &Twice::Done, &twice), LAGOON_OK);
    while (!twice.over) std::this_thread::yield();
    EXPECT_EQ(lagoon_run_wait(run_, 0), LAGOON_OK);
    EXPECT_EQ(twice.first, LAGOON_OK);
    // The second one fits where the first one is all over by then.
    EXPECT_EQ(twice.calls, twice.second == LAGOON_OK ? 3 : 2);
  }
}

TEST_F(CapiRun, NumbersThatAreInNoEnumAreRefused) {
  lagoon_tensor tensor = {LAGOON_FLOAT32, 2, dims_, x_, sizeof(x_)};
  for (const int number : {0, 14, 99, -1, 1 << 30}) {
    std::memcpy(&tensor.type, &number, sizeof(number));
    EXPECT_EQ(lagoon_run_input(run_, 0, &tensor), LAGOON_INVALID_ARGUMENT) << number;
    EXPECT_THAT(ErrorOf(run_), HasSubstr("none of lagoon_type"));
    EXPECT_EQ(lagoon_run_output(run_, 0, &tensor), LAGOON_INVALID_ARGUMENT) << number;
  }
  lagoon_model_options options = LAGOON_MODEL_OPTIONS_INIT;
  const int number = 99;
  std::memcpy(&options.job_class, &number, sizeof(number));
  lagoon_model* model = nullptr;
  EXPECT_EQ(lagoon_model_load_bytes(device_, bytes_.data(), bytes_.size(), nullptr, &options,
                                    &model, &error_),
            LAGOON_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("there is no class 99"));
  EXPECT_EQ(lagoon_model_load_bytes(device_, nullptr, 1, nullptr, nullptr, &model, &error_),
            LAGOON_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("the place of the model's bytes is NULL"));
}

TEST_F(CapiRun, ACoreThatIsNamedTwiceIsRefused) {
  const int cores[] = {0, 0};
  lagoon_device_options options = LAGOON_DEVICE_OPTIONS_INIT;
  options.cores = cores;
  options.core_count = 2;
  lagoon_device* device = nullptr;
  EXPECT_EQ(lagoon_device_open(&options, &device, &error_), LAGOON_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, AllOf(HasSubstr("cores [0, 0]"), HasSubstr("twice")));
}

}  // namespace
}  // namespace lagoon::capi
