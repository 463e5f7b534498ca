#pragma once

// How long a move of a share keeps a model from running (GSLICE 3.2.4 and 4.6).

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/report/report.h"
#include "bench/shares/switches.h"
#include "device/device.h"

namespace lagoon::bench {

struct SwitchOptions {
  std::string gpu = "v100";  // simulated, with kernel lists
  std::vector<std::string> gpu_models = {"resnet50", "vgg19"};
  bool cpu = true;
  std::string zoo;
  std::vector<std::string> models = {"resnet18", "squeezenet1_1"};  // two, on the CPU
  std::uint32_t workers = 0;  // 0: one per core, but at least 4
  int moves = 1000;           // of each kind
  int restarts = 5;           // of the first model on the CPU
  unsigned seed = 1;          // of the times between moves
};

/// Where two shares are, in turns. "resize": the boundary between them moves. "swap": they change
/// places, so that no unit of the new share was in the old one.
struct SwitchKind {
  std::string name;
  std::array<std::array<UnitRange, 2>, 2> places;  // [turn][share]
};
/// `units`: at least 3.
std::vector<SwitchKind> SwitchKinds(std::uint32_t units);

struct SwitchRun {
  SwitchTimes times;
  std::uint64_t jobs = 0, lost = 0;  // posted; posted but not done
  std::uint64_t wrong = 0;           // answers with other bits than without a move
  std::uint64_t evictions = 0;       // DispatcherStats::share_evictions
};

/// Two closed loops on a simulated GPU, with two requests in flight each. Virtual time.
Result<SwitchRun> RunSimSwitch(const SwitchOptions& options, const SwitchKind& kind);

/// Moves shares of two models under full load. Metrics, with DEVICE "sim-v100" or "cpu" and KIND
/// resize or swap:
///   share_switch_idle_us_p50/p99.DEVICE.KIND  from the move until a unit of the new share runs a
///                                             block of the model. Target of p99: 100; goal: 20
///   service_gap_us_p99.DEVICE.KIND            no unit runs a block of the model, beyond the usual
///                                             time between two kernels
///   moves.DEVICE.KIND, jobs., jobs_lost., moves_without_block.  numbers
///   share_evicted_kernels.DEVICE.KIND         revoked because their share lost units
///   results_wrong.cpu.KIND                    answers that are not bit-equal to those alone
///   restart_gap_ms                            median over restarts: between the last answer before
///                                             and the first answer after the model was unloaded
///                                             and loaded again, on the CPU
/// The field "workers" says how many the CPU had, on how many cores. kInvalidArgument: less than
/// three units.
Status RunSwitch(const SwitchOptions& options, Report& report);

}  // namespace lagoon::bench
