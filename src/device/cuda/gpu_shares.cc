// Shares of the units: green contexts with streams, and which of them a share's grids go into.

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "device/cuda/gpu_device.h"

namespace lagoon::cuda {
namespace {

// Each has a green context and 6 streams, and stays until the device ends. On 132 multiprocessors
// in granules of 2 there are 2,211 contiguous runs: shares that move anywhere reach this limit.
constexpr std::size_t kMaxRuns = 160;

}  // namespace

Result<ShareId> GpuDevice::CreateShare(const std::string& name, UnitRange units) {
  LAGOON_RETURN_IF_ERROR(Prepare(fmt::format("share '{}'", name), units));
  const MutexLock lock(mutex_);
  LAGOON_ASSIGN_OR_RETURN(const ShareId share, shares_.Create(name, units));
  share_runs_.push_back(issuer_->streams().FindRun(units));
  return share;
}

// `share`: what the units are for, in errors.
Status GpuDevice::Prepare(const std::string& share, UnitRange units) {
  const std::string where = fmt::format("device '{}': {}", info_.name, share);
  if (granules_ == nullptr) return Annotate(where, Error(no_shares_));
  const MutexLock preparing(runs_mutex_);
  {
    const MutexLock lock(mutex_);
    LAGOON_RETURN_IF_ERROR(shares_.CheckBounds(share, units));
    const KernelStreams& streams = issuer_->streams();
    if (streams.FindRun(units) != kNoIndex) return {};
    if (streams.runs() == kMaxRuns) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("{} cannot have {}: {} runs of units are prepared already; use one "
                              "of them",
                              where, Text(units), kMaxRuns));
    }
  }
  LAGOON_RETURN_IF_ERROR(session_->Enter());
  Result<std::unique_ptr<GreenRun>> green = granules_->CreateRun(units);
  if (!green) return Annotate(where, std::move(green).error());
  Result<std::unique_ptr<KernelStreams::NewRun>> run = streams_->Prepare(*std::move(green));
  if (!run) return Annotate(where, std::move(run).error());
  const MutexLock lock(mutex_);
  issuer_->streams().AddRun(*std::move(run));
  WarnOfConnections();
  return {};
}

// Once, as more runs do not change what is to be done.
void GpuDevice::WarnOfConnections() {
  const std::size_t streams = issuer_->streams().size() + KernelStreams::kOtherStreams;
  const std::uint32_t connections = driver().connections();
  if (streams <= connections || std::exchange(warned_of_connections_, true)) return;
  spdlog::warn(
      "device '{}': its {} streams, for {} ranges of units, share {} connections to the GPU, so "
      "that "
      "kernels, guards and copies may wait for kernels of other streams; {}",
      info_.name, streams, issuer_->streams().runs(), connections,
      connections < Driver::kMostConnections ? "unset CUDA_DEVICE_MAX_CONNECTIONS, or set it to 32"
                                             : "let shares move less, or have fewer of them");
}

// Grids that the GPU has stay in the streams of the former run. Grids that are issued later do not
// wait for them: what must be complete before, the blocks check themselves.
Status GpuDevice::MoveShare(ShareId share, UnitRange units) {
  Sleepers sleepers;
  {
    const MutexLock lock(mutex_);
    LAGOON_RETURN_IF_ERROR(shares_.CheckMove(share, units));
    const std::uint32_t run = issuer_->streams().FindRun(units);
    if (run == kNoIndex) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("device '{}': cannot move share {} to {}: they are not prepared; "
                              "call PrepareUnits() first",
                              info_.name, Raw(share), Text(units)));
    }
    shares_.Move(share, units);
    share_runs_[Raw(share)] = run;
    if (!lost_ && Enter()) sleepers = AdvanceForCall();
  }
  WakeUp(sleepers);
  return {};
}

}  // namespace lagoon::cuda
