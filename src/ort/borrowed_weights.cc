#include "ort/borrowed_weights.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <utility>

namespace lagoon::plugin {

std::string BorrowedWeights::Add(std::span<const std::byte> bytes) {
  const MutexLock lock(mutex_);
  places_.push_back({bytes, bytes.size(), 0});
  return std::to_string(places_.size() - 1);
}

std::size_t BorrowedWeights::bytes() const {
  const MutexLock lock(mutex_);
  std::size_t sum = 0;
  for (const Place& place : places_) sum += place.size;
  return sum;
}

Status BorrowedWeights::Keep() {
  const MutexLock lock(mutex_);
  std::vector<std::span<const std::byte>> pieces;
  std::size_t offset = 0;
  for (Place& place : places_) {
    pieces.push_back(place.bytes);
    place.offset = offset;
    offset += place.size;
  }
  if (offset == 0) return {};
  LAGOON_ASSIGN_OR_RETURN(MemoryFile copy, MemoryFile::Create(pieces));
  kept_.emplace(std::move(copy));
  for (Place& place : places_) place.bytes = {};
  return {};
}

void BorrowedWeights::Forget() {
  const MutexLock lock(mutex_);
  for (Place& place : places_) place.bytes = {};
}

const BorrowedWeights::Place* BorrowedWeights::Find(std::string_view location) const {
  std::size_t number = 0;
  const auto [end, error] =
      std::from_chars(location.data(), location.data() + location.size(), number);
  const bool known = error == std::errc() && end == location.data() + location.size();
  return known && number < places_.size() ? &places_[number] : nullptr;
}

std::optional<std::size_t> BorrowedWeights::SizeOf(std::string_view location) const {
  const MutexLock lock(mutex_);
  const Place* const place = Find(location);
  if (place == nullptr) return std::nullopt;
  return place->size;
}

Status BorrowedWeights::ReadAt(std::string_view location, std::size_t offset,
                               std::span<std::byte> to) const {
  const MutexLock lock(mutex_);
  const Place* const place = Find(location);
  if (place == nullptr || offset > place->size || to.size() > place->size - offset) {
    return Fail(ErrorCode::kInternal,
                fmt::format("there is no constant '{}' of {} bytes", location, offset + to.size()));
  }
  if (to.empty()) return {};
  if (kept_) return kept_->ReadAt(place->offset + offset, to);
  if (place->bytes.empty()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("constant '{}' is needed by a plan after the load, but was not kept",
                            location));
  }
  std::memcpy(to.data(), place->bytes.data() + offset, to.size());
  return {};
}

}  // namespace lagoon::plugin
