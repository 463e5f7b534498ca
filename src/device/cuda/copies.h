#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include "device/cuda/driver/session.h"
#include "device/device.h"

namespace lagoon::cuda {

/// Copies between pageable host memory and the GPU, in pieces through pinned memory. Several pieces
/// are under way at once. Used by one thread.
class CopyPipeline {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
  static constexpr std::size_t kPieces = 8;

  /// `to_device`, `to_host`: streams for these copies only. Borrowed.
  static Result<std::unique_ptr<CopyPipeline>> Create(
      const std::shared_ptr<const GpuSession>& session, MarkedStream& to_device,
      MarkedStream& to_host);

  /// kOnHost: neither side is on the GPU, and the GPU has no part in the copy.
  enum class Way : std::uint8_t { kToDevice, kToHost, kOnHost };
  /// Queues a copy. TakeFinished() gives `key` back.
  void Add(std::uint32_t key, const Copy& copy, Way way);
  /// Moves what can be moved now. False: there is nothing to do now. `result`: a call of the driver
  /// that failed, else kSuccess.
  bool Step(CallResult& result);
  /// Takes the key of a copy whose bytes have all arrived. False: there is none.
  bool TakeFinished(std::uint32_t& key);
  bool busy() const { return !copies_.empty(); }

 private:
  struct Moving {
    std::uint32_t key;
    Copy copy;
    Way way;
    std::size_t sent = 0, arrived = 0;
  };
  struct Piece {
    Moving* copy;
    std::size_t offset, bytes;
    std::byte* pinned;
    std::uint32_t mark;
  };

  CopyPipeline(std::shared_ptr<const GpuSession> session, OwnMemory pinned, MarkedStream& to_device,
               MarkedStream& to_host)
      : session_(std::move(session)),
        pinned_(std::move(pinned)),
        to_device_(to_device),
        to_host_(to_host) {
    for (std::size_t i = 0; i < kPieces; ++i) free_.push_back(pinned_.host() + i * kPieceBytes);
  }
  CallResult Send(Moving& moving);
  bool Land(std::deque<Piece>& pieces, const MarkedStream& stream);

  const std::shared_ptr<const GpuSession> session_;
  OwnMemory pinned_;
  MarkedStream& to_device_;
  MarkedStream& to_host_;
  std::deque<std::byte*> free_;
  std::deque<std::unique_ptr<Moving>> copies_;  // in order of arrival
  std::deque<Piece> up_, down_;                 // pieces under way, by direction
  std::deque<std::uint32_t> finished_;
};

}  // namespace lagoon::cuda
