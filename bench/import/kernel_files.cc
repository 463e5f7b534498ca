#include "bench/import/kernel_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/text.h"
#include "bench/import/traced_kernels.h"
#include "sim/device/units.h"

namespace lagoon {
namespace {

constexpr double kMostTimeNs = 3.6e12;  // an hour: what a simulated block may take
constexpr double kMostBytes = 1e15;

tl::unexpected<Error> Wrong(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, what);
}

// A number of a kernel, rounded; from `least` to `most`.
Result<std::int64_t> Whole(const TracedKernel& kernel, std::string_view name, double value,
                           double least, double most) {
  const double rounded = std::round(value);
  if (rounded >= least && rounded <= most) return static_cast<std::int64_t>(rounded);  // no NaN
  return Wrong(fmt::format("{}: {} is {}, it must be from {} to {}", kernel.where, name, value,
                           least, most));
}

// The same for what is counted: a number with a fraction is none.
Result<std::int64_t> Count(const TracedKernel& kernel, std::string_view name, double value,
                           double least, double most) {
  if (value == std::round(value)) return Whole(kernel, name, value, least, most);
  return Wrong(fmt::format("{}: {} is {}, it must be a whole number", kernel.where, name, value));
}

// What a block takes of a unit of `gpu`. Fails where no block fits.
Result<std::int64_t> DemandOf(const TracedKernel& traced, const GpuModel& gpu, BlockDemand& block) {
  const SimConstants& c = gpu.constants;
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t threads,
                          Count(traced, "threads of a block", traced.threads, 0,
                                static_cast<double>(c.threads_per_unit)));
  const double most_registers = static_cast<double>(c.registers_per_unit) /
                                static_cast<double>(std::max(threads, INT64_C(1)));
  LAGOON_ASSIGN_OR_RETURN(
      const std::int64_t registers,
      Count(traced, "registers of a thread", traced.registers_per_thread, 0, most_registers));
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t shared,
                          Whole(traced, "shared memory of a block", traced.shared_bytes, 0,
                                static_cast<double>(c.shared_bytes_per_unit)));
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t memory, Whole(traced, "memory bytes of a block",
                                                           traced.memory_bytes, 0, kMostBytes));
  block.threads = static_cast<std::uint32_t>(threads);
  block.registers_per_thread = static_cast<std::uint32_t>(registers);
  block.shared_bytes = static_cast<std::uint32_t>(shared);
  block.memory_bytes = static_cast<std::uint64_t>(memory);
  return BlocksAtOnce(c, block);
}

Result<SimModelKernel> ToKernel(const TracedKernel& traced, const GpuModel& gpu) {
  SimModelKernel kernel;
  LAGOON_ASSIGN_OR_RETURN(
      const std::int64_t blocks,
      Count(traced, "number of blocks", traced.blocks, 1, static_cast<double>(kMostListBlocks)));
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t time,
                          Whole(traced, "time in ns", traced.time_ns, 1, kMostTimeNs));
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t at_once, DemandOf(traced, gpu, kernel.block));
  const std::int64_t units = gpu.constants.units;
  const std::int64_t waves = (blocks + units * at_once - 1) / (units * at_once);
  std::int64_t block = std::max(INT64_C(1), time / waves);
  if (traced.block_ns) {
    LAGOON_ASSIGN_OR_RETURN(block, Whole(traced, "time of a block in ns", *traced.block_ns, 1,
                                         static_cast<double>(time)));
  }
  kernel.blocks = static_cast<std::uint32_t>(blocks);
  kernel.time = Nanoseconds(time);
  kernel.block.time = Nanoseconds(block);
  // Where a kernel has fewer blocks than the units hold, each block uses more of its unit.
  const std::int64_t on_a_unit = (blocks + units - 1) / units;
  if (on_a_unit < at_once) {
    kernel.block.use_permille = static_cast<std::uint32_t>(1000 / on_a_unit);
  }
  return kernel;
}

