#pragma once

// For tests: what Inflater inflates.

#include <zlib.h>

#include <string>
#include <string_view>

namespace lagoon {

/// `text` as gzip, or as zlib's own format ("deflate").
inline std::string Deflated(std::string_view text, bool gzip = true) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, gzip ? 15 + 16 : 15, 8, Z_DEFAULT_STRATEGY);
  std::string deflated(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(deflated.data());
  stream.avail_out = static_cast<uInt>(deflated.size());
  deflate(&stream, Z_FINISH);
  deflated.resize(stream.total_out);
  deflateEnd(&stream);
  return deflated;
}

}  // namespace lagoon
