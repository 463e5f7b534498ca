#include "bench/sim/kernel_lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "bench/sim/cpu_kernel_lists.h"
#include "sim/device/gpu_model.h"

namespace lagoon {
namespace {

using std::chrono::microseconds;

// A block of TVM's kernels: 256 threads of 64 registers, so that four fit into a unit. Assumed.
constexpr std::uint32_t kThreads = 256, kRegisters = 64, kBlocksPerUnit = 4;
// Kernels that fill the device run in two waves: REEF 5.3 gives 30.8 us for a block of a kernel of
// 54.2 us.
constexpr std::uint32_t kWaves = 2;

// REEF, Table 1: number of kernels (TVM) and times. Figure 3 and 2.1: VGG's kernels take 10 to 365
// us and 6.7 to 86.7 % of the units. The same shortest kernel is assumed for the other models. 6.5:
// ResNet-152 uses 34 % and YOLOv3 87 % of the units; the other means are assumed.
constexpr std::string_view kReef = "REEF Table 1, Fig. 3, 2.1, 6.5; use assumed for bert, gpt2";
constexpr std::string_view kReefVgg = "REEF Table 1, Fig. 3, 2.1; mean use assumed";
// REEF has no times for its GV100. Assumed: MI50's times scaled by the ratio of the
// single-precision peaks (13.3 to 14.8 TFLOP/s), and a larger use of the units (6.3 says so without
// a number).
constexpr std::string_view kScaled = "assumed: mi50's kernels and times by peak, use 1.2 times";
// REEF, Table 1: numbers of kernels, and of those that are not idempotent. Times and use are not
// published: assumed as TVM's.
constexpr std::string_view kEngine = "REEF Table 1; times and use assumed as gv100's TVM lists";
// Paella, Table 2: times. 7.2: InceptionV3 has five times the kernels of ResNet-18. The other
// counts are numbers of layers after fusion; use is assumed.
constexpr std::string_view kPaella = "Paella Table 2, Fig. 13; kernel counts and use assumed";

// SPLIT, Table 1: times and numbers of operators. Assumed: one kernel for each operator. The only
// unit is always in use. A grid does not shrink with the device, so that long kernels run in many
// waves: of blocks of 100 us, assumed.
constexpr std::string_view kSplit = "SPLIT Table 1; kernels of one operator and blocks assumed";

constexpr SimModelStatistics Model(std::string_view device, std::string_view model,
                                   std::uint32_t kernels, std::int64_t time_us, double use,
                                   std::string_view source) {
  SimModelStatistics statistics;
  statistics.device = device;
  statistics.model = model;
  statistics.kernels = kernels;
  statistics.time = microseconds(time_us);
  statistics.shortest = microseconds(10);
  statistics.least_use = 0.067;
  statistics.mean_use = use;
  statistics.source = source;
  return statistics;
}

constexpr SimModelStatistics Vgg() {
  SimModelStatistics vgg = Model("mi50", "vgg19", 71, 3'700, 0.467, kReefVgg);
  vgg.longest = microseconds(365);
  vgg.skew = 7;
  vgg.most_use = 0.867;
  return vgg;
}

// `shortest_us`: assumed. GPT-2's 2,534 kernels take 7 us in the mean.
constexpr SimModelStatistics OfSplit(std::string_view model, std::uint32_t kernels,
                                     std::int64_t time_us, std::int64_t shortest_us) {
  SimModelStatistics statistics = Model("nano", model, kernels, time_us, 1, kSplit);
  statistics.shortest = microseconds(shortest_us);
  statistics.block = microseconds(100);
  return statistics;
}

// GSLICE: times of one row, Table 5 (ResNet-50, VGG-19), 4.4 (AlexNet), Table 2 (GNMT); that of
// Jasper and ResNeXt-50 is assumed. Kernel counts are assumed. Use is assumed: VGG-19 and
// ResNet-50 as gv100's (ResNet-152), which has as many units; GNMT as gv100's
// bert; the others between these.
constexpr std::string_view kGslice = "GSLICE Tables 2 and 5, 4.4; kernel counts and use assumed";

constexpr SimModelStatistics OfGslice(std::string_view model, std::uint32_t kernels,
                                      std::int64_t time_us, double use) {
  SimModelStatistics statistics = Model("v100", model, kernels, time_us, use, kGslice);
  statistics.whole_units = true;
  return statistics;
}

// TensorRT and PyTorch on gv100.
constexpr SimModelStatistics OfEngine(std::string_view model, std::uint32_t kernels,
                                      std::uint32_t not_idempotent, std::int64_t time_us,
                                      double use) {
  SimModelStatistics statistics = Model("gv100", model, kernels, time_us, use, kEngine);
  statistics.not_idempotent = not_idempotent;
  return statistics;
}

constexpr std::array kModels{
    Model("mi50", "resnet152", 207, 9'100, 0.34, kReef),
    Vgg(),
    Model("mi50", "yolov3", 144, 10'000, 0.87, kReef),
    Model("mi50", "bert", 393, 8'100, 0.60, kReef),
    Model("mi50", "gpt2", 440, 13'200, 0.70, kReef),
    Model("gv100", "resnet152", 207, 8'180, 0.41, kScaled),
    Model("gv100", "vgg19", 71, 3'325, 0.56, kScaled),
    Model("gv100", "yolov3", 144, 8'990, 0.95, kScaled),
    Model("gv100", "bert", 393, 7'280, 0.72, kScaled),
    Model("gv100", "gpt2", 440, 11'860, 0.84, kScaled),
    OfEngine("trt-resnet152", 103, 36, 8'180, 0.41),
    OfEngine("trt-vgg19", 30, 0, 3'325, 0.56),
    OfEngine("trt-yolov3", 175, 22, 8'990, 0.95),
    OfEngine("trt-bert", 173, 12, 7'280, 0.72),
    OfEngine("trt-gpt2", 148, 12, 11'860, 0.84),
    OfEngine("torch-resnet152", 211, 66, 8'180, 0.41),
    OfEngine("torch-vgg19", 81, 36, 3'325, 0.56),
    OfEngine("torch-yolov3", 572, 3, 8'990, 0.95),
    OfEngine("torch-bert", 238, 73, 7'280, 0.72),
    OfEngine("torch-gpt2", 294, 36, 11'860, 0.84),
    Model("t4", "resnet18", 26, 1'580, 0.7, kPaella),
    Model("t4", "mobilenetv2", 54, 1'670, 0.6, kPaella),
    Model("t4", "resnet34", 46, 2'550, 0.7, kPaella),
    Model("t4", "squeezenet", 30, 4'790, 0.7, kPaella),
    Model("t4", "resnet50", 60, 5'760, 0.8, kPaella),
    Model("t4", "densenet", 124, 6'080, 0.6, kPaella),
    Model("t4", "googlenet", 72, 7'860, 0.6, kPaella),
    Model("t4", "inceptionv3", 130, 31'200, 0.8, kPaella),
    OfGslice("alexnet", 20, 2'170, 0.30),
    OfGslice("resnet50", 60, 5'650, 0.41),
    OfGslice("resnext50", 60, 8'000, 0.50),
    OfGslice("vgg19", 71, 20'960, 0.56),
    OfGslice("gnmt", 393, 22'500, 0.72),
    OfGslice("jasper", 200, 50'000, 0.41),
    OfSplit("yolov2", 84, 10'800, 10),
    OfSplit("googlenet", 142, 13'200, 10),
    OfSplit("resnet50", 122, 28'350, 10),
    OfSplit("vgg19", 44, 67'500, 10),
    OfSplit("gpt2", 2534, 20'400, 2),
};

tl::unexpected<Error> Wrong(const SimModelStatistics& statistics, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("model '{}' on '{}': {}", statistics.model, statistics.device, what));
}

// The middles of `count` equal parts of [0, 1), in an order that depends only on the seed. mt19937
// and this shuffle are the same everywhere; the library's distributions are not.
std::vector<double> Shuffled(std::uint32_t count, std::uint32_t seed) {
  std::vector<double> parts(count);
  for (std::uint32_t i = 0; i < count; ++i) parts[i] = (i + 0.5) / count;
  std::mt19937 random(seed);
  for (std::uint32_t i = count; i > 1; --i) std::swap(parts[i - 1], parts[random() % i]);
  return parts;
}

double Power(double base, std::uint32_t exponent) {
  double power = 1;
  while (exponent-- > 0) power *= base;
  return power;
}

// Kernel times in ns: `shortest` each, and the remaining time divided in proportion to u^skew. If
// `longest` is given, the largest time is `longest`.
Result<std::vector<double>> KernelTimes(const SimModelStatistics& statistics, Nanoseconds gap) {
  std::vector<double> times = Shuffled(statistics.kernels, statistics.kernels);
  const auto largest = std::max_element(times.begin(), times.end());
  for (double& time : times) time = Power(time, statistics.skew);
  const auto least = static_cast<double>(statistics.shortest.count());
  double left = static_cast<double>((statistics.time - gap * (statistics.kernels - 1)).count()) -
                least * statistics.kernels;
  double weights = std::accumulate(times.begin(), times.end(), 0.0);
  const auto longest = static_cast<double>(statistics.longest.count());
  const bool fixed = longest != 0;
  if (fixed) {
    left -= longest - least;
    weights -= *largest;
  }
  if (left < 0) {
    return Wrong(statistics, fmt::format("{} kernels of at least {} ns do not fit into {} ns",
                                         statistics.kernels, statistics.shortest.count(),
                                         statistics.time.count()));
  }
  const double unit = weights == 0 ? 0 : left / weights;
  for (double& time : times) time = least + time * unit;
  if (fixed) *largest = longest;
  return times;
}

// Number of units of each kernel: uniform around the mean, as wide as the bounds allow.
std::vector<std::uint32_t> UnitsOf(const SimModelStatistics& statistics, std::uint32_t units,
                                   std::span<const double> times) {
  const std::vector<double> parts = Shuffled(statistics.kernels, statistics.kernels + 1);
  const double half = std::min(statistics.mean_use - statistics.least_use,
                               statistics.most_use - statistics.mean_use);
  double mean = 0, all = 0;  // mean of `parts`, weighted with time; all time
  for (std::size_t i = 0; i < parts.size(); ++i) {
    mean += parts[i] * times[i];
    all += times[i];
  }
  mean /= all;
  std::vector<std::uint32_t> used;
  for (const double part : parts) {
    const double use = std::clamp(statistics.mean_use + 2 * half * (part - mean),
                                  statistics.least_use, statistics.most_use);
    const auto of = static_cast<std::uint32_t>(std::lround(use * units));
    used.push_back(std::clamp(of, 1u, units));
  }
  return used;
}

// Kernels that are not idempotent, evenly over the list. REEF 4.4: half of them are groups of their
// own, the largest group has 9 kernels. The other sizes are assumed: 2 to 4.
void AddGroups(std::uint32_t count, std::vector<SimModelKernel>& kernels) {
  constexpr std::uint32_t kLargest = 9;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = (i + 1) * kernels.size() / (count + 1);
    std::uint32_t size = i % 2 == 0 ? 1 : 2 + i / 2 % 3;
    if (i == count / 2) size = kLargest;
    kernels[at].restart = Restart::kByGroup;
    kernels[at].group_first =
        static_cast<std::uint32_t>(at + 1 - std::min<std::size_t>(size, at + 1));
  }
}

Result<SimModelStatistics> FindStatistics(std::string_view device, std::string_view model) {
  std::string names;
  for (const SimModelStatistics& statistics : kModels) {
    if (statistics.device != device) continue;
    if (statistics.model == model) return statistics;
    names += names.empty() ? "" : ", ";
    names += statistics.model;
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("simulated device '{}' has no model '{}': it has {}", device, model,
                          names.empty() ? "none" : names));
}

}  // namespace

std::span<const SimModelStatistics> SimModelTable() { return kModels; }

SimModelKernel FullKernel(Nanoseconds time, std::uint32_t units, Nanoseconds block) {
  std::uint32_t waves = kWaves;
  if (block > Nanoseconds(0)) {
    const double blocks = static_cast<double>(time.count()) / static_cast<double>(block.count());
    waves = std::max(waves, static_cast<std::uint32_t>(std::lround(blocks)));
  }
  SimModelKernel kernel;
  kernel.time = time;
  kernel.blocks = units * kBlocksPerUnit * waves;
  kernel.block.threads = kThreads;
  kernel.block.registers_per_thread = kRegisters;
  kernel.block.time = time / waves;
  return kernel;
}

Result<SimModel> MakeSimModel(const SimModelStatistics& statistics, std::uint32_t units,
                              Nanoseconds gap) {
  if (statistics.not_idempotent > statistics.kernels) {
    return Wrong(statistics, fmt::format("{} of {} kernels are not idempotent",
                                         statistics.not_idempotent, statistics.kernels));
  }
  if (statistics.kernels == 0 || statistics.kernels > 100'000 || units == 0 ||
      statistics.shortest <= Nanoseconds(0)) {
    return Wrong(statistics, fmt::format("{} kernels of at least {} ns on {} units",
                                         statistics.kernels, statistics.shortest.count(), units));
  }
  if (!(0 <= statistics.least_use && statistics.least_use <= statistics.mean_use &&
        statistics.mean_use <= statistics.most_use && statistics.most_use <= 1)) {
    return Wrong(statistics,
                 fmt::format("uses {} to {} of the units, {} in the mean", statistics.least_use,
                             statistics.most_use, statistics.mean_use));
  }
  LAGOON_ASSIGN_OR_RETURN(const std::vector<double> times, KernelTimes(statistics, gap));
  const std::vector<std::uint32_t> used = UnitsOf(statistics, units, times);
  SimModel model{statistics, {}};
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Nanoseconds time(std::llround(times[i]));
    SimModelKernel kernel = FullKernel(time, units, statistics.block);
    if (used[i] < units) {  // one block on each unit that it uses
      kernel.blocks = used[i];
      kernel.block.time = time;
      kernel.block.use_permille = 1000;
    }
    if (statistics.whole_units) {
      if (used[i] == units) kernel.blocks /= kBlocksPerUnit;
      kernel.block.threads = kernel.block.registers_per_thread = 0;
    }
    model.kernels.push_back(kernel);
  }
  AddGroups(statistics.not_idempotent, model.kernels);
  return model;
}

Result<SimModel> MakeSimModel(std::string_view device, std::string_view model) {
  if (device.starts_with("cpu")) return MakeCpuSimModel(device, model);
  LAGOON_ASSIGN_OR_RETURN(const SimModelStatistics statistics, FindStatistics(device, model));
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(std::string(device)));
  return MakeSimModel(statistics, static_cast<std::uint32_t>(gpu.constants.units),
                      Nanoseconds(gpu.constants.dependent_gap_ns));
}

Result<SimModel> MakeSimModelFor(const GpuModel& gpu, std::string_view built_in,
                                 std::string_view model) {
  if (built_in.starts_with("cpu")) return MakeCpuSimModel(built_in, model);
  LAGOON_ASSIGN_OR_RETURN(const SimModelStatistics statistics, FindStatistics(built_in, model));
  return MakeSimModel(statistics, static_cast<std::uint32_t>(gpu.constants.units),
                      Nanoseconds(gpu.constants.dependent_gap_ns));
}

}  // namespace lagoon
