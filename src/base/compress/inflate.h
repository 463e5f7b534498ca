#pragma once

#include <zlib.h>

#include <cstddef>
#include <span>

namespace lagoon {

/// Inflates gzip and zlib data ("deflate") step by step. One thread at a time.
class Inflater {
 public:
  Inflater();
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  enum class State { kMore, kDone, kBad };
  struct Step {
    State state = State::kBad;
    std::size_t written = 0;
  };
  /// Reads from `input`, which shrinks by what was read, and fills `output`. `last`: no input
  /// follows. kMore: output is full, or more input is needed. kDone: all is read. kBad: no such
  /// data, data that ends too soon, or memory ran out.
  Step Next(std::span<const std::byte>& input, bool last, std::span<std::byte> output);

 private:
  z_stream stream_{};
  const bool ready_;    // false: memory ran out
  bool ended_ = false;  // at the end of a gzip member; another may follow
};

}  // namespace lagoon
