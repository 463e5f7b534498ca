#include "base/compress/inflate.h"

#include <algorithm>
#include <limits>

namespace lagoon {
namespace {

// The largest window, and 32: zlib finds out whether the data is gzip's or its own.
constexpr int kWindowBits = 15 + 32;

uInt Bounded(std::size_t bytes) {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

}  // namespace

Inflater::Inflater() : ready_(::inflateInit2(&stream_, kWindowBits) == Z_OK) {}

Inflater::Step Inflater::Next(std::span<const std::byte>& input, bool last,
                              std::span<std::byte> output) {
  Step step;
  while (ready_) {
    if (ended_) {
      if (input.empty()) {
        step.state = last ? State::kDone : State::kMore;
        return step;
      }
      ::inflateReset(&stream_);
      ended_ = false;
    }
    const uInt readable = Bounded(input.size());
    const uInt writable = Bounded(output.size() - step.written);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
    stream_.avail_in = readable;
    stream_.next_out = reinterpret_cast<Bytef*>(output.data() + step.written);
    stream_.avail_out = writable;
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    input = input.subspan(readable - stream_.avail_in);
    step.written += writable - stream_.avail_out;
    ended_ = result == Z_STREAM_END;
    if (ended_) continue;
    if (result != Z_OK && result != Z_BUF_ERROR) return {State::kBad, step.written};
    if (step.written < output.size() && input.empty()) {
      step.state = last ? State::kBad : State::kMore;
      return step;
    }
    if (step.written == output.size()) {
      step.state = State::kMore;
      return step;
    }
  }
  return step;
}

}  // namespace lagoon
