#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lagoon {

/// Bytes on their way to a socket: some are copied, large ones are referred to. One thread at a
/// time.
class Http2Output {
 public:
  bool empty() const { return bytes_ == 0; }
  std::size_t bytes() const { return bytes_; }

  void Copy(const void* data, std::size_t bytes) {
    if (pieces_.empty() || pieces_.back().owner != nullptr) pieces_.emplace_back();
    pieces_.back().text.append(static_cast<const char*>(data), bytes);
    bytes_ += bytes;
  }
  /// `owner` keeps the data alive until it is sent or dropped.
  void Refer(const void* data, std::size_t bytes, std::shared_ptr<const void> owner) {
    pieces_.push_back({{}, {static_cast<const char*>(data), bytes}, std::move(owner)});
    bytes_ += bytes;
  }

  /// The first bytes, in at most `most` parts. Valid until the next call of another function.
  std::vector<iovec> Parts(std::size_t most) const {
    std::vector<iovec> parts;
    std::size_t skip = sent_;
    for (const Piece& piece : pieces_) {
      if (parts.size() == most) break;
      const std::string_view rest = piece.view().substr(skip);
      skip = 0;
      // The system only reads them.
      parts.push_back({const_cast<char*>(rest.data()), rest.size()});
    }
    return parts;
  }
  /// The first `bytes` bytes are sent.
  void Drop(std::size_t bytes) {
    bytes_ -= bytes;
    sent_ += bytes;
    while (!pieces_.empty() && sent_ >= pieces_.front().view().size()) {
      sent_ -= pieces_.front().view().size();
      pieces_.pop_front();
    }
  }

 private:
  struct Piece {
    std::string text;
    std::string_view referred = {};
    std::shared_ptr<const void> owner = nullptr;  // null: `text` is the piece

    std::string_view view() const { return owner == nullptr ? std::string_view(text) : referred; }
  };

  std::deque<Piece> pieces_;
  std::size_t sent_ = 0;   // bytes of the first piece
  std::size_t bytes_ = 0;  // that are left
};

}  // namespace lagoon
