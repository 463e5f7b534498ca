#include "serving/fleet/placer_runner.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "base/thread.h"

namespace lagoon {

PlacerRunner::PlacerRunner(std::unique_ptr<Placer> placer)
    : placer_(std::move(placer)),
      name_(placer_->name()),
      decides_shares_(placer_->DecidesShares()),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

PlacerRunner::~PlacerRunner() = default;

Result<Assignment> PlacerRunner::Place(PlacementView view, Nanoseconds limit) {
  const TimePoint until = Now() + limit;
  const MutexLock lock(mutex_);
  if (running_) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("placer '{}' still works on an earlier decision", name_));
  }
  running_ = true;
  dropped_ = false;
  result_.reset();
  view_ = std::move(view);
  wanted_.NotifyOne();
  while (!result_ && Now() < until) placed_.WaitUntil(mutex_, until);
  if (result_) return *std::exchange(result_, std::nullopt);
  dropped_ = true;
  return Fail(
      ErrorCode::kDeadlineExceeded,
      fmt::format("placer '{}' has not decided within {:.0f} ms", name_, ToMilliseconds(limit)));
}

void PlacerRunner::Run(const std::stop_token& stop) {
  NameThisThread("lagoon-placer");
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    wanted_.NotifyAll();
  });
  while (true) {
    PlacementView view;
    {
      const MutexLock lock(mutex_);
      while (!view_ && !stop.stop_requested()) wanted_.Wait(mutex_);
      if (stop.stop_requested()) return;
      view = *std::exchange(view_, std::nullopt);
    }
    Result<Assignment> placed = Call(view);
    const MutexLock lock(mutex_);
    running_ = false;
    if (!dropped_) result_ = std::move(placed);
    placed_.NotifyAll();
  }
}

// A placer may use libraries that throw.
Result<Assignment> PlacerRunner::Call(const PlacementView& view) {
  std::string what = "an unknown exception";
  try {
    return placer_->Place(view);
  } catch (const std::exception& thrown) {
    what = thrown.what();
  } catch (...) {
  }
  return Fail(ErrorCode::kInternal, fmt::format("placer '{}' has thrown: {}", name_, what));
}

}  // namespace lagoon
