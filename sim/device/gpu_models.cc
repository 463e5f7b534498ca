// The built-in devices. Every constant names its source; "assumed" ones are printed with their
// sensitivity (docs/design/simulator.md).

#include <array>
#include <cstddef>
#include <string_view>

#include "sim/device/gpu_model.h"

namespace lagoon {
namespace {

struct BuiltIn {
  std::string_view name, text;
};

// Every CPU has this text, with its number of cores for each #.
constexpr char kCpu[] = R"json({
"name": "cpu#", "description": "# cores of a CPU, a worker on each", "background": true,
"constants": {
"units": {"value": #, "source": "chosen: a common number of cores"},
"blocks_per_unit": {"value": 1, "source": "a worker runs one block at a time"},
"threads_per_unit": {"value": 1, "source": "a block takes a whole worker"},
"registers_per_unit": {"value": 1, "source": "not used: blocks state no registers"},
"shared_bytes_per_unit": {"value": 0, "source": "not used: blocks state no shared memory"},
"memory_mib": {"value": 16384, "source": "assumed"},
"memory_bytes_per_us": {"value": 20000, "source": "assumed; not used: the kernel lists of CPUs state no traffic"},
"hardware_queues": {"value": 1024, "source": "chosen: a CPU has no hardware queues, so none holds work up"},
"copy_engines": {"value": 1, "source": "assumed: in truth the workers copy"},
"copy_bytes_per_us": {"value": 8000, "source": "assumed"},
"copy_latency_ns": {"value": 0, "source": "a worker copies as soon as it takes the copy"},
"host_submit_ns": {"value": 1000, "source": "measured: a kernel takes 1.7 us of the dispatcher beside five closed loops, events included (2026-11-21-sim-decision.json)"},
"host_event_ns": {"value": 200, "source": "measured, with the one before"},
"host_raise_ns": {"value": 1000, "source": "assumed: a lock and a word"},
"launch_latency_ns": {"value": 1000, "source": "assumed: a worker that spins finds the launch"},
"raise_latency_ns": {"value": 200, "source": "assumed: a cache line goes from one core to another"},
"notify_latency_ns": {"value": 1000, "source": "assumed: the worker that ended the kernel tells the dispatcher"},
"dispatch_ns": {"value": 0, "source": "a CPU has no front end: every worker takes blocks by itself"},
"stream_switch_ns": {"value": 0, "source": "a CPU has no front end"},
"dependent_gap_ns": {"value": 1000, "source": "assumed: workers that spin see the last commit"},
"evict_ns": {"value": 0, "source": "a CPU has no queues to get past"},
"runtime_queue": {"value": 0, "source": "a CPU has no queues to get past"},
"check_interval_ns": {"value": 10000, "source": "chosen: half of what the block protocol allows (20 us)"},
"kill_ns": {"value": 0, "source": "not used: blocks leave at checks"},
"unit_use_permille": {"value": 1000, "source": "a unit holds one block"},
"share_granule": {"value": 1, "source": "chosen: single units, so that no share is rounded"}
}})json";

template <char kCores>
constexpr auto kCpuOf = [] {
  std::array<char, sizeof(kCpu) - 1> text{};
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = kCpu[i] == '#' ? kCores : kCpu[i];
  return text;
}();

template <char kCores>
constexpr std::string_view CpuText() {
  return {kCpuOf<kCores>.data(), kCpuOf<kCores>.size()};
}

constexpr std::array kBuiltIn{
    BuiltIn{"mi50", R"json({
"name": "mi50", "description": "AMD Radeon Instinct MI50",
"constants": {
"units": {"value": 60, "source": "REEF 6.2"},
"blocks_per_unit": {"value": 16, "source": "AMD GCN architecture: work-groups of several waves per compute unit"},
"threads_per_unit": {"value": 2560, "source": "AMD GCN architecture: 40 waves of 64; REEF 5.1: 10 occupancy levels"},
"registers_per_unit": {"value": 65536, "source": "REEF 4 (256 KB register file)"},
"shared_bytes_per_unit": {"value": 65536, "source": "AMD GCN architecture"},
"memory_mib": {"value": 16384, "source": "REEF 6.2"},
"memory_bytes_per_us": {"value": 1024000, "source": "vendor data sheet"},
"hardware_queues": {"value": 4, "source": "assumed: ROCm's default for one process"},
"copy_engines": {"value": 2, "source": "vendor data sheet"},
"copy_bytes_per_us": {"value": 12000, "source": "assumed: 3/4 of the PCIe link"},
"copy_latency_ns": {"value": 10000, "source": "assumed"},
"host_submit_ns": {"value": 1000, "source": "REEF Fig. 21a, calibrated with the next ones"},
"host_event_ns": {"value": 200, "source": "REEF Fig. 21a, calibrated"},
"host_raise_ns": {"value": 3000, "source": "REEF Fig. 20b (reset of the host queue)"},
"launch_latency_ns": {"value": 7000, "source": "REEF Fig. 21a, calibrated: 2.0 ms more for 207 kernels at a queue depth of 1"},
"raise_latency_ns": {"value": 1000, "source": "assumed"},
"notify_latency_ns": {"value": 2000, "source": "REEF Fig. 21a, calibrated"},
"dispatch_ns": {"value": 500, "source": "assumed"},
"stream_switch_ns": {"value": 20000, "source": "REEF 5 (dispatch delay between streams, 20-40 us); within that calibrated on REEF 6.3, Fig. 15b: streams' throughput in C"},
"dependent_gap_ns": {"value": 500, "source": "assumed"},
"evict_ns": {"value": 7750, "source": "REEF Fig. 20b (31 us for a device queue of 4)"},
"runtime_queue": {"value": 55, "source": "REEF Fig. 20b: (430 us - 3 us host - 3 us kill) / 7.75 us"},
"check_interval_ns": {"value": 5000, "source": "assumed: a quarter of what the block protocol allows (20 us)"},
"kill_ns": {"value": 3000, "source": "REEF 4.5, Fig. 20b"},
"unit_use_permille": {"value": 500, "source": "REEF 6.3, Fig. 15b, calibrated with a sketch of the model: streams' throughput in C"},
"share_granule": {"value": 1, "source": "chosen: single units, so that no share is rounded"}
}})json"},
    BuiltIn{"gv100", R"json({
"name": "gv100", "description": "NVIDIA Quadro GV100",
"constants": {
"units": {"value": 80, "source": "REEF 6.2"},
"blocks_per_unit": {"value": 32, "source": "CUDA C++ Programming Guide, compute capability 7.0"},
"threads_per_unit": {"value": 2048, "source": "CUDA C++ Programming Guide, compute capability 7.0"},
"registers_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 7.0"},
"shared_bytes_per_unit": {"value": 98304, "source": "CUDA C++ Programming Guide, compute capability 7.0"},
"memory_mib": {"value": 32768, "source": "REEF 6.2"},
"memory_bytes_per_us": {"value": 870000, "source": "vendor data sheet"},
"hardware_queues": {"value": 32, "source": "Paella 2.1 (32 hardware queues)"},
"copy_engines": {"value": 2, "source": "vendor data sheet"},
"copy_bytes_per_us": {"value": 12000, "source": "assumed: 3/4 of the PCIe link"},
"copy_latency_ns": {"value": 5000, "source": "assumed"},
"host_submit_ns": {"value": 1500, "source": "assumed"},
"host_event_ns": {"value": 100, "source": "assumed: one cached 8-byte entry (Paella 5.2)"},
"host_raise_ns": {"value": 3000, "source": "REEF Fig. 20b (reset of the host queue, on MI50)"},
"launch_latency_ns": {"value": 4000, "source": "assumed"},
"raise_latency_ns": {"value": 1000, "source": "assumed"},
"notify_latency_ns": {"value": 1000, "source": "assumed"},
"dispatch_ns": {"value": 500, "source": "assumed"},
"stream_switch_ns": {"value": 1000, "source": "assumed"},
"dependent_gap_ns": {"value": 1000, "source": "assumed"},
"evict_ns": {"value": 4000, "source": "REEF Fig. 18b, calibrated: (34 us - 15 us kill - 3 us host) / 4 queued kernels"},
"runtime_queue": {"value": 0, "source": "not published for it: no bound"},
"check_interval_ns": {"value": 5000, "source": "assumed: a quarter of what the block protocol allows (20 us)"},
"kill_ns": {"value": 15000, "source": "REEF 4.6"},
"unit_use_permille": {"value": 1000, "source": "REEF 6.3, Fig. 16b, calibrated with a sketch of the model: streams' throughput in C"},
"share_granule": {"value": 1, "source": "chosen: single units, so that no share is rounded"}
}})json"},
    BuiltIn{"t4", R"json({
"name": "t4", "description": "NVIDIA Tesla T4",
"constants": {
"units": {"value": 40, "source": "vendor data sheet"},
"blocks_per_unit": {"value": 16, "source": "CUDA C++ Programming Guide, compute capability 7.5"},
"threads_per_unit": {"value": 1024, "source": "CUDA C++ Programming Guide, compute capability 7.5"},
"registers_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 7.5"},
"shared_bytes_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 7.5"},
"memory_mib": {"value": 16384, "source": "vendor data sheet"},
"memory_bytes_per_us": {"value": 320000, "source": "vendor data sheet"},
"hardware_queues": {"value": 32, "source": "Paella 2.1 (32 hardware queues)"},
"copy_engines": {"value": 2, "source": "vendor data sheet"},
"copy_bytes_per_us": {"value": 12000, "source": "assumed: 3/4 of the PCIe link"},
"copy_latency_ns": {"value": 5000, "source": "assumed"},
"host_submit_ns": {"value": 3900, "source": "as gtx1660s, whose host Paella uses too"},
"host_event_ns": {"value": 100, "source": "assumed: one cached 8-byte entry (Paella 5.2)"},
"host_raise_ns": {"value": 3000, "source": "REEF Fig. 20b (reset of the host queue, on MI50)"},
"launch_latency_ns": {"value": 4000, "source": "assumed"},
"raise_latency_ns": {"value": 1000, "source": "assumed"},
"notify_latency_ns": {"value": 1000, "source": "assumed"},
"dispatch_ns": {"value": 500, "source": "assumed"},
"stream_switch_ns": {"value": 1000, "source": "assumed"},
"dependent_gap_ns": {"value": 1000, "source": "assumed"},
"evict_ns": {"value": 4000, "source": "as gv100"},
"runtime_queue": {"value": 0, "source": "not published for it: no bound"},
"check_interval_ns": {"value": 5000, "source": "assumed: a quarter of what the block protocol allows (20 us)"},
"kill_ns": {"value": 15000, "source": "REEF 4.6 (GV100)"},
"unit_use_permille": {"value": 1000, "source": "as gv100"},
"share_granule": {"value": 1, "source": "chosen: single units, so that no share is rounded"}
}})json"},
    BuiltIn{"gtx1660s", R"json({
"name": "gtx1660s", "description": "NVIDIA GeForce GTX 1660 SUPER",
"constants": {
"units": {"value": 22, "source": "Paella 2.1"},
"blocks_per_unit": {"value": 16, "source": "CUDA C++ Programming Guide, compute capability 7.5"},
"threads_per_unit": {"value": 1024, "source": "Paella 2.1"},
"registers_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 7.5"},
"shared_bytes_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 7.5"},
"memory_mib": {"value": 6144, "source": "vendor data sheet"},
"memory_bytes_per_us": {"value": 336000, "source": "vendor data sheet"},
"hardware_queues": {"value": 32, "source": "Paella 2.1 (32 hardware queues)"},
"copy_engines": {"value": 2, "source": "vendor data sheet"},
"copy_bytes_per_us": {"value": 12000, "source": "assumed: 3/4 of the PCIe link"},
"copy_latency_ns": {"value": 5000, "source": "assumed"},
"host_submit_ns": {"value": 3900, "source": "Paella 2.1, calibrated: 2.2 times the goodput is 29,900 jobs a second, or 4.2 us a kernel with its events"},
"host_event_ns": {"value": 100, "source": "assumed: one cached 8-byte entry (Paella 5.2)"},
"host_raise_ns": {"value": 3000, "source": "REEF Fig. 20b (reset of the host queue, on MI50)"},
"launch_latency_ns": {"value": 4000, "source": "assumed"},
"raise_latency_ns": {"value": 1000, "source": "assumed"},
"notify_latency_ns": {"value": 1000, "source": "assumed"},
"dispatch_ns": {"value": 500, "source": "assumed"},
"stream_switch_ns": {"value": 1000, "source": "assumed"},
"dependent_gap_ns": {"value": 1000, "source": "assumed"},
"evict_ns": {"value": 4000, "source": "as gv100"},
"runtime_queue": {"value": 0, "source": "not published for it: no bound"},
"check_interval_ns": {"value": 5000, "source": "assumed: a quarter of what the block protocol allows (20 us)"},
"kill_ns": {"value": 15000, "source": "REEF 4.6 (GV100)"},
"unit_use_permille": {"value": 1000, "source": "as gv100"},
"share_granule": {"value": 1, "source": "chosen: single units, so that no share is rounded"}
}})json"},
    BuiltIn{"v100", R"json({
"name": "v100", "description": "NVIDIA Tesla V100 SXM2",
"constants": {
"units": {"value": 80, "source": "vendor data sheet"},
"blocks_per_unit": {"value": 32, "source": "CUDA C++ Programming Guide, compute capability 7.0"},
"threads_per_unit": {"value": 2048, "source": "CUDA C++ Programming Guide, compute capability 7.0"},
"registers_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 7.0"},
"shared_bytes_per_unit": {"value": 98304, "source": "CUDA C++ Programming Guide, compute capability 7.0"},
"memory_mib": {"value": 32768, "source": "vendor data sheet"},
"memory_bytes_per_us": {"value": 900000, "source": "vendor data sheet"},
"hardware_queues": {"value": 32, "source": "Paella 2.1 (32 hardware queues)"},
"copy_engines": {"value": 2, "source": "vendor data sheet"},
"copy_bytes_per_us": {"value": 12000, "source": "assumed: 3/4 of the PCIe link"},
"copy_latency_ns": {"value": 5000, "source": "assumed"},
"host_submit_ns": {"value": 1500, "source": "assumed"},
"host_event_ns": {"value": 100, "source": "assumed: one cached 8-byte entry (Paella 5.2)"},
"host_raise_ns": {"value": 3000, "source": "REEF Fig. 20b (reset of the host queue, on MI50)"},
"launch_latency_ns": {"value": 4000, "source": "assumed"},
"raise_latency_ns": {"value": 1000, "source": "assumed"},
"notify_latency_ns": {"value": 1000, "source": "assumed"},
"dispatch_ns": {"value": 500, "source": "assumed"},
"stream_switch_ns": {"value": 1000, "source": "assumed"},
"dependent_gap_ns": {"value": 1000, "source": "assumed"},
"evict_ns": {"value": 4000, "source": "as gv100"},
"runtime_queue": {"value": 0, "source": "not published for it: no bound"},
"check_interval_ns": {"value": 5000, "source": "assumed: a quarter of what the block protocol allows (20 us)"},
"kill_ns": {"value": 15000, "source": "REEF 4.6 (GV100)"},
"unit_use_permille": {"value": 1000, "source": "as gv100"},
"share_granule": {"value": 1, "source": "chosen: single units, so that no share is rounded"}
}})json"},
    BuiltIn{"a100", R"json({
"name": "a100", "description": "NVIDIA A100 40 GB SXM4",
"constants": {
"units": {"value": 108, "source": "vendor data sheet"},
"blocks_per_unit": {"value": 32, "source": "CUDA C++ Programming Guide, compute capability 8.0"},
"threads_per_unit": {"value": 2048, "source": "CUDA C++ Programming Guide, compute capability 8.0"},
"registers_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 8.0"},
"shared_bytes_per_unit": {"value": 167936, "source": "CUDA C++ Programming Guide, compute capability 8.0"},
"memory_mib": {"value": 40960, "source": "vendor data sheet"},
"memory_bytes_per_us": {"value": 1555000, "source": "vendor data sheet"},
"hardware_queues": {"value": 32, "source": "Paella 2.1 (32 hardware queues)"},
"copy_engines": {"value": 2, "source": "vendor data sheet"},
"copy_bytes_per_us": {"value": 24000, "source": "assumed: 3/4 of the PCIe link"},
"copy_latency_ns": {"value": 5000, "source": "assumed"},
"host_submit_ns": {"value": 1500, "source": "assumed"},
"host_event_ns": {"value": 100, "source": "assumed: one cached 8-byte entry (Paella 5.2)"},
"host_raise_ns": {"value": 3000, "source": "REEF Fig. 20b (reset of the host queue, on MI50)"},
"launch_latency_ns": {"value": 4000, "source": "assumed"},
"raise_latency_ns": {"value": 1000, "source": "assumed"},
"notify_latency_ns": {"value": 1000, "source": "assumed"},
"dispatch_ns": {"value": 500, "source": "assumed"},
"stream_switch_ns": {"value": 1000, "source": "assumed"},
"dependent_gap_ns": {"value": 1000, "source": "assumed"},
"evict_ns": {"value": 4000, "source": "as gv100"},
"runtime_queue": {"value": 0, "source": "not published for it: no bound"},
"check_interval_ns": {"value": 5000, "source": "assumed: a quarter of what the block protocol allows (20 us)"},
"kill_ns": {"value": 15000, "source": "REEF 4.6 (GV100)"},
"unit_use_permille": {"value": 1000, "source": "as gv100"},
"share_granule": {"value": 1, "source": "chosen: single units, so that no share is rounded"}
}})json"},
    BuiltIn{"h200", R"json({
"name": "h200", "description": "NVIDIA H200 SXM",
"constants": {
"units": {"value": 132, "source": "vendor data sheet"},
"blocks_per_unit": {"value": 32, "source": "CUDA C++ Programming Guide, compute capability 9.0"},
"threads_per_unit": {"value": 2048, "source": "CUDA C++ Programming Guide, compute capability 9.0"},
"registers_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 9.0"},
"shared_bytes_per_unit": {"value": 233472, "source": "CUDA C++ Programming Guide, compute capability 9.0"},
"memory_mib": {"value": 144384, "source": "vendor data sheet"},
"memory_bytes_per_us": {"value": 4800000, "source": "vendor data sheet"},
"hardware_queues": {"value": 32, "source": "Paella 2.1 (32 hardware queues)"},
"copy_engines": {"value": 2, "source": "vendor data sheet"},
"copy_bytes_per_us": {"value": 48000, "source": "assumed: 3/4 of the PCIe link"},
"copy_latency_ns": {"value": 5000, "source": "assumed"},
"host_submit_ns": {"value": 1500, "source": "assumed"},
"host_event_ns": {"value": 100, "source": "assumed: one cached 8-byte entry (Paella 5.2)"},
"host_raise_ns": {"value": 3000, "source": "REEF Fig. 20b (reset of the host queue, on MI50)"},
"launch_latency_ns": {"value": 4000, "source": "assumed"},
"raise_latency_ns": {"value": 1000, "source": "assumed"},
"notify_latency_ns": {"value": 1000, "source": "assumed"},
"dispatch_ns": {"value": 500, "source": "assumed"},
"stream_switch_ns": {"value": 1000, "source": "assumed"},
"dependent_gap_ns": {"value": 1000, "source": "assumed"},
"evict_ns": {"value": 4000, "source": "as gv100"},
"runtime_queue": {"value": 0, "source": "not published for it: no bound"},
"check_interval_ns": {"value": 5000, "source": "assumed: a quarter of what the block protocol allows (20 us)"},
"kill_ns": {"value": 15000, "source": "REEF 4.6 (GV100)"},
"unit_use_permille": {"value": 1000, "source": "as gv100"},
"share_granule": {"value": 1, "source": "chosen: single units, so that no share is rounded"}
}})json"},
    BuiltIn{"nano", R"json({
"name": "nano", "description": "NVIDIA Jetson Nano (one multiprocessor of its Tegra X1)",
"constants": {
"units": {"value": 1, "source": "vendor data sheet (128 CUDA cores, one multiprocessor)"},
"blocks_per_unit": {"value": 32, "source": "CUDA C++ Programming Guide, compute capability 5.3"},
"threads_per_unit": {"value": 2048, "source": "CUDA C++ Programming Guide, compute capability 5.3"},
"registers_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 5.3"},
"shared_bytes_per_unit": {"value": 65536, "source": "CUDA C++ Programming Guide, compute capability 5.3"},
"memory_mib": {"value": 4096, "source": "vendor data sheet (shared with the host)"},
"memory_bytes_per_us": {"value": 25600, "source": "vendor data sheet"},
"hardware_queues": {"value": 16, "source": "assumed"},
"copy_engines": {"value": 2, "source": "assumed: as t4"},
"copy_bytes_per_us": {"value": 12000, "source": "assumed: as t4"},
"copy_latency_ns": {"value": 5000, "source": "assumed: as t4"},
"host_submit_ns": {"value": 5000, "source": "assumed: its host has four slow cores (Cortex-A57)"},
"host_event_ns": {"value": 100, "source": "assumed: as t4"},
"host_raise_ns": {"value": 3000, "source": "assumed: as t4"},
"launch_latency_ns": {"value": 4000, "source": "assumed: as t4"},
"raise_latency_ns": {"value": 1000, "source": "assumed: as t4"},
"notify_latency_ns": {"value": 1000, "source": "assumed: as t4"},
"dispatch_ns": {"value": 500, "source": "assumed: as t4"},
"stream_switch_ns": {"value": 1000, "source": "assumed: as t4"},
"dependent_gap_ns": {"value": 1000, "source": "assumed: as t4"},
"evict_ns": {"value": 4000, "source": "assumed: as t4"},
"runtime_queue": {"value": 0, "source": "not published for it: no bound"},
"check_interval_ns": {"value": 5000, "source": "assumed: a quarter of what the block protocol allows (20 us)"},
"kill_ns": {"value": 15000, "source": "assumed: as t4"},
"unit_use_permille": {"value": 1000, "source": "as gv100"},
"share_granule": {"value": 1, "source": "chosen: single units, so that no share is rounded"}
}})json"},
    BuiltIn{"cpu2", CpuText<'2'>()},
    BuiltIn{"cpu4", CpuText<'4'>()},
    BuiltIn{"cpu8", CpuText<'8'>()},
};

constexpr std::array kNames{
    std::string_view("mi50"),     std::string_view("gv100"), std::string_view("t4"),
    std::string_view("gtx1660s"), std::string_view("v100"),  std::string_view("a100"),
    std::string_view("h200"),     std::string_view("nano"),  std::string_view("cpu2"),
    std::string_view("cpu4"),     std::string_view("cpu8"),
};
static_assert(kNames.size() == kBuiltIn.size());

}  // namespace

std::span<const std::string_view> BuiltInGpuModels() { return kNames; }

std::string_view BuiltInGpuModelText(std::string_view name) {
  for (const BuiltIn& built_in : kBuiltIn) {
    if (built_in.name == name) return built_in.text;
  }
  return {};
}

}  // namespace lagoon
