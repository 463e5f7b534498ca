// Tables of speech models: windows of samples and filters of frequencies. Their sizes are constant,
// so that the tables are computed when the model is loaded.

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

// constant - first * cos(t) + second * cos(2t), where t goes once around.
struct CosineWindow {
  double constant = 0, first = 0, second = 0;
};

DataType TypeOfTable(Writer& w) {
  const Result<DataType> type = w.context().TypeAttribute("output_datatype", DataType::kFloat32);
  if (type) return *type;
  w.Refuse(tl::unexpected(type.error()));
  return DataType::kFloat32;
}

// A window of one sample is 1, as in PyTorch, scipy and ONNX Runtime.
void ExpandWindow(Writer& w, const CosineWindow& window) {
  const std::int64_t size = IntegerIn(w, 0, "size");
  if (w.status() && size < 1) {
    w.Refuse(w.context().Invalid(fmt::format("size is {}, it must be positive", size)));
  }
  const std::int64_t period = w.node().Int("periodic", 1) != 0 ? size : size - 1;
  const auto at = [&](std::int64_t i) {
    if (size == 1) return 1.0;
    const double turn = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period);
    return window.constant - window.first * std::cos(turn) + window.second * std::cos(2 * turn);
  };
  w.SetOutput(0, TableOf(w, TypeOfTable(w), {size}, at));
}

void ExpandHannWindow(Writer& w) { ExpandWindow(w, {0.5, 0.5, 0}); }

void ExpandHammingWindow(Writer& w) { ExpandWindow(w, {25.0 / 46, 21.0 / 46, 0}); }

void ExpandBlackmanWindow(Writer& w) { ExpandWindow(w, {0.42, 0.5, 0.08}); }

struct MelFilters {
  std::int64_t filters = 0, length = 0, rate = 0;
  double low_hertz = 0, high_hertz = 0;
};

bool CheckFilters(Writer& w, const MelFilters& mel) {
  constexpr std::int64_t kMost = 1 << 24;
  if (!w.status()) return false;
  if (mel.filters < 1 || mel.filters > kMost || mel.length < 1 || mel.length > kMost ||
      mel.rate < 1) {
    w.Refuse(w.context().Invalid(
        fmt::format("num_mel_bins is {}, dft_length is {}, sample_rate is {}: all must be positive "
                    "and below {}",
                    mel.filters, mel.length, mel.rate, kMost)));
  } else if (!(mel.low_hertz >= 0 && mel.low_hertz <= mel.high_hertz &&
               2 * mel.high_hertz <= static_cast<double>(mel.rate))) {
    w.Refuse(w.context().Invalid(
        fmt::format("the filters go from {} to {} Hz; they must lie between 0 and half the sample "
                    "rate of {} Hz",
                    mel.low_hertz, mel.high_hertz, mel.rate)));
  }
  return w.status().has_value();
}

// The frequencies at which the filters begin, peak and end, as indices of the spectrum. The
// definition of ONNX divides the range by their number, so that the last one lies below the range.
std::vector<std::int64_t> MelCorners(const MelFilters& mel) {
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = to_mel(mel.low_hertz), high = to_mel(mel.high_hertz);
  std::vector<std::int64_t> corners(static_cast<std::size_t>(mel.filters) + 2);
  const double step = (high - low) / static_cast<double>(corners.size());
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const double hertz = 700 * (std::pow(10, (low + static_cast<double>(i) * step) / 2595) - 1);
    corners[i] = static_cast<std::int64_t>(
        std::floor(static_cast<double>(mel.length + 1) * hertz / static_cast<double>(mel.rate)));
  }
  return corners;
}

// A triangle: it rises from 0 at `begin` to 1 at `peak`, and falls to 0 at `end`.
double TriangleAt(std::int64_t bin, std::int64_t begin, std::int64_t peak, std::int64_t end) {
  if (bin == peak) return 1;
  if (bin <= begin || bin >= end) return 0;
  const std::int64_t foot = bin < peak ? begin : end;
  return static_cast<double>(bin - foot) / static_cast<double>(peak - foot);
}

void ExpandMelWeightMatrix(Writer& w) {
  const MelFilters mel{IntegerIn(w, 0, "num_mel_bins"), IntegerIn(w, 1, "dft_length"),
                       IntegerIn(w, 2, "sample_rate"), NumberIn(w, 3, "lower_edge_hertz"),
                       NumberIn(w, 4, "upper_edge_hertz")};
  if (!CheckFilters(w, mel)) return;
  const std::vector<std::int64_t> corners = MelCorners(mel);
  const auto at = [&](std::int64_t i) {
    const auto corner = static_cast<std::size_t>(i % mel.filters);
    return TriangleAt(i / mel.filters, corners[corner], corners[corner + 1], corners[corner + 2]);
  };
  w.SetOutput(0, TableOf(w, TypeOfTable(w), {mel.length / 2 + 1, mel.filters}, at));
}

constexpr Expansion kSignalExpansions[] = {
    {"", {"HannWindow", 17, 1, 1, 1, "i:output_datatype i:periodic"}, ExpandHannWindow},
    {"", {"HammingWindow", 17, 1, 1, 1, "i:output_datatype i:periodic"}, ExpandHammingWindow},
    {"", {"BlackmanWindow", 17, 1, 1, 1, "i:output_datatype i:periodic"}, ExpandBlackmanWindow},
    {"", {"MelWeightMatrix", 17, 5, 5, 1, "i:output_datatype"}, ExpandMelWeightMatrix},
};

}  // namespace

std::span<const Expansion> SignalExpansions() { return kSignalExpansions; }

}  // namespace lagoon
