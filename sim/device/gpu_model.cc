#include "sim/device/gpu_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>

#include "base/json.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::size_t kMaxProfileBytes = 64 * 1024;

// The bounds are no recommendations. They follow from the sizes of the model's tables, and from
// what arithmetic in nanoseconds over a day can hold.
constexpr std::array kConstants{
    SimConstantInfo{"units", &SimConstants::units, 1, 1024, "compute units"},
    SimConstantInfo{"blocks_per_unit", &SimConstants::blocks_per_unit, 1, 64,
                    "blocks that a unit holds at once"},
    SimConstantInfo{"threads_per_unit", &SimConstants::threads_per_unit, 1, 65536,
                    "threads that a unit holds at once"},
    SimConstantInfo{"registers_per_unit", &SimConstants::registers_per_unit, 1, 1 << 24,
                    "32-bit registers of a unit"},
    SimConstantInfo{"shared_bytes_per_unit", &SimConstants::shared_bytes_per_unit, 0, 1 << 24,
                    "shared memory of a unit"},
    SimConstantInfo{"memory_mib", &SimConstants::memory_mib, 1, 1 << 24, "device memory"},
    SimConstantInfo{"memory_bytes_per_us", &SimConstants::memory_bytes_per_us, 1, 1'000'000'000,
                    "bandwidth of device memory"},
    SimConstantInfo{"hardware_queues", &SimConstants::hardware_queues, 1, 1024,
                    "queues whose heads the device looks at"},
    SimConstantInfo{"copy_engines", &SimConstants::copy_engines, 1, 16, "copies at once"},
    SimConstantInfo{"copy_bytes_per_us", &SimConstants::copy_bytes_per_us, 1, 1'000'000'000,
                    "bandwidth of one copy"},
    SimConstantInfo{"copy_latency_ns", &SimConstants::copy_latency_ns, 0, kSecond,
                    "from a copy's turn to its first byte"},
    SimConstantInfo{"host_submit_ns", &SimConstants::host_submit_ns, 0, kSecond,
                    "host time of one pick and its submission"},
    SimConstantInfo{"host_event_ns", &SimConstants::host_event_ns, 0, kSecond,
                    "host time of one event polled"},
    SimConstantInfo{"host_raise_ns", &SimConstants::host_raise_ns, 0, kSecond,
                    "host time of one revocation: forgetting the host's queue, writing the word"},
    SimConstantInfo{"launch_latency_ns", &SimConstants::launch_latency_ns, 0, kSecond,
                    "from the submission to the device's queue"},
    SimConstantInfo{"raise_latency_ns", &SimConstants::raise_latency_ns, 0, kSecond,
                    "from writing a guard word to blocks that can see it"},
    SimConstantInfo{"notify_latency_ns", &SimConstants::notify_latency_ns, 0, kSecond,
                    "from an event on the device to a host that can see it"},
    SimConstantInfo{"dispatch_ns", &SimConstants::dispatch_ns, 0, kSecond,
                    "between two kernels that start from one queue"},
    SimConstantInfo{"stream_switch_ns", &SimConstants::stream_switch_ns, 0, kSecond,
                    "between two kernels that start from different queues"},
    SimConstantInfo{"dependent_gap_ns", &SimConstants::dependent_gap_ns, 0, kSecond,
                    "from a kernel's end to the start of a queued one that waits for it"},
    SimConstantInfo{"evict_ns", &SimConstants::evict_ns, 0, kSecond,
                    "for a queue to get past one revoked kernel"},
    SimConstantInfo{"check_interval_ns", &SimConstants::check_interval_ns, 1, kSecond,
                    "between two guard checks of a block whose kernel does not say"},
    SimConstantInfo{"kill_ns", &SimConstants::kill_ns, 0, kSecond,
                    "to kill all running blocks, where revocation kills"},
    SimConstantInfo{"coresidency_permille", &SimConstants::coresidency_permille, 0, 100'000,
                    "slow-down of a block by other kernels' blocks that fill the rest of its unit"},
    SimConstantInfo{"share_granule", &SimConstants::share_granule, 1, 1024,
                    "units of which shares of the device are multiples"},
};

tl::unexpected<Error> Wrong(std::string_view origin, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("GPU model '{}': {}", origin, what));
}

// `value` as text for a message, cut after kMost characters.
std::string Shown(const Json& value) {
  constexpr std::size_t kMost = 60;
  std::string text = DumpJson(value, -1, /*ascii=*/true);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

Status CheckKeys(const Json& object, std::span<const std::string_view> keys, std::string_view where,
                 std::string_view origin) {
  if (!object.is_object()) {
    return Wrong(origin, fmt::format("{} must be an object, is {}", where, Shown(object)));
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return Wrong(
          origin, fmt::format("unknown key '{}' in {}, its value is {}", key, where, Shown(value)));
    }
  }
  for (const std::string_view key : keys) {
    if (!object.contains(key)) return Wrong(origin, fmt::format("{} has no '{}'", where, key));
  }
  return {};
}

Result<std::string> Text(const Json& object, const char* key, std::string_view where,
                         std::string_view origin) {
  const Json& value = object.at(key);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    return Wrong(origin, fmt::format("'{}' of {} must be a text, is {}", key, where, Shown(value)));
  }
  return value.get<std::string>();
}

