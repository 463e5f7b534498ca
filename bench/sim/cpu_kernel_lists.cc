#include "bench/sim/cpu_kernel_lists.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "sim/device/gpu_model.h"

namespace lagoon {
namespace {

// A kernel is "BLOCKSxTIME:OP,OP": blocks, ns of a block, and the kernels that it depends on.
// Without the colon it depends on the one before.
struct CpuList {
  std::string_view model, kernels;
};

constexpr std::string_view kMeasured =
    "measured: tools/cpu_kernel_lists.py, one core of an EPYC with AVX512-BF16";

// tools/cpu_kernel_lists.py writes this table.
// clang-format off
constexpr std::array kCpuLists{
    CpuList{"resnet18",
        "6x3965 38x26869 29x3270 28x32537 28x32941 28x32628 28x32752 14x33405 28x32274 12x5338 "
        "28x32101 28x32200 14x33390 28x32827 8x8136 28x32926 28x32987 16x31884 32x31254 4x17393 "
        "32x31514 32x31404 1x2744 6x9097"},
    CpuList{"googlenet",
        "1x4697 1x3866 1x3765 1x3635: 1x3855 1x3966 1x3956: 1x4537 1x1902 6x1545:2,5,8 6x3835 "
        "38x26514 29x2573 20x5847 84x32477 22x2435 8x10371 12x10284:15 24x28046 4x6181:15 2x16189 "
        "14x2610:15 4x10345 10x1610:16,18,20,22 14x15202 14x15196:23 42x32179 4x13573:23 12x14719 "
        "17x2763:23 8x13730 14x2161:24,26,28,30 14x1792 6x26247 6x12939:32 14x20605 2x7621:32 "
        "2x7010 8x2565:32 4x13017 4x1579:33,35,37,39 10x14215 8x12552:40 14x25268 2x14086:40 4x6151 "
        "10x2115:40 4x14091 4x1780:41,43,45,47 8x14128 8x14068:48 14x32233 2x14021:48 4x6181 "
        "10x2113:48 4x14216 4x1787:49,51,53,55 8x12646 10x12854:56 18x31952 2x13430:56 4x7964 "
        "10x2099:56 4x14209 4x1812:57,59,61,63 8x28882 10x14527:64 28x25990 2x14161:64 8x7945 "
        "10x2238:64 8x14545 6x2145:65,67,69,71 6x1141 4x26189 4x14889:73 10x20093 2x6104:73 2x10315 "
        "4x1915:73 4x13748 1x2513:74,76,78,80 6x26783 4x18670:81 12x23880 2x10906:81 4x7270 "
        "4x1923:81 4x12759 1x3445:82,84,86,88 1x2544 10x10602"},
    CpuList{"squeezenet1_1",
        "6x2949 56x4131 29x2646 10x3459 12x3228 28x8293:3 17x1905:4,5 10x6181 12x3168 28x8291:7 "
        "17x1868:8,9 14x2129 6x4393 8x3795 12x18100:12 8x1740:13,14 6x8401 8x3733 12x18093:16 "
        "8x1728:17,18 8x1543 4x5167 4x3875 6x19809:21 2x2113:22,23 4x7326 4x3883 6x19592:25 "
        "2x1878:26,27 4x9279 6x4341 8x25813:29 4x1482:30,31 4x12203 6x4359 8x25523:33 4x1469:34,35 "
        "26x28881 4x1835"},
    CpuList{"bert_tiny",
        "1x371 1x331 1x180 1x2574: 1x1612: 1x3105:3,4 1x6499 4x1146 8x9837 8x9700:7 8x9690:7 "
        "8x13163:2,8,9,10 8x9729 4x1129 50x7129 10x29841 4x1204 8x9682 8x9728:16 8x9690:16 "
        "8x13187:17,18,19 8x9786 4x1129 50x7054 10x30145 4x1211 1x401 2x3059 2x320"},
    CpuList{"mobilenet_v2",
        "6x2709 28x4550 16x5871 38x2410 76x3186 28x5000 14x6466 38x3058 19x4962 12x10863 38x3046 "
        "14x2384 2x15984 12x4127 8x3635 4x10563 12x4060 8x3634 4x10543 12x4074 4x2686 4x5681 8x5543 "
        "4x3663 4x10681 8x5563 4x3560 4x10788 8x5534 4x3638 4x10698 8x5553 4x3567 6x10622 18x5901 "
        "6x3755 6x15698 18x5882 6x3800 6x15962 18x5905 4x2556 4x10851 10x8411 2x6324 4x17952 "
        "10x8595 2x6179 4x17153 10x8488 2x6314 8x17506 8x26945 1x3866 14x9326"},
    CpuList{"vgg19",
        "6x4209 224x4829 672x25062 92x5721 224x42058 448x42076 46x6829 224x38378 448x39701 "
        "448x57280 448x55202 23x8594 224x41207 896x29112 896x26554 896x23869 12x6908 112x34333 "
        "112x34001 112x34025 112x34337 4x4411 2x2343 980x11457 160x11214 40x10846"},
    CpuList{"resnet152",
        "6x4064 38x26799 29x3193 20x6022 28x32684 80x5939 80x6518 14x32322 28x32685 80x6913 "
        "14x30877 28x32587 80x6478 28x30613 28x33263 56x7979 28x32332 14x30028 28x32080 56x8301 "
        "14x29951 28x32242 56x8279 14x29930 28x32157 56x8325 14x30059 28x32424 56x8274 14x29975 "
        "28x32109 56x8225 14x29903 28x32479 56x8297 14x29933 28x32264 56x8276 28x30101 28x33795 "
        "14x32512 28x35976 14x34399 28x33023 14x33874 14x34307 28x32866 14x33982 14x34003 28x32713 "
        "14x33895 14x34102 28x32908 14x33678 14x34050 28x32725 14x34119 14x34193 28x32915 14x33995 "
        "14x34179 28x32908 14x34084 14x34229 28x33031 14x34159 14x34292 28x32833 14x33883 14x34260 "
        "28x33014 14x34028 14x34145 28x32912 14x34146 14x34016 28x32918 14x34145 14x34163 28x32955 "
        "14x34111 14x34138 28x32921 14x33956 14x34319 28x32979 14x34014 14x34272 28x32742 14x34192 "
        "14x34227 28x32882 14x33889 14x34177 28x32902 14x34094 14x34232 28x32887 14x33920 14x34204 "
        "28x32934 14x34124 14x34420 28x32948 14x34186 14x34169 28x32895 14x33923 14x34402 28x32891 "
        "14x33937 14x34199 28x32819 14x34061 14x34405 28x32852 14x33913 14x34438 28x32618 14x34234 "
        "14x34228 28x32879 14x33817 14x34178 28x32948 14x34169 14x34111 28x32879 14x34284 14x34096 "
        "28x32911 14x34000 14x34353 28x32899 14x33847 14x34428 28x32816 14x33992 14x34307 28x32959 "
        "14x33955 14x34282 28x32815 14x33757 14x34089 28x32932 14x34082 28x34443 32x33539 16x32588 "
        "32x32325 16x30452 32x31954 16x33020 16x30251 32x31512 16x33018 2x6454 20x11108"},
};
// clang-format on

// Takes a number from the front of `text`.
std::uint32_t TakeNumber(std::string_view& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  LAGOON_CHECK(error == std::errc());
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Takes `sign` from the front of `text`, if it is there.
bool TakeSign(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

SimModelKernel TakeListed(std::string_view& text, std::uint32_t units) {
  SimModelKernel kernel;
  kernel.blocks = TakeNumber(text);
  LAGOON_CHECK(TakeSign(text, 'x'));
  kernel.block.time = Nanoseconds(TakeNumber(text));
  kernel.time = kernel.block.time * ((kernel.blocks + units - 1) / units);
  if (TakeSign(text, ':')) {
    kernel.deps.emplace();
    while (!text.empty() && text.front() != ' ') {
      kernel.deps->push_back(TakeNumber(text));
      TakeSign(text, ',');
    }
  }
  TakeSign(text, ' ');
  return kernel;
}

}  // namespace

std::vector<std::string_view> CpuSimModels() {
  std::vector<std::string_view> names;
  for (const CpuList& list : kCpuLists) names.push_back(list.model);
  return names;
}

Result<SimModel> MakeCpuSimModel(std::string_view device, std::string_view model) {
  const auto names = BuiltInGpuModels();
  const auto name = std::ranges::find(names, device);
  const auto list = std::ranges::find(kCpuLists, model, &CpuList::model);
  if (name == names.end() || list == kCpuLists.end()) {
    return Fail(
        ErrorCode::kNotFound,
        fmt::format(
            "simulated device '{}' has no model '{}': it has {}", device, model,
            name == names.end() ? "none" : fmt::format("{}", fmt::join(CpuSimModels(), ", "))));
  }
  LAGOON_ASSIGN_OR_RETURN(const GpuModel cpu, LoadGpuModel(std::string(device)));
  SimModel made;
  std::string_view text = list->kernels;
  Nanoseconds& time = made.statistics.time;
  while (!text.empty()) {
    made.kernels.push_back(TakeListed(text, static_cast<std::uint32_t>(cpu.constants.units)));
    time += made.kernels.back().time + Nanoseconds(cpu.constants.dependent_gap_ns);
  }
  time -= Nanoseconds(cpu.constants.dependent_gap_ns);
  made.statistics.device = *name;
  made.statistics.model = list->model;
  made.statistics.kernels = static_cast<std::uint32_t>(made.kernels.size());
  made.statistics.source = kMeasured;
  return made;
}

}  // namespace lagoon
