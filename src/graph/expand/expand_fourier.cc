// Fourier transforms, as products with tables of cosines and sines.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "graph/expand/expand.h"
#include "graph/expand/parts.h"

namespace lagoon {
namespace {

/// Longer transforms need another method: a table of this size already has 280 MB. A real,
/// one-sided transform of 8192 samples fits.
constexpr std::int64_t kMostTableElements = 70'000'000;

struct Transform {
  std::int64_t length = 0;   // of the transform
  std::int64_t samples = 0;  // the first ones of `length`; the others are 0
  std::int64_t parts = 1;    // of a sample: 2 if it is complex
  std::int64_t bins = 0;     // of the result
  bool inverse = false;
  bool to_real = false;  // from one half of the frequencies of a real signal, back to the signal
  std::int64_t results() const { return to_real ? 1 : 2; }  // parts of a bin
};

bool CheckTransform(Writer& w, const Transform& t) {
  if (!w.status()) return false;
  constexpr std::int64_t kMostLength = 1 << 24;  // so that products of indices fit 64 bits
  if (t.length < 1 || t.samples < 1) {
    w.Refuse(w.context().Invalid(
        fmt::format("transforms {} samples to length {}", t.samples, t.length)));
  } else if (t.length > kMostLength ||
             t.samples * t.parts > kMostTableElements / (t.results() * t.bins)) {
    w.Refuse(w.context().Unimplemented(
        fmt::format("a transform of {} samples to {} frequencies is too long: its table has more "
                    "than {} elements",
                    t.samples, t.bins, kMostTableElements)));
  }
  return w.status().has_value();
}

// The matrix [samples * parts, bins * results] of exp(-2 pi i j k / length), or of its inverse.
// Angles are reduced in integers, so that long transforms are as accurate as short ones. With
// `to_real` each frequency but the first one and the middle one counts twice, because the other
// half of the frequencies mirrors the given half.
ValueId FourierTable(Writer& w, const Transform& t, DataType type) {
  if (!CheckTransform(w, t)) return kNoValue;
  const double scale = t.inverse ? 1 / static_cast<double>(t.length) : 1;
  const double sign = t.inverse ? 1 : -1;
  std::vector<double> cosines, sines;
  for (std::int64_t i = 0; i < t.length; ++i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(t.length);
    cosines.push_back(scale * std::cos(angle));
    sines.push_back(scale * sign * std::sin(angle));
  }
  const std::int64_t columns = t.bins * t.results();
  return TableOf(w, type, {t.samples * t.parts, columns}, [&](std::int64_t i) {
    const std::int64_t row = i / columns, column = i % columns;
    const std::int64_t from = row / t.parts;
    const auto turn = static_cast<std::size_t>(from * (column / t.results()) % t.length);
    const bool from_imaginary = row % t.parts == 1, to_imaginary = column % t.results() == 1;
    const double times = t.to_real && from > 0 && 2 * from != t.length ? 2 : 1;
    if (from_imaginary == to_imaginary) return times * cosines[turn];
    return times * (from_imaginary ? -sines[turn] : sines[turn]);
  });
}

bool IsOneSided(Writer& w, std::int64_t parts, bool otherwise) {
  const bool one_sided = w.node().Int("onesided", otherwise ? 1 : 0) != 0;
  if (w.status() && one_sided && parts != 1) {
    w.Refuse(w.context().Invalid(
        "onesided = 1 takes real input, this one is complex; set onesided to 0"));
  }
  return one_sided;
}

// The axis of a DFT, counted from the front.
std::size_t TransformedAxis(Writer& w) {
  constexpr std::int64_t kInputSince = 20;
  const auto rank = static_cast<std::int64_t>(w.RankOf(w.In(0)));
  std::int64_t axis = w.node().Int("axis", 1);
  if (w.context().opset() >= kInputSince) {
    if (w.context().has_attribute("axis")) {
      w.Refuse(w.context().Unimplemented("attribute 'axis' is not supported from opset 20 on"));
    }
    axis = w.In(2) == kNoValue ? -2 : IntegerIn(w, 2, "axis");
  } else if (w.In(2) != kNoValue) {
    w.Refuse(w.context().Unimplemented("input 2, the axis, is supported from opset 20 on"));
  }
  const std::int64_t front = axis < 0 ? axis + rank : axis;
  if (w.status() && (front < 0 || front >= rank - 1)) {
    w.Refuse(w.context().Invalid(fmt::format(
        "axis {} does not fit shape {}, the last axis of which has the parts of a number", axis,
        ToString(w.DimsOf(w.In(0))))));
  }
  return w.status() ? static_cast<std::size_t>(front) : 0;
}

// 1 or 2: the size of the last axis.
std::int64_t PartsOf(Writer& w, ValueId x) {
  const std::int64_t parts = w.Dim(x, -1);
  if (w.status() && parts != 1 && parts != 2) {
    w.Refuse(w.context().Invalid(
        fmt::format("input 0 has shape {}; its last axis must have size 1 (real numbers) or 2 "
                    "(complex numbers)",
                    ToString(w.DimsOf(x)))));
  }
  return parts;
}

// x [.., samples, parts] as [.., bins, results]. A `window` [samples] of constants becomes part of
// the table; otherwise the samples are weighted before the product.
ValueId Transformed(Writer& w, ValueId x, const Transform& t, ValueId window = kNoValue) {
  const DataType type = WideType(w, x);
  ValueId table = FourierTable(w, t, type);
  if (!w.status()) return kNoValue;
  if (w.ConstantOf(window) != nullptr) {
    const ValueId rows = w.Reshape(table, {t.samples, t.parts * t.bins * t.results()});
    table = w.Reshape(w.Mul(rows, w.Unsqueeze(w.Cast(window, type), {1})), w.DimsOf(table));
  } else if (window != kNoValue) {
    x = w.Mul(x, w.Unsqueeze(window, {1}));
  }
  Dims dims = w.DimsOf(x);
  dims.pop_back();
  dims.back() = t.samples * t.parts;
  const ValueId y = w.MatMul(w.Reshape(w.Cast(x, type), dims), table);
  dims.back() = t.bins;
  dims.push_back(t.results());
  return w.Cast(w.Reshape(y, dims), w.TypeOf(x));
}

// x, [dft_length], [axis]
void ExpandDft(Writer& w) {
  const ValueId x = w.In(0);
  const std::size_t axis = TransformedAxis(w);
  Transform t;
  t.parts = PartsOf(w, x);
  t.inverse = w.node().Int("inverse", 0) != 0;
  t.to_real = t.inverse && w.node().Int("onesided", 0) != 0;
  const std::int64_t size = w.Dim(x, static_cast<std::int64_t>(axis));
  t.length = w.In(1) != kNoValue ? IntegerIn(w, 1, "dft_length")
             : t.to_real         ? 2 * (size - 1)
                                 : size;
  t.samples = std::min(t.to_real ? t.length / 2 + 1 : t.length, size);
  if (t.to_real && w.status() && t.parts != 2) {
    w.Refuse(
        w.context().Invalid("inverse = 1 with onesided = 1 takes complex input, this one is "
                            "real"));
  }
  t.bins = !t.to_real && IsOneSided(w, t.parts, false) ? t.length / 2 + 1 : t.length;
  if (!CheckTransform(w, t)) return;
  const std::size_t rank = w.RankOf(x);
  const ValueId moved = w.Transpose(x, MovedAxis(rank, axis, rank - 2));
  const ValueId used = w.Slice(moved, static_cast<std::int64_t>(rank) - 2, 0, t.samples);
  w.SetOutput(0, w.Transpose(Transformed(w, used, t), MovedAxis(rank, rank - 2, axis)));
}

/// Frames of a signal [batch, samples, parts].
struct Frames {
  std::int64_t count = 0, step = 0, length = 0;
};

// Frame length: the input, or the size of the window, or that of the signal.
Frames FramesOf(Writer& w, std::int64_t samples) {
  Frames frames;
  frames.step = IntegerIn(w, 1, "frame_step");
  const std::int64_t window = w.In(2) == kNoValue ? samples : w.Dim(w.In(2), 0);
  frames.length = w.In(3) == kNoValue ? window : IntegerIn(w, 3, "frame_length");
  if (!w.status()) return frames;
  if (frames.step < 1 || frames.length < 1 || frames.length > samples) {
    w.Refuse(w.context().Invalid(
        fmt::format("frames of {} samples, {} apart, do not fit a signal of {}: the step must be "
                    "positive, and a frame must not be longer than the signal",
                    frames.length, frames.step, samples)));
    return frames;
  }
  if (w.In(2) != kNoValue && w.DimsOf(w.In(2)) != Dims{frames.length}) {
    w.Refuse(w.context().Invalid(fmt::format("window has shape {}, the frames have {} samples",
                                             ToString(w.DimsOf(w.In(2))), frames.length)));
  }
  frames.count = (samples - frames.length) / frames.step + 1;
  return frames;
}

// The frames [batch, count, length, parts]. They are gathered in runs, so that neither step nor
// length cuts a run.
ValueId CutIntoFrames(Writer& w, ValueId signal, const Frames& frames) {
  if (!w.status()) return kNoValue;
  const std::int64_t batch = w.Dim(signal, 0), parts = w.Dim(signal, 2);
  const std::int64_t run = std::gcd(frames.step, frames.length);
  const std::int64_t used = (frames.count - 1) * frames.step + frames.length;
  const std::int64_t runs = frames.length / run;
  const ValueId rows = w.Reshape(w.Slice(signal, 1, 0, used), {batch, used / run, run * parts});
  const ValueId index = TableOf(w, DataType::kInt64, {frames.count, runs}, [&](std::int64_t i) {
    const std::int64_t first = i / runs * (frames.step / run);
    return static_cast<double>(first + i % runs);
  });
  return w.Reshape(w.Op("Gather", {rows, index}, {{"axis", std::int64_t{1}}}),
                   {batch, frames.count, frames.length, parts});
}

// signal, frame_step, [window], [frame_length]
void ExpandStft(Writer& w) {
  ValueId signal = w.In(0);
  if (w.RankOf(signal) == 2) signal = w.Unsqueeze(signal, {2});
  if (w.status() && w.RankOf(signal) != 3) {
    return w.Refuse(w.context().Invalid(
        fmt::format("signal has shape {}, takes batch, samples and the parts of a number",
                    ToString(w.DimsOf(signal)))));
  }
  const Frames frames = FramesOf(w, w.Dim(signal, 1));
  Transform t;
  t.parts = PartsOf(w, signal);
  t.length = t.samples = frames.length;
  t.bins = IsOneSided(w, t.parts, true) ? t.length / 2 + 1 : t.length;
  w.SetOutput(0, Transformed(w, CutIntoFrames(w, signal, frames), t, w.In(2)));
}

constexpr Expansion kFourierExpansions[] = {
    {"", {"DFT", 17, 1, 3, 1, "i:axis i:inverse i:onesided"}, ExpandDft},
    {"", {"STFT", 17, 2, 4, 1, "i:onesided"}, ExpandStft},
};

}  // namespace

std::span<const Expansion> FourierExpansions() { return kFourierExpansions; }

}  // namespace lagoon
