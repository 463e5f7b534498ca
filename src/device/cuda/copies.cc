#include "device/cuda/copies.h"

#include <algorithm>

#include "device/host/copy_range.h"

namespace lagoon::cuda {

Result<std::unique_ptr<CopyPipeline>> CopyPipeline::Create(
    const std::shared_ptr<const GpuSession>& session, MarkedStream& to_device,
    MarkedStream& to_host) {
  LAGOON_ASSIGN_OR_RETURN(OwnMemory pinned, OwnMemory::Create(session, kPieces * kPieceBytes,
                                                              OwnMemory::Where::kPinned));
  return std::unique_ptr<CopyPipeline>(
      new CopyPipeline(session, std::move(pinned), to_device, to_host));
}

void CopyPipeline::Add(std::uint32_t key, const Copy& copy, Way way) {
  if (copy.bytes == 0) return finished_.push_back(key);
  copies_.push_back(std::make_unique<Moving>(Moving{key, copy, way}));
}

bool CopyPipeline::TakeFinished(std::uint32_t& key) {
  if (finished_.empty()) return false;
  key = finished_.front();
  finished_.pop_front();
  return true;
}

bool CopyPipeline::Step(CallResult& result) {
  const bool up = Land(up_, to_device_);
  const bool down = Land(down_, to_host_);
  const std::size_t on_host = std::erase_if(copies_, [this](const auto& moving) {
    if (moving->way != Way::kOnHost) return false;
    CopyRange(moving->copy, 0, moving->copy.bytes);
    finished_.push_back(moving->key);
    return true;
  });
  bool moved = up || down || on_host > 0;
  result = {};
  for (const auto& moving : copies_) {
    while (moving->sent < moving->copy.bytes && !free_.empty()) {
      result = Send(*moving);
      if (result.code != kSuccess) return true;
      moved = true;
    }
  }
  return moved;
}

CallResult CopyPipeline::Send(Moving& moving) {
  const Driver& driver = session_->driver();
  const std::size_t bytes = std::min(kPieceBytes, moving.copy.bytes - moving.sent);
  Piece piece{&moving, moving.sent, bytes, free_.front(), 0};
  const bool from_device = moving.way == Way::kToHost;
  MarkedStream& stream = from_device ? to_host_ : to_device_;
  CallResult result;
  if (from_device) {
    const auto from = reinterpret_cast<Address>(moving.copy.from) + moving.sent;
    result = {driver.copy_to_host(piece.pinned, from, bytes, stream.handle()), "cuMemcpyDtoHAsync"};
  } else {
    ReadHostSide(moving.copy, moving.sent, bytes, static_cast<std::byte*>(piece.pinned));
    const auto to = reinterpret_cast<Address>(moving.copy.to) + moving.sent;
    result = {driver.copy_to_device(to, piece.pinned, bytes, stream.handle()), "cuMemcpyHtoDAsync"};
  }
  if (result.code != kSuccess) return result;
  piece.mark = stream.Mark(result.code);
  if (result.code != kSuccess) return {result.code, "cuStreamWriteValue32"};
  free_.pop_front();
  moving.sent += bytes;
  (from_device ? down_ : up_).push_back(piece);
  return {};
}

bool CopyPipeline::Land(std::deque<Piece>& pieces, const MarkedStream& stream) {
  bool moved = false;
  while (!pieces.empty() && stream.Reached(pieces.front().mark)) {
    const Piece piece = pieces.front();
    pieces.pop_front();
    Moving& moving = *piece.copy;
    if (moving.way == Way::kToHost) {
      WriteHostSide(moving.copy, piece.offset, piece.bytes,
                    static_cast<const std::byte*>(piece.pinned));
    }
    free_.push_back(piece.pinned);
    moving.arrived += piece.bytes;
    moved = true;
    if (moving.arrived < moving.copy.bytes) continue;
    finished_.push_back(moving.key);
    std::erase_if(copies_, [&](const auto& other) { return other.get() == &moving; });
  }
  return moved;
}

}  // namespace lagoon::cuda