Status ReadConstant(const Json& object, const SimConstantInfo& info, std::string_view origin,
                    GpuModel& gpu) {
  static constexpr std::array<std::string_view, 2> kKeys{"value", "source"};
  const std::string where = fmt::format("constant '{}'", info.name);
  LAGOON_RETURN_IF_ERROR(CheckKeys(object, kKeys, where, origin));
  const Json& value = object.at("value");
  const bool too_large =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (!value.is_number_integer() || too_large) {
    return Wrong(origin,
                 fmt::format("{} must be an integer of 64 bits, is {}", where, Shown(value)));
  }
  gpu.constants.*info.member = value.get<std::int64_t>();
  LAGOON_ASSIGN_OR_RETURN(std::string source, Text(object, "source", where, origin));
  gpu.sources.push_back(std::move(source));
  return {};
}

// The parser silently takes the last of several equal keys; here that is an error.
Result<Json> ParseJson(std::string_view text, std::string_view origin) {
  std::vector<std::set<std::string>> seen;  // by depth
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end) seen.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!seen.back().insert(key).second && twice.empty()) twice = key;
    }
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Wrong(origin, "is not JSON");
  if (!twice.empty()) return Wrong(origin, fmt::format("has '{}' twice", twice));
  return json;
}

std::vector<std::string_view> ConstantNames() {
  std::vector<std::string_view> names;
  for (const SimConstantInfo& info : kConstants) names.push_back(info.name);
  return names;
}

Result<std::string> ReadFile(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) {
    return Fail(ErrorCode::kNotFound, fmt::format("GPU model '{}': {}", path, error.message()));
  }
  if (bytes > kMaxProfileBytes) {
    return Wrong(path, fmt::format("{} bytes, the limit is {}", bytes, kMaxProfileBytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Fail(ErrorCode::kNotFound, fmt::format("GPU model '{}': cannot be read", path));
  return text.str();
}

}  // namespace

std::span<const SimConstantInfo> SimConstantTable() { return kConstants; }

const SimConstantInfo* FindSimConstant(std::string_view name) {
  const auto found =
      std::find_if(kConstants.begin(), kConstants.end(),
                   [name](const SimConstantInfo& info) { return info.name == name; });
  return found == kConstants.end() ? nullptr : &*found;
}

Status CheckSimConstants(const SimConstants& constants, std::string_view origin) {
  for (const SimConstantInfo& info : kConstants) {
    const std::int64_t value = constants.*info.member;
    if (value < info.least || value > info.most) {
      return Wrong(origin, fmt::format("constant '{}' is {}, it must be from {} to {}", info.name,
                                       value, info.least, info.most));
    }
  }
  // A unit that holds that many blocks or threads must be able to run them.
  const auto at_least = [&](std::string_view name, std::string_view than) -> Status {
    const std::int64_t value = constants.*FindSimConstant(name)->member;
    const std::int64_t bound = constants.*FindSimConstant(than)->member;
    if (value >= bound) return {};
    return Wrong(origin, fmt::format("constants contradict each other: '{}' is {}, less than '{}', "
                                     "which is {}",
                                     name, value, than, bound));
  };
  LAGOON_RETURN_IF_ERROR(at_least("threads_per_unit", "blocks_per_unit"));
  LAGOON_RETURN_IF_ERROR(at_least("registers_per_unit", "threads_per_unit"));
  return at_least("stream_switch_ns", "dispatch_ns");
}

Result<GpuModel> ParseGpuModel(std::string_view text, std::string_view origin) {
  static constexpr std::array<std::string_view, 3> kKeys{"name", "description", "constants"};
  LAGOON_ASSIGN_OR_RETURN(const Json json, ParseJson(text, origin));
  LAGOON_RETURN_IF_ERROR(CheckKeys(json, kKeys, "the GPU model", origin));
  GpuModel gpu;
  LAGOON_ASSIGN_OR_RETURN(gpu.name, Text(json, "name", "the GPU model", origin));
  LAGOON_ASSIGN_OR_RETURN(gpu.description, Text(json, "description", "the GPU model", origin));
  const Json& constants = json.at("constants");
  LAGOON_RETURN_IF_ERROR(CheckKeys(constants, ConstantNames(), "'constants'", origin));
  for (const SimConstantInfo& info : kConstants) {
    LAGOON_RETURN_IF_ERROR(ReadConstant(constants.at(info.name), info, origin, gpu));
  }
  LAGOON_RETURN_IF_ERROR(CheckSimConstants(gpu.constants, origin));
  return gpu;
}

Result<GpuModel> LoadGpuModel(const std::string& name_or_path) {
  const bool is_path = name_or_path.find('/') != std::string::npos ||
                       std::filesystem::path(name_or_path).extension() == ".json";
  if (is_path) {
    LAGOON_ASSIGN_OR_RETURN(const std::string text, ReadFile(name_or_path));
    return ParseGpuModel(text, name_or_path);
  }
  const std::string_view text = BuiltInGpuModelText(name_or_path);
  if (text.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no GPU model '{}': there are {}, and files (*.json)",
                            name_or_path, fmt::join(BuiltInGpuModels(), ", ")));
  }
  return ParseGpuModel(text, name_or_path);
}

}  // namespace lagoon
