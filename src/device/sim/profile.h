#pragma once

// What a simulated device is made of: constants with a name and a source each
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
  // What the host spends.
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
  // Leaving.
  std::int64_t check_interval_ns = 0;
  std::int64_t kill_ns = 0;
  // How much blocks of other kernels on the same unit slow a block, when they fill it.
  std::int64_t coresidency_permille = 0;
};

/// One of SimConstants by name.
struct SimConstantInfo {
  std::string_view name;
  std::int64_t SimConstants::*member;
  std::int64_t least, most;  // what a profile may say
  std::string_view meaning;
};

/// All constants, in the order of the struct.
std::span<const SimConstantInfo> SimConstantTable();

/// Null: there is no constant of that name.
const SimConstantInfo* FindSimConstant(std::string_view name);

struct SimProfile {
  std::string name;         // "mi50"
  std::string description;  // of the device, for people
  SimConstants constants;
  std::vector<std::string> sources;  // of each constant, as SimConstantTable() orders them
};

/// Names of the profiles that are built in, in the order of docs/design/simulator.md.
std::span<const std::string_view> BuiltInSimProfiles();

/// "mi50", or the path of a profile file if it holds a '/' or ends in ".json". kNotFound names what
/// there is; kInvalidArgument names file, key and value.
Result<SimProfile> LoadSimProfile(const std::string& name_or_path);

/// A profile's text: {"name", "description", "constants": {NAME: {"value", "source"}}}, all of them
/// and nothing else. `origin` is named in errors.
Result<SimProfile> ParseSimProfile(std::string_view text, std::string_view origin);

/// Whether the constants are within their bounds and fit together.
Status CheckSimConstants(const SimConstants& constants, std::string_view origin);

/// The text of a profile that is built in; empty: there is none of that name.
std::string_view BuiltInSimProfileText(std::string_view name);

}  // namespace lagoon
