#pragma once

// The CPU instructions that multiply unsigned bytes by signed bytes with sums in 32 bits, and the
// micro-kernels that use them. Sums are exact, so all units give the same bits.
//
// A micro-kernel computes up to ByteUnit::rows rows of one panel of kBytePanel columns. Four
// neighbours of the depth are a quad. The places of a panel are its columns in the order of
// ByteColumn(), which the saturating packs of the CPU undo.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lagoon {

inline constexpr std::size_t kByteRows = 12;                           // of vectors' micro-tiles
inline constexpr std::size_t kMaxByteRows = 32;                        // of any unit's micro-tile
inline constexpr std::size_t kBytePanel = 32;                          // columns of a panel
inline constexpr std::size_t kByteQuad = 4;                            // neighbours of the depth
inline constexpr std::size_t kByteQuadBytes = kBytePanel * kByteQuad;  // a quad of a panel
inline constexpr std::size_t kByteTileQuads = 16;           // that AMX multiplies at once
inline constexpr std::size_t kByteHalf = kMaxByteRows / 2;  // rows of a tile of AMX

/// The column of a panel in place `i`.
constexpr std::size_t ByteColumn(std::size_t i) { return i % 16 / 4 * 8 + i / 16 * 4 + i % 4; }

/// One call of a micro-kernel: sums[row][place] = bias[place] + the products of all quads of all
/// taps. With `resume` they are added to the contents of `sums`.
struct ByteTile {
  /// [tap][ByteUnit::rows]: where a row begins for a tap. If ByteUnit::even: where the upper and
  /// the lower half of the rows begin for the first tap.
  const std::uint8_t* const* pixels;
  std::size_t pitch, tap_pitch;  // bytes from row to row and from tap to tap, if ByteUnit::even
  std::size_t offset;            // bytes from there to the first quad
  std::size_t taps, quads;
  const std::int8_t* weights;  // [tap][quad][place][4]
  std::size_t rows;            // 1 to ByteUnit::rows; of the upper half, if ByteUnit::even
  std::size_t lower;           // rows of the lower half; its sums begin at row kByteHalf
  bool wide;                   // the products of two neighbours may need more than 16 bits
  bool resume;
  const std::int32_t* bias;  // by place
  std::int32_t* sums;        // [row][place]
};

/// What becomes of sums: float(sum) * scale, limited to [low, high]. As bytes, the result is
/// rounded, with halves to even, and gets the zero point. As floats with a grid, it is rounded so
/// and multiplied by the grid.
struct ByteStore {
  const std::int32_t* sums;   // [row][place]
  std::size_t rows, columns;  // of the panel: 1 to kBytePanel
  const float* scale;         // by place
  float low, high;
  bool limits;  // false: the type of the result limits it
  float grid;   // 0: none
  std::int32_t zero;
  void* y;            // bytes or floats
  std::size_t pitch;  // elements from row to row
};

/// Rows of bytes that are copied.
struct ByteRows {
  const std::uint8_t* from;
  std::size_t from_pitch;   // from row to row; 0 repeats a row
  std::size_t rows, bytes;  // of a row: at least 1
  std::uint8_t* to;
  std::size_t to_pitch;
};

inline constexpr std::size_t kByteGroup = 64;  // channels of a depthwise convolution

/// The channel of a group in place `i`: the order that unpacks and packs of the CPU make and undo.
constexpr std::size_t ByteChannel(std::size_t i) { return i % 16 / 4 * 16 + i / 16 * 4 + i % 4; }

/// Some output pixels of a depthwise convolution, as ByteStore makes bytes of sums.
struct ByteDepthwise {
  /// Four for each quad. Of pixel 0; each tap of pixel i lies `step` bytes behind that of pixel
  /// i - 1. If `columns`: of the first filter column, and of column 0 of the image.
  const std::uint8_t* const* taps;
  std::size_t quads;
  std::size_t pixels, step, channels;
  /// The filter's columns, if neighbours share what they read (ByteUnit::shares_columns): 3 or 5;
  /// else 0. Each has the same number of quads, one behind the other.
  std::size_t columns;
  std::ptrdiff_t origin;       // the image's column that pixel 0 reads by the first one
  std::size_t stride, width;   // of the image, in pixels; the stride is 1 or 2
  std::uint8_t x_zero;         // beside the image
  const std::int8_t* weights;  // [group][quad][place][4]
  const std::int32_t* bias;    // [group][place]
  const float* scale;          // [group][place]
  float low, high;
  bool limits;
  std::int32_t zero;
  std::uint8_t* y;
};

/// One kind of instructions. Static lifetime; any thread.
struct ByteUnit {
  const char* name;
  std::size_t rows = kByteRows;  // most rows of a micro-tile
  /// Whether the micro-kernel reads rows at even distance, in two halves of up to kByteHalf, and in
  /// steps of kByteTileQuads quads. Taps are whole steps; one tap alone may be ragged, with zeros
  /// behind the last quad of its rows, and anything behind the weights.
  bool even = false;
  /// Time on one compute unit: of a quad of a full micro-tile, of a row that is stored, of a quad
  /// of a group of a depthwise convolution, and of a group that is stored.
  double quad_ns, row_ns, depthwise_quad_ns, group_ns;
  /// Null if there is nothing to do. Call before the first product and whenever the number of rows
  /// changes.
  void (*enter)(std::size_t upper, std::size_t lower) = nullptr;
  void (*multiply)(const ByteTile& tile);
  /// Call after the last product. The thread then holds no state of the unit, which the operating
  /// system would otherwise save at every context switch.
  void (*leave)() = nullptr;
  void (*store_bytes)(const ByteStore& store);
  void (*store_floats)(const ByteStore& store);
  bool shares_columns = false;  // `depthwise` reads ByteDepthwise::columns
  void (*depthwise)(const ByteDepthwise& pixels);
  void (*copy)(const ByteRows& rows);
};

/// The units that this process may use, the fastest first. Not empty: the last one is portable.
std::span<const ByteUnit* const> ByteUnits();

/// The first of `units` that is worth its while for a product of so many rows. `may_be_even`:
/// whether the rows lie as ByteUnit::even asks, or can be copied so.
const ByteUnit& PickByteUnit(std::span<const ByteUnit* const> units, std::size_t rows,
                             bool may_be_even);

/// Between enter() and leave() of a unit.
class EnteredByteUnit {
 public:
  explicit EnteredByteUnit(const ByteUnit& unit) : unit_(unit) {}
  ~EnteredByteUnit() {
    if (rows_ != 0) unit_.leave();
  }
  EnteredByteUnit(const EnteredByteUnit&) = delete;
  EnteredByteUnit& operator=(const EnteredByteUnit&) = delete;

  void Multiply(const ByteTile& tile) {
    if (unit_.enter != nullptr && (tile.rows != rows_ || tile.lower != lower_)) {
      unit_.enter(tile.rows, tile.lower);
      rows_ = tile.rows;
      lower_ = tile.lower;
    }
    unit_.multiply(tile);
  }

 private:
  const ByteUnit& unit_;
  std::size_t rows_ = 0, lower_ = 0;  // that were passed to enter()
};

}  // namespace lagoon
