#pragma once

// The constants that make up a simulated device, each with a name and a source
// (docs/design/simulator.md).

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// The constants of a device. All are integers; the suffix is the unit.
struct SimConstants {
  // Limits of the device and of one unit (Paella, Table 1).
  std::int64_t units = 0;
  std::int64_t blocks_per_unit = 0;
  std::int64_t threads_per_unit = 0;
  std::int64_t registers_per_unit = 0;
  std::int64_t shared_bytes_per_unit = 0;
  std::int64_t memory_mib = 0;
  std::int64_t memory_bytes_per_us = 0;
  std::int64_t hardware_queues = 0;
  // Copies between host and device.
  std::int64_t copy_engines = 0;
  std::int64_t copy_bytes_per_us = 0;
  std::int64_t copy_latency_ns = 0;
  // Time that the host spends.
  std::int64_t host_submit_ns = 0;
  std::int64_t host_event_ns = 0;
  std::int64_t host_raise_ns = 0;
  // From host to device and back.
  std::int64_t launch_latency_ns = 0;
  std::int64_t raise_latency_ns = 0;
  std::int64_t notify_latency_ns = 0;
  // The device's front end, which starts kernels.
  std::int64_t dispatch_ns = 0;
  std::int64_t stream_switch_ns = 0;
  std::int64_t dependent_gap_ns = 0;
  std::int64_t evict_ns = 0;
  std::int64_t runtime_queue = 0;
  // How blocks leave.
  std::int64_t check_interval_ns = 0;
  std::int64_t kill_ns = 0;
  // What a kernel uses of its units' throughput while it has them for itself.
  std::int64_t unit_use_permille = 1000;
  // DeviceInfo::share_granule.
  std::int64_t share_granule = 0;
};

/// Describes one member of SimConstants.
struct SimConstantInfo {
  std::string_view name;
  std::int64_t SimConstants::*member;
  std::int64_t least, most;  // bounds of the value in a GPU model
  std::string_view meaning;
};

/// All constants, in the order of the struct.
std::span<const SimConstantInfo> SimConstantTable();

/// Null: there is no constant of that name.
const SimConstantInfo* FindSimConstant(std::string_view name);

struct GpuModel {
  std::string name;         // "mi50"
  std::string description;  // of the device, for people
  SimConstants constants;
  std::vector<std::string> sources;  // of each constant, in the order of SimConstantTable()
  /// The device takes launches with Launch::background: it is a CPU with idle threads.
  bool background = false;
};

/// Names of the built-in GPU models, in the order of sim/device/README.md.
std::span<const std::string_view> BuiltInGpuModels();

/// `name_or_path`: a built-in name ("mi50"), or the path of a file of a GPU model if it holds a '/'
/// or ends in ".json". kNotFound names the built-in GPU models; kInvalidArgument names file, key
/// and value.
Result<GpuModel> LoadGpuModel(const std::string& name_or_path);

/// Reads the text of a GPU model, which has all constants and no unknown key:
/// {"name", "description", "constants": {NAME: {"value", "source"}}}. `origin` is named in errors.
/// "background" (true or false) may be left out.
Result<GpuModel> ParseGpuModel(std::string_view text, std::string_view origin);

/// Whether the device is the built-in one of its name: all but texts is equal.
bool IsBuiltIn(const GpuModel& gpu);

/// Checks that the constants are within their bounds and fit together.
Status CheckSimConstants(const SimConstants& constants, std::string_view origin);

/// The text of a built-in GPU model. Empty: there is no built-in GPU model of that name.
std::string_view BuiltInGpuModelText(std::string_view name);

}  // namespace lagoon
