#include "bench/live/giving_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "bench/measure/seconds.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

struct Sent {
  TimePoint arrival, ended;
  bool answered = false;
  std::shared_ptr<RequestEnd> end = std::make_shared<RequestEnd>();
  std::atomic<std::uint64_t> handle{0};  // 0: not sent yet
  std::atomic<bool> done{false};
};

struct Window {
  double wasted = 0, goodput = 0;
};

/// Cancels each request that has no answer at its limit.
void GiveUp(Inference& core, std::vector<Sent>& all, Nanoseconds limit) {
  for (Sent& sent : all) {
    sent.handle.wait(0);
    std::this_thread::sleep_until(sent.arrival + limit);
    if (!sent.done.load()) core.Cancel(RequestHandle{sent.handle.load()});
  }
}

/// The time between the first and the last block of the request's job; a request that ended before
/// that has none.
double WorkSeconds(const JobResult& job) {
  const Nanoseconds work = job.computed - job.first_block;
  return job.first_block == TimePoint{} ? 0 : std::chrono::duration<double>(work).count();
}

Window Summary(const std::vector<Sent>& all, Nanoseconds limit) {
  double work = 0, wasted = 0, in_time = 0;
  TimePoint last = all.front().arrival;
  for (const Sent& sent : all) {
    const double own = WorkSeconds(sent.end->job);
    const bool taken = sent.answered && sent.ended - sent.arrival <= limit;
    work += own;
    taken ? in_time += 1 : wasted += own;
    last = std::max(last, sent.arrival + limit);
  }
  const double seconds = std::chrono::duration<double>(last - all.front().arrival).count();
  return {work > 0 ? wasted / work : 0, in_time / seconds};
}

Window Measure(Inference& core, const InferRequest& request, const GivingUpOptions& options,
               std::string_view side, std::size_t trial) {
  const auto count =
      static_cast<std::size_t>(std::clamp(options.rate * options.window_seconds, 10.0, 1e5));
  std::mt19937_64 random(options.seed + 1000 * trial);
  std::exponential_distribution<double> gap(options.rate);
  std::vector<Sent> all(count);
  TimePoint arrival = Now() + std::chrono::milliseconds(1);
  for (Sent& sent : all) sent.arrival = arrival += FromSeconds(gap(random));
  std::jthread clients([&] {
    if (side != "deaf") GiveUp(core, all, options.limit);
  });
  for (Sent& sent : all) {
    std::this_thread::sleep_until(sent.arrival);
    InferRequest one = request;
    one.arrival = sent.arrival;
    one.end = sent.end;
    if (side == "lagoon") one.timeout = options.limit;
    const RequestHandle handle = core.Infer(std::move(one), [&sent](const auto& answer) {
      sent.ended = Now();
      sent.answered = answer.has_value();
      sent.done.store(true);
      sent.done.notify_all();
    });
    // A request that was refused at once has no handle.
    sent.handle.store(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(handle)));
    sent.handle.notify_all();
  }
  clients.join();
  for (Sent& sent : all) sent.done.wait(false);
  return Summary(all, options.limit);
}

}  // namespace

Status MeasureGivingUp(Inference& core, const InferRequest& request, const GivingUpOptions& options,
                       Evidence& evidence, ProgressBar& progress) {
  WindowsPlan plan{.groups = {"giving up"}, .windows = {}, .rounds = options.windows};
  plan.windows.assign(std::begin(kGivingUpSides), std::end(kGivingUpSides));
  plan.seed = options.seed;
  std::vector<Window> windows[std::size(kGivingUpSides)];
  const auto measure = [&](const WindowPlace& place) -> Status {
    windows[place.window].resize(place.trial + 1);
    windows[place.window][place.trial] =
        Measure(core, request, options, kGivingUpSides[place.window], place.trial);
    progress.Step(plan.groups.front());
    return {};
  };
  HostProbe probe;
  LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
  for (std::size_t side = 0; side < std::size(kGivingUpSides); ++side) {
    std::vector<double> wasted, goodput;
    for (const std::size_t trial : result.trials[0]) {
      wasted.push_back(windows[side][trial].wasted);
      goodput.push_back(windows[side][trial].goodput);
    }
    evidence.Add(fmt::format("wasted_work_fraction.{}", kGivingUpSides[side]), wasted);
    evidence.Add(fmt::format("goodput_ips.{}", kGivingUpSides[side]), goodput);
  }
  evidence.AddWindows(result.summary);
  return {};
}

}  // namespace lagoon::bench
