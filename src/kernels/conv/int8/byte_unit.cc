#include "kernels/conv/int8/byte_unit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/conv/int8/byte_unit_x86.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace byte_unit {
namespace {

// ---- Portable

void Multiply(const ByteTile& tile) {
  for (std::size_t row = 0; row < tile.rows; ++row) {
    std::int32_t* const sums = tile.sums + row * kBytePanel;
    if (!tile.resume) std::copy_n(tile.bias, kBytePanel, sums);
    const std::int8_t* w = tile.weights;
    for (std::size_t tap = 0; tap < tile.taps; ++tap) {
      const std::uint8_t* x = tile.pixels[tap * kByteRows + row] + tile.offset;
      for (std::size_t quad = 0; quad < tile.quads; ++quad, x += kByteQuad, w += kByteQuadBytes) {
        for (std::size_t place = 0; place < kBytePanel; ++place) {
          const std::int8_t* const by = w + place * kByteQuad;
          sums[place] += x[0] * by[0] + x[1] * by[1] + x[2] * by[2] + x[3] * by[3];
        }
      }
    }
  }
}

float Scaled(const ByteStore& store, std::size_t row, std::size_t place) {
  const float value = static_cast<float>(store.sums[row * kBytePanel + place]) * store.scale[place];
  return store.limits ? std::min(std::max(value, store.low), store.high) : value;
}

void StoreBytes(const ByteStore& store) {
  for (std::size_t row = 0; row < store.rows; ++row) {
    auto* const y = static_cast<std::uint8_t*>(store.y) + row * store.pitch;
    for (std::size_t place = 0; place < kBytePanel; ++place) {
      if (ByteColumn(place) >= store.columns) continue;
      const float level =
          std::nearbyint(Scaled(store, row, place)) + static_cast<float>(store.zero);
      y[ByteColumn(place)] = static_cast<std::uint8_t>(std::min(std::max(level, 0.0F), 255.0F));
    }
  }
}

void StoreFloats(const ByteStore& store) {
  for (std::size_t row = 0; row < store.rows; ++row) {
    auto* const y = static_cast<float*>(store.y) + row * store.pitch;
    for (std::size_t place = 0; place < kBytePanel; ++place) {
      if (ByteColumn(place) >= store.columns) continue;
      const float value = Scaled(store, row, place);
      // Zero has no sign.
      y[ByteColumn(place)] = store.grid == 0 ? value : (std::nearbyint(value) + 0.0F) * store.grid;
    }
  }
}

void Depthwise(const ByteDepthwise& d) {
  for (std::size_t i = 0; i < d.pixels * d.channels; ++i) {
    const std::size_t pixel = i / d.channels, channel = i % d.channels;
    const std::size_t group = channel / kByteGroup, c = channel % kByteGroup;
    // The inverse of ByteChannel().
    const std::size_t place = c % 16 / 4 * 16 + c / 16 * 4 + c % 4;
    std::int32_t sum = d.bias[group * kByteGroup + place];
    for (std::size_t tap = 0; tap < d.quads * kByteQuad; ++tap) {
      const std::size_t quad = group * d.quads + tap / kByteQuad;
      sum += d.taps[tap][pixel * d.step + channel] *
             d.weights[(quad * kByteGroup + place) * kByteQuad + tap % kByteQuad];
    }
    float value = static_cast<float>(sum) * d.scale[group * kByteGroup + place];
    if (d.limits) value = std::min(std::max(value, d.low), d.high);
    const float level = std::nearbyint(value) + static_cast<float>(d.zero);
    d.y[i] = static_cast<std::uint8_t>(std::min(std::max(level, 0.0F), 255.0F));
  }
}

/// Copies kBytes to 2 * kBytes bytes, as two pieces that may overlap.
template <std::size_t kBytes>
void CopyTwice(const ByteRows& rows) {
  const std::uint8_t* from = rows.from;
  std::uint8_t* to = rows.to;
  const std::size_t second = rows.bytes - kBytes;
  for (std::size_t row = 0; row < rows.rows; ++row, from += rows.from_pitch, to += rows.to_pitch) {
    std::memcpy(to, from, kBytes);
    std::memcpy(to + second, from + second, kBytes);
  }
}

}  // namespace

void Copy(const ByteRows& rows) {
  if (rows.bytes > 32 && rows.bytes <= 64) return CopyTwice<32>(rows);
  if (rows.bytes >= 16 && rows.bytes <= 32) return CopyTwice<16>(rows);
  if (rows.bytes >= 8 && rows.bytes < 16) return CopyTwice<8>(rows);
  if (rows.bytes >= 4 && rows.bytes < 8) return CopyTwice<4>(rows);
  for (std::size_t row = 0; row < rows.rows; ++row) {
    std::memcpy(rows.to + row * rows.to_pitch, rows.from + row * rows.from_pitch, rows.bytes);
  }
}

namespace {

constexpr ByteUnit kPortable = {.name = "portable",
                                .quad_ns = 1500,
                                .row_ns = 60,
                                .depthwise_quad_ns = 250,
                                .group_ns = 400,
                                .multiply = &Multiply,
                                .store_bytes = &StoreBytes,
                                .store_floats = &StoreFloats,
                                .depthwise = &Depthwise,
                                .copy = &Copy};

std::vector<const ByteUnit*> FindUnits() {
  std::vector<const ByteUnit*> units;
#ifdef LAGOON_HAS_BYTE_UNITS
  const ByteProducts products = ProcessByteProducts();
  if (products.tiles) units.push_back(&kAmxInt8Unit);
  if (products.avx512) units.push_back(&kVnni512Unit);
  if (ActiveCpuLevel() >= CpuLevel::kAvx512) units.push_back(&kBytes512Unit);
  if (products.avx) units.push_back(&kVnni256Unit);
  if (ActiveCpuLevel() >= CpuLevel::kAvx2) units.push_back(&kBytes256Unit);
#endif
  units.push_back(&kPortable);
  return units;
}

}  // namespace
}  // namespace byte_unit

std::span<const ByteUnit* const> ByteUnits() {
  static const std::vector<const ByteUnit*> units = byte_unit::FindUnits();
  return units;
}

const ByteUnit& PickByteUnit(std::span<const ByteUnit* const> units, std::size_t rows,
                             bool may_be_even) {
  // With few rows the weights are read as fast by vectors, which need no copy of the rows.
  constexpr std::size_t kFewestEvenRows = 8;
  const bool skips_even = !may_be_even || rows < kFewestEvenRows;
  while (skips_even && units.size() > 1 && units.front()->even) units = units.subspan(1);
  return *units.front();
}

}  // namespace lagoon