// Sets how kernel `at` restarts (ReadKernelFile). The kernels before it are set.
Status SetRestart(const std::vector<TracedKernel>& traced, std::size_t at,
                  std::vector<SimModelKernel>& kernels) {
  const std::string& text = traced[at].restart;
  const std::string& where = traced[at].where;
  SimModelKernel& kernel = kernels[at];
  if (text.empty() || text == "claims") return {};
  if (text == "wait") {
    kernel.restart = Restart::kNever;
    return {};
  }
  std::uint64_t again = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), again);
  if (error != std::errc() || end != text.data() + text.size() || again == 0) {
    return Wrong(
        fmt::format("{}: 'restart' is {}, it must be 'claims', 'wait' or a number of "
                    "kernels from 1 on",
                    where, Quoted(text)));
  }
  if (again > at + 1) {
    return Wrong(
        fmt::format("{}: 'restart' runs the last {} kernels again, but it is kernel {} of "
                    "the request",
                    where, again, at + 1));
  }
  const std::size_t first = at + 1 - again;
  for (std::size_t i = at; i > first;) {
    const SimModelKernel& before = kernels[--i];
    if (before.restart == Restart::kByClaims) continue;
    const bool waits = before.restart == Restart::kNever;
    if (!waits && before.group_first >= first) {
      i = before.group_first;  // what its group holds was looked at
      continue;
    }
    return Wrong(
        fmt::format("{}: 'restart' runs the last {} kernels again, among them that of {}, "
                    "whose 'restart' is '{}': {}",
                    where, again, traced[i].where, traced[i].restart,
                    waits ? "it cannot run again, so this one must be 'wait' too"
                          : "its group begins earlier, and so must this one"));
  }
  kernel.restart = Restart::kByGroup;
  kernel.group_first = static_cast<std::uint32_t>(first);
  return {};
}

// A request runs on one device: kernels of two are of two requests, or of parallel training.
Status CheckOneDevice(const std::vector<TracedKernel>& traced) {
  for (const TracedKernel& kernel : traced) {
    if (kernel.device == traced.front().device) continue;
    return Wrong(fmt::format("{} is of device {}, and {} of device {}: keep the kernels of one",
                             kernel.where, Quoted(kernel.device), traced.front().where,
                             Quoted(traced.front().device)));
  }
  return {};
}

Result<SimModel> ToModel(const std::string& name, std::vector<TracedKernel> traced,
                         const GpuModel& gpu) {
  if (traced.empty()) return Wrong("has no kernels");
  if (traced.size() > kMostListKernels) {
    return Wrong(
        fmt::format("has more than {} kernels: keep those of one request", kMostListKernels));
  }
  LAGOON_RETURN_IF_ERROR(CheckOneDevice(traced));
  std::ranges::stable_sort(traced, {}, &TracedKernel::start_ns);
  SimModel model;
  model.name = name;
  std::uint64_t blocks = 0;
  Nanoseconds time{0};
  for (std::size_t i = 0; i < traced.size(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(const SimModelKernel kernel, ToKernel(traced[i], gpu));
    blocks += kernel.blocks;
    time += kernel.time;
    model.kernels.push_back(kernel);
    LAGOON_RETURN_IF_ERROR(SetRestart(traced, i, model.kernels));
  }
  if (blocks > kMostListBlocks) {
    return Wrong(fmt::format("has {} blocks, the limit is {}", blocks, kMostListBlocks));
  }
  model.statistics.kernels = static_cast<std::uint32_t>(model.kernels.size());
  const auto gaps = static_cast<std::int64_t>(model.kernels.size() - 1);
  model.statistics.time = time + Nanoseconds(gpu.constants.dependent_gap_ns) * gaps;
  return model;
}

}  // namespace

Result<SimModel> ParseKernelFile(const std::string& name, std::string_view text,
                                 const std::string& origin, const GpuModel& gpu) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // spreadsheets write it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  constexpr std::string_view kGzip = "\x1F\x8B";
  if (text.starts_with(kGzip)) {
    return Wrong(
        fmt::format("kernels of '{}', file '{}': is compressed with gzip; unpack it with gunzip",
                    name, origin));
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != text.npos && (text[first] == '{' || text[first] == '[');
  Result<std::vector<TracedKernel>> kernels =
      json ? ReadProfilerEvents(text) : ReadKernelRows(text);
  Result<SimModel> model = kernels ? ToModel(name, *std::move(kernels), gpu)
                                   : Result<SimModel>(tl::unexpected(std::move(kernels).error()));
  if (!model) {
    return Annotate(fmt::format("kernels of '{}', file '{}'", name, origin),
                    std::move(model).error());
  }
  return model;
}

Result<SimModel> ReadKernelFile(const std::string& name, const std::string& path,
                                const GpuModel& gpu) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  const auto wrong = [&](ErrorCode code, const std::string& what) {
    return Fail(code, fmt::format("kernels of '{}', file '{}': {}", name, path, what));
  };
  if (error) return wrong(ErrorCode::kNotFound, error.message());
  if (bytes > kMostListBytes) {
    return wrong(ErrorCode::kInvalidArgument,
                 fmt::format("{} bytes, the limit is {}: keep the kernels of one request", bytes,
                             kMostListBytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return wrong(ErrorCode::kNotFound, "cannot be read");
  return ParseKernelFile(name, text.view(), path, gpu);
}

}  // namespace lagoon
