// A control loop of 500 Hz beside a detector and a text encoder, in one process:
//   control_loop POLICY.onnx DETECTOR.onnx ENCODER.onnx [SECONDS]
// The policy is real-time: its steps take the cores from the other two, in the middle of a kernel.
// A step without an answer by the next one keeps the last action, and counts as missed.

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lagoon_model.h"

namespace {

constexpr std::int64_t kSecond = 1'000'000'000, kPeriod = kSecond / 500;

std::int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

void SleepUntil(std::int64_t ns) {
  const timespec time{ns / kSecond, ns % kSecond};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
}

// Runs a model without a pause until `ended` or until a run fails, and counts.
void RunInALoop(example::Model& model, const std::atomic<bool>& ended, int& runs) {
  while (!ended) {
    if (model.Run() != LAGOON_OK) {
      std::fprintf(stderr, "%s\n", model.error().c_str());
      return;
    }
    ++runs;
  }
}

void Control(example::Model& policy, double seconds) {
  std::vector<float> action;
  std::vector<double> times_ms;
  times_ms.reserve(static_cast<std::size_t>(seconds * 500) + 1);
  std::map<std::string, int> missed;
  const std::int64_t begin = NowNs(), end = begin + static_cast<std::int64_t>(seconds * 1e9);
  int steps = 0;
  for (std::int64_t tick = begin; tick < end; tick += kPeriod, ++steps) {
    SleepUntil(tick);
    // The robot's state goes to the memory that policy.input() returns.
    const lagoon_code code = policy.Run(tick + kPeriod);
    if (code == LAGOON_DEADLINE_EXCEEDED) {
      ++missed[policy.result().why_name];  // and the last action holds
      continue;
    }
    if (code != LAGOON_OK) throw std::runtime_error(policy.error());
    times_ms.push_back(static_cast<double>(NowNs() - tick) / 1e6);
    std::size_t count = 0;
    const float* const values = policy.output(&count);
    action.assign(values, values + count);
  }
  std::sort(times_ms.begin(), times_ms.end());
  const auto at = [&](double part) {
    return times_ms.empty() ? 0
                            : times_ms[static_cast<std::size_t>(
                                  part * static_cast<double>(times_ms.size() - 1))];
  };
  std::printf(
      "%d steps, %zu in time: %.3f ms at the median, %.3f at the 99th percentile, %.3f at "
      "most\n",
      steps, times_ms.size(), at(0.5), at(0.99), at(1));
  for (const auto& why : missed) std::printf("%d missed: %s\n", why.second, why.first.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s POLICY.onnx DETECTOR.onnx ENCODER.onnx [SECONDS]\n", argv[0]);
    return 2;
  }
  const double seconds = argc > 4 ? std::atof(argv[4]) : 10;
  try {
    const example::Device device;
    example::Model policy(device, argv[1], LAGOON_REAL_TIME);
    example::Model detector(device, argv[2], LAGOON_BEST_EFFORT);
    example::Model encoder(device, argv[3], LAGOON_BEST_EFFORT);
    std::atomic<bool> ended{false};
    int detections = 0, texts = 0;
    std::thread first([&] { RunInALoop(detector, ended, detections); });
    std::thread second([&] { RunInALoop(encoder, ended, texts); });
    std::exception_ptr failed;
    try {
      Control(policy, seconds);
    } catch (...) {
      failed = std::current_exception();
    }
    ended = true;
    first.join();
    second.join();
    if (failed) std::rethrow_exception(failed);
    std::printf("meanwhile %d runs of the detector and %d of the encoder\n", detections, texts);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
