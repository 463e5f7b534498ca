#include "kernels/conv/bf16/tiles_x86.h"
#include "kernels/conv/int8/byte_unit_x86.h"
#include "kernels/simd/unroll.h"

#ifdef LAGOON_HAS_BYTE_UNITS
namespace lagoon::byte_unit {
namespace {

template <bool kLower>
LAGOON_TILES void Multiply(const ByteTile& tile) {
  tiles::Fence();
  constexpr long kSumsPitch = kBytePanel * sizeof(std::int32_t);
  constexpr auto kWeightsPitch = static_cast<long>(kByteQuadBytes);
  constexpr std::size_t kHalf = kBytePanel / 2;
  std::int32_t* const sums = tile.sums;
  std::int32_t* const lower = sums + kByteHalf * kBytePanel;
  if (tile.resume) {
    _tile_loadd(0, sums, kSumsPitch);
    _tile_loadd(1, sums + kHalf, kSumsPitch);
    if constexpr (kLower) _tile_loadd(2, lower, kSumsPitch);
    if constexpr (kLower) _tile_loadd(3, lower + kHalf, kSumsPitch);
  } else {
    // A pitch of zero loads the bias into every row.
    _tile_loadd(0, tile.bias, 0);
    _tile_loadd(1, tile.bias + kHalf, 0);
    if constexpr (kLower) _tile_loadd(2, tile.bias, 0);
    if constexpr (kLower) _tile_loadd(3, tile.bias + kHalf, 0);
  }
  const auto pitch = static_cast<long>(tile.pitch);
  const std::int8_t* w = tile.weights;
  for (std::size_t tap = 0; tap < tile.taps; ++tap) {
    const std::uint8_t* x = tile.pixels[0] + tap * tile.tap_pitch + tile.offset;
    const std::uint8_t* lower_x = x;
    if constexpr (kLower) lower_x = tile.pixels[1] + tap * tile.tap_pitch + tile.offset;
    for (std::size_t quad = 0; quad < tile.quads; quad += kByteTileQuads) {
      // Each tile of pixels reads all weights of the panel again, from the second cache.
      const std::int8_t* const next = w + kByteTileQuads * kByteQuadBytes;
      LAGOON_UNROLL for (int i = 0; i < 32; ++i) _mm_prefetch(next + 64 * i, _MM_HINT_T0);
      _tile_loadd(4, x, pitch);
      _tile_loadd(6, w, kWeightsPitch);
      _tile_dpbusd(0, 4, 6);
      _tile_loadd(7, w + kHalf * kByteQuad, kWeightsPitch);
      _tile_dpbusd(1, 4, 7);
      if constexpr (kLower) {
        _tile_loadd(5, lower_x, pitch);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
      }
      x += kByteTileQuads * kByteQuad;
      lower_x += kByteTileQuads * kByteQuad;
      w += kByteTileQuads * kByteQuadBytes;
    }
  }
  _tile_stored(0, sums, kSumsPitch);
  _tile_stored(1, sums + kHalf, kSumsPitch);
  if constexpr (kLower) _tile_stored(2, lower, kSumsPitch);
  if constexpr (kLower) _tile_stored(3, lower + kHalf, kSumsPitch);
  tiles::Fence();
}

}  // namespace

void EnterInt8Tiles(std::size_t upper, std::size_t lower) {
  tiles::Enter(static_cast<std::uint32_t>(upper), static_cast<std::uint32_t>(lower));
}
void LeaveInt8Tiles() { tiles::Leave(); }

void MultiplyInt8Tiles(const ByteTile& tile) {
  return tile.lower > 0 ? Multiply<true>(tile) : Multiply<false>(tile);
}

}  // namespace lagoon::byte_unit
#endif
