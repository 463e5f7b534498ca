#include "device/cuda/records.h"

#include <algorithm>

#include "base/check.h"

namespace lagoon::cuda {

RecordPool::RecordPool(const Limits& limits)
    : limits_(limits), records_(&nodes_), taken_(limits.granules) {
  records_.reserve(limits.records);
  for (std::uint32_t slot = 0; slot < limits.records; ++slot) free_slots_.push_back(slot);
  free_count_ = limits.records;
}

Result<std::unique_ptr<RecordPool>> RecordPool::Create(
    const std::shared_ptr<const GpuSession>& session, const Limits& limits) {
  std::unique_ptr<RecordPool> pool(new RecordPool(limits));
  const std::size_t bytes =
      (std::size_t{limits.records} * kDoneStride + std::size_t{limits.granules} * kGranuleWords) *
      sizeof(u64);
  LAGOON_ASSIGN_OR_RETURN(pool->words_,
                          OwnMemory::Create(session, bytes, OwnMemory::Where::kDevice));
  LAGOON_ASSIGN_OR_RETURN(pool->shadow_,
                          OwnMemory::Create(session, bytes, OwnMemory::Where::kPinned));
  return pool;
}

std::optional<std::uint32_t> RecordPool::TakeGranules(std::uint32_t count) {
  // Begins where the last search ended, and goes around once.
  std::uint32_t run = 0;
  for (std::uint32_t tried = 0; tried < limits_.granules + count; ++tried) {
    const std::uint32_t granule = next_granule_;
    next_granule_ = granule + 1 == limits_.granules ? 0 : granule + 1;
    run = taken_[granule] ? 0 : run + 1;
    if (run == count) {
      const std::uint32_t first = granule + 1 - count;
      std::fill_n(taken_.begin() + first, count, true);
      return first;
    }
    if (next_granule_ == 0) run = 0;
  }
  return std::nullopt;
}

DeviceRecord* RecordPool::Attach(Progress& progress) {
  if (DeviceRecord* const known = Find(progress.done_word())) {
    ++known->users;
    return known;
  }
  if (free_count_ == 0) return nullptr;
  const std::uint32_t granules = (progress.blocks() + kGranuleTiles - 1) / kGranuleTiles;
  const std::optional<std::uint32_t> first = TakeGranules(granules);
  if (!first) return nullptr;
  DeviceRecord record;
  record.progress = &progress;
  record.slot = free_slots_[first_free_];
  first_free_ = (first_free_ + 1) % limits_.records;
  --free_count_;
  record.first = *first;
  record.granules = granules;
  record.users = 1;
  auto* const base = reinterpret_cast<u64*>(words_.device());
  record.ref = {base + std::size_t{record.slot} * kDoneStride, base + ClaimsAt(record), ++tag_,
                progress.blocks()};
  record.to_load = progress.done() != 0;
  return &records_.emplace(&progress.done_word(), record).first->second;
}

void RecordPool::Detach(DeviceRecord& record) {
  LAGOON_CHECK(record.users > 0);
  if (--record.users > 0) return;
  LAGOON_CHECK(record.issues == 0 && !record.fetching);
  free_slots_[(first_free_ + free_count_++) % limits_.records] = record.slot;
  std::fill_n(taken_.begin() + record.first, record.granules, false);
  records_.erase(&record.progress->done_word());
}

DeviceRecord* RecordPool::Find(const std::atomic<std::uint32_t>& done_word) {
  const auto found = records_.find(&done_word);
  return found == records_.end() ? nullptr : &found->second;
}

u64* RecordPool::Shadow(std::uint32_t word) const {
  return reinterpret_cast<u64*>(shadow_.host()) + word;
}

std::uint32_t RecordPool::ClaimsAt(const DeviceRecord& record) const {
  return limits_.records * kDoneStride + record.first * kGranuleWords;
}

Code RecordPool::Load(DeviceRecord& record, const Driver& driver, Stream stream) {
  if (!record.to_load) return kSuccess;
  record.to_load = false;
  const std::uint32_t done_at = record.slot * kDoneStride;
  const std::uint32_t claims_at = ClaimsAt(record);
  *Shadow(done_at) = Tagged(record.ref.tag, record.progress->done());
  const std::span<Progress::Word> tiles = record.progress->unclaimed();
  for (std::uint32_t i = 0; i < ClaimWords(record); ++i) {
    // relaxed: only the host uses the bitmap now.
    const std::uint64_t bits = tiles[i / 2].load(std::memory_order_relaxed);
    *Shadow(claims_at + i) = Tagged(record.ref.tag, static_cast<u32>(bits >> (i % 2 * 32)));
  }
  const Code code = driver.copy_to_device(reinterpret_cast<Address>(record.ref.done),
                                          Shadow(done_at), sizeof(u64), stream);
  if (code != kSuccess) return code;
  return driver.copy_to_device(reinterpret_cast<Address>(record.ref.claims), Shadow(claims_at),
                               ClaimWords(record) * sizeof(u64), stream);
}

Code RecordPool::Fetch(const DeviceRecord& record, const Driver& driver, Stream stream) {
  return driver.copy_to_host(Shadow(ClaimsAt(record)), reinterpret_cast<Address>(record.ref.claims),
                             ClaimWords(record) * sizeof(u64), stream);
}

void RecordPool::Store(const DeviceRecord& record) {
  const std::uint32_t claims_at = ClaimsAt(record);
  const std::span<Progress::Word> tiles = record.progress->unclaimed();
  for (std::uint32_t i = 0; i < ClaimWords(record); ++i) {
    const u64 word = *Shadow(claims_at + i);
    // No tile was claimed in a word without the tag: the host's word is still right.
    if (TagOf(word) != record.ref.tag) continue;
    const std::uint32_t shift = i % 2 * 32;
    const std::uint64_t others = ~(std::uint64_t{0xffffffff} << shift);
    const std::uint64_t bits = tiles[i / 2].load(std::memory_order_relaxed) & others;
    tiles[i / 2].store(bits | std::uint64_t{ValueOf(word)} << shift, std::memory_order_relaxed);
  }
}

}  // namespace lagoon::cuda
