#include "sim/device/gpu_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/json_fields.h"

namespace lagoon {
namespace {

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
    SimConstantInfo{"runtime_queue", &SimConstants::runtime_queue, 0, 1'000'000,
                    "kernels of a queue that a reset gets past at most; 0: all of them"},
    SimConstantInfo{"check_interval_ns", &SimConstants::check_interval_ns, 1, kSecond,
                    "between two guard checks of a block whose kernel does not say"},
    SimConstantInfo{"kill_ns", &SimConstants::kill_ns, 0, kSecond,
                    "to kill all running blocks, where revocation kills"},
    SimConstantInfo{"unit_use_permille", &SimConstants::unit_use_permille, 1, 1000,
                    "what a kernel uses of its units' throughput while it has them for itself"},
    SimConstantInfo{"share_granule", &SimConstants::share_granule, 1, 1024,
                    "units of which shares of the device are multiples"},
};

tl::unexpected<Error> Wrong(std::string_view origin, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("GPU model '{}': {}", origin, what));
}

// {"units": {"value": 60, "source": "where it is from"}}
JsonField ConstantField(const SimConstantInfo& info, GpuModel& gpu) {
  return {info.name, "{\"value\": WHOLE NUMBER, \"source\": TEXT}",
          [&gpu, &info](const nlohmann::json& object) {
            const auto set = [&](std::uint64_t value) {
              gpu.constants.*info.member = static_cast<std::int64_t>(value);
            };
            return ReadFields(object,
                              {JsonField::Whole("value", static_cast<std::uint64_t>(info.least),
                                                static_cast<std::uint64_t>(info.most), set),
                               JsonField::Text("source", gpu.sources.emplace_back())});
          }};
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
  GpuModel gpu;
  JsonFields constants;
  for (const SimConstantInfo& info : kConstants) constants.push_back(ConstantField(info, gpu));
  const auto read_constants = [&](const nlohmann::json& object) {
    return ReadFields(object, constants);
  };
  const Status read =
      ReadJson(text,
               {JsonField::Text("name", gpu.name),
                JsonField::Text("description", gpu.description),
                {"constants", "{NAME: {\"value\", \"source\"}}", read_constants}},
               {JsonField::Flag("background", [&gpu](bool value) { gpu.background = value; })});
  if (!read) return Wrong(origin, read.error().message);
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

bool IsBuiltIn(const GpuModel& gpu) {
  const std::string_view text = BuiltInGpuModelText(gpu.name);
  if (text.empty()) return false;
  const Result<GpuModel> built_in = ParseGpuModel(text, gpu.name);
  return built_in && gpu.background == built_in->background &&
         std::ranges::all_of(SimConstantTable(), [&](const SimConstantInfo& info) {
           return gpu.constants.*info.member == built_in->constants.*info.member;
         });
}

}  // namespace lagoon
