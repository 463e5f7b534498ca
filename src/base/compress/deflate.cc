#include "base/compress/deflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

namespace lagoon {
namespace {

// The largest window; 16 more: gzip.
constexpr int kWindowBits = 15, kGzip = 16;
constexpr int kMemoryLevel = 8;  // zlib's default
constexpr std::size_t kFirstPiece = std::size_t{64} << 10, kLargestPiece = std::size_t{8} << 20;

class Deflater {
 public:
  explicit Deflater(bool gzip) {
    const int window = kWindowBits + (gzip ? kGzip : 0);
    if (::deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, window, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Deflater() { ::deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  /// `last`: `input` is the end.
  void Add(std::span<const std::byte> input, bool last) {
    int result = Z_OK;
    do {
      const auto bytes =
          static_cast<uInt>(std::min<std::size_t>(input.size(), std::numeric_limits<uInt>::max()));
      const bool end = last && bytes == input.size();
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
      stream_.avail_in = bytes;
      result = Run(end);
      input = input.subspan(bytes - stream_.avail_in);
    } while (!input.empty() || (last && result != Z_STREAM_END));
  }

  std::vector<UnfilledBytes> Take() {
    if (!pieces_.empty()) pieces_.back().resize(pieces_.back().size() - stream_.avail_out);
    return std::move(pieces_);
  }

 private:
  int Run(bool end) {
    if (stream_.avail_out == 0) {
      const std::size_t bytes =
          pieces_.empty() ? kFirstPiece : std::min(2 * pieces_.back().size(), kLargestPiece);
      UnfilledBytes& piece = pieces_.emplace_back(bytes);
      stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream_.avail_out = static_cast<uInt>(bytes);
    }
    return ::deflate(&stream_, end ? Z_FINISH : Z_NO_FLUSH);
  }

  z_stream stream_{};
  std::vector<UnfilledBytes> pieces_;
};

}  // namespace

std::vector<UnfilledBytes> Deflate(std::span<const std::span<const std::byte>> parts, bool gzip) {
  Deflater deflater(gzip);
  for (const auto& part : parts) deflater.Add(part, false);
  deflater.Add({}, true);
  return deflater.Take();
}

}  // namespace lagoon
