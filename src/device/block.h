#pragma once

// The block protocol: how the tiles of a kernel are claimed, given back, committed and resumed.
//
// All devices that run C++ bodies use this source. It is templated on its atomics, so that a test
// explores all interleavings of the very code that real threads run. docs/design/block-protocol.md
// gives the argument. In short:
// - Claim: a tile has at most one owner, from Claim() until Unclaim() or Commit().
// - Guard: a hint that asks running blocks to leave. Missing a guard costs time, not correctness.
// - Commit: only committed tiles count as done. No block leaves after its first visible write.
// - Complete: done == blocks. Not the same as retired: units may still be in a complete launch.
// - Reuse: Reset() is allowed only when every launch that names the record has retired.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace lagoon {

/// The atomics of real threads. A test substitutes atomics with a scheduling point at every access.
struct StdAtomics {
  template <typename T>
  using Atomic = std::atomic<T>;
};

/// Asks blocks to leave while `int32(word - limit) > 0`. Words only grow. Wrap-around is harmless.
template <typename Atomics>
struct BasicGuard {
  const typename Atomics::template Atomic<std::uint32_t>* word = nullptr;  // null: no guard
  std::uint32_t limit = 0;
  /// If true, the guard is checked only before the launch's first block: a started launch runs to
  /// completion and only queued ones leave (wait-based preemption).
  bool only_before_start = false;

  bool Raised() const {
    // relaxed: a guard is a hint, nothing is published through it.
    return word != nullptr &&
           static_cast<std::int32_t>(word->load(std::memory_order_relaxed) - limit) > 0;
  }
};

/// The progress of one op of one job. All launches of the op name this record. Its owner is the
/// code that binds the op to memory.
template <typename Atomics>
class BasicProgress {
 public:
  using Word = typename Atomics::template Atomic<std::uint64_t>;

  static constexpr std::size_t WordsFor(std::uint32_t blocks) { return (blocks + 63) / 64; }

  /// `unclaimed`: at least WordsFor(blocks) words that outlive this record. Call Reset() before the
  /// first use.
  BasicProgress(std::uint32_t blocks, std::span<Word> unclaimed)
      : words_(unclaimed), unclaimed_(words_.first(WordsFor(blocks))), blocks_(blocks) {}

  /// Makes every tile unclaimed and not done. Only when every launch that names this record has
  /// retired.
  void Reset() {
    for (std::size_t i = 0; i < unclaimed_.size(); ++i) {
      const std::uint32_t left = blocks_ - static_cast<std::uint32_t>(i * 64);
      const std::uint64_t all = left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
      // relaxed: the next users of the record come after a later Submit, which publishes these
      // stores.
      unclaimed_[i].store(all, std::memory_order_relaxed);
    }
    done_.store(0, std::memory_order_release);
  }

  /// Reset() for a kernel that is from now on cut into `blocks`. The words of the constructor must
  /// suffice for that many.
  void Reset(std::uint32_t blocks) {
    unclaimed_ = words_.first(WordsFor(blocks));
    blocks_ = blocks;
    Reset();
  }

  /// Takes the first unclaimed tile that the search finds, from tile `from` on and then from 0;
  /// nothing if every tile looked claimed or done. The search misses a tile that is given back
  /// behind it: the caller of Unclaim() must make sure that Claim() is called again.
  std::optional<std::uint32_t> Claim(std::uint32_t from = 0) {
    const std::uint64_t below = (std::uint64_t{1} << (from % 64)) - 1;  // tiles before `from`
    const std::size_t first = from / 64;
    if (first >= unclaimed_.size()) return std::nullopt;  // no tiles
    if (const auto tile = ClaimIn(first, ~below)) return tile;
    for (std::size_t i = first + 1; i < unclaimed_.size(); ++i) {
      if (const auto tile = ClaimIn(i, ~std::uint64_t{0})) return tile;
    }
    for (std::size_t i = 0; i < first; ++i) {
      if (const auto tile = ClaimIn(i, ~std::uint64_t{0})) return tile;
    }
    return below == 0 ? std::nullopt : ClaimIn(first, below);
  }

  /// Where a unit, one of `units` that work on the kernel, begins to search: at its own part of the
  /// tiles. A unit then reads mostly what it wrote itself in the kernel before, which its cache
  /// has. Measured on two cores of an EPYC, EfficientNet-B0 at batch 8: 41 ms with neighbouring
  /// tiles and 30 with parts while the host was slow between its cores, else 25.6 and 24.4.
  std::uint32_t FirstOf(std::uint32_t unit, std::uint32_t units) const {
    return static_cast<std::uint32_t>(std::uint64_t{blocks_} * (unit % units) / units);
  }

  /// Gives a claimed tile back; the caller has written nothing that others see.
  void Unclaim(std::uint32_t block) {
    // release: this owner's reads of the tile come before the next owner's writes.
    unclaimed_[block / 64].fetch_or(std::uint64_t{1} << (block % 64), std::memory_order_release);
  }

  /// Counts a claimed tile as done. True for exactly one caller: the one that completed the kernel.
  bool Commit() {
    // acq_rel: publishes this tile, and lets the last committer see all others'.
    return done_.fetch_add(1, std::memory_order_acq_rel) + 1 == blocks_;
  }

  /// acquire: a caller that sees `blocks` tiles done also sees what those tiles wrote.
  std::uint32_t done() const { return done_.load(std::memory_order_acquire); }
  bool Complete() const { return done() == blocks_; }
  std::uint32_t blocks() const { return blocks_; }

  /// For devices that count elsewhere (GPU): copies the device's count into this record. `done`
  /// must not decrease until a Reset().
  void Mirror(std::uint32_t done) { done_.store(done, std::memory_order_release); }
  /// The bitmap, for the same devices: bit 1 is unclaimed. Only while no unit works on the record.
  std::span<Word> unclaimed() { return unclaimed_; }

  /// For a guard on this record: {&done_word(), n} asks to leave once more than n tiles are done.
  const typename Atomics::template Atomic<std::uint32_t>& done_word() const { return done_; }

  /// A hint for pickers: whether some tile looked unclaimed just now.
  bool HasUnclaimed() const {
    for (const Word& word : unclaimed_) {
      if (word.load(std::memory_order_relaxed) != 0) return true;
    }
    return false;
  }

 private:
  /// Takes the lowest unclaimed tile of a word, of those in `mask`.
  std::optional<std::uint32_t> ClaimIn(std::size_t word, std::uint64_t mask) {
    std::uint64_t bits = unclaimed_[word].load(std::memory_order_relaxed) & mask;
    while (bits != 0) {
      const std::uint64_t bit = bits & (~bits + 1);
      // acquire: pairs with Unclaim(). The next owner's writes come after the last owner's reads.
      const std::uint64_t before = unclaimed_[word].fetch_and(~bit, std::memory_order_acquire);
      if ((before & bit) != 0) {
        return static_cast<std::uint32_t>(word * 64) +
               static_cast<std::uint32_t>(std::countr_zero(bit));
      }
      bits = before & ~bit & mask;
    }
    return std::nullopt;
  }

  typename Atomics::template Atomic<std::uint32_t> done_{0};
  std::span<Word> words_;      // room for the largest number of blocks
  std::span<Word> unclaimed_;  // the first WordsFor(blocks_) of words_
  std::uint32_t blocks_;
};

/// A dependency of a launch: `blocks` tiles of `on` must be done before the launch claims a tile.
template <typename Atomics>
struct BasicDep {
  const BasicProgress<Atomics>* on = nullptr;
  std::uint32_t blocks = 0;

  bool Met() const { return on->done() >= blocks; }
};

inline constexpr std::size_t kGuardsPerLaunch = 2;

/// Why a unit stopped working on a launch.
enum class Leave : std::uint8_t {
  kExhausted,  // no tile left to claim; other units may still run theirs
  kCompleted,  // this unit committed the last tile
  kRevoked,    // a guard was raised
  kBlocked,    // a dependency is not met
  kYielded,    // `yield` returned true
};

class BlockContext;

/// Computes tile `block`. True: committed; false: left without a visible write because
/// ctx.ShouldLeave() said so (and only then). See the promises in docs/design/block-protocol.md.
using Body = bool (*)(const void* args, std::uint32_t block, BlockContext& ctx);

using Guard = BasicGuard<StdAtomics>;
using Progress = BasicProgress<StdAtomics>;
using Dep = BasicDep<StdAtomics>;

/// Test hook: called at every guard check of a body. Null in production.
class CheckProbe {
 public:
  virtual ~CheckProbe() = default;
  /// True makes the block leave, as if a guard were raised.
  virtual bool OnCheck() = 0;
};

/// What a body sees of its launch. One per unit; not shared.
class BlockContext {
 public:
  BlockContext(std::span<const Guard> guards, std::span<std::byte> scratch,
               CheckProbe* probe = nullptr)
      : guards_(guards), scratch_(scratch), probe_(probe) {}

  /// A body calls this at most 20 us apart, its commit included. After true the body must return
  /// false, unless it has already written something visible: then it must finish and return true.
  bool ShouldLeave() {
    if (probe_ != nullptr && probe_->OnCheck()) return true;
    for (const Guard& guard : guards_) {
      if (!guard.only_before_start && guard.Raised()) return true;
    }
    return false;
  }

  /// This unit's private memory, 64-byte aligned, at least KernelSpec::scratch_bytes. Its contents
  /// are undefined.
  std::span<std::byte> scratch() const { return scratch_; }

 private:
  std::span<const Guard> guards_;
  std::span<std::byte> scratch_;
  CheckProbe* probe_;
};

/// True if a guard asks blocks to leave. `started`: a block of the launch has run, so guards with
/// `only_before_start` no longer count.
template <typename Atomics>
bool Revoked(std::span<const BasicGuard<Atomics>> guards, bool started) {
  for (const auto& guard : guards) {
    if (!(guard.only_before_start && started) && guard.Raised()) return true;
  }
  return false;
}

template <typename Atomics>
bool DepsMet(std::span<const BasicDep<Atomics>> deps) {
  for (const auto& dep : deps) {
    if (!dep.Met()) return false;
  }
  return true;
}

/// One unit's loop over the tiles of a started launch: checks guards and dependencies, claims,
/// runs, commits or unclaims. `run(block)` is the body. `yield()` is called before each claim; true
/// ends the loop. `claimed`: a tile that the caller claimed after the same checks; it runs first.
/// `from`: of Claim().
///
/// Guards are checked before dependencies, so that a revoked launch leaves even while it waits for
/// one. Dependencies are read before the claim. They still hold after it, because done counts only
/// grow until a Reset().
template <typename Atomics, typename Run, typename Yield>
Leave RunBlocks(BasicProgress<Atomics>& progress, std::span<const BasicDep<Atomics>> deps,
                std::span<const BasicGuard<Atomics>> guards, Run&& run, Yield&& yield,
                std::optional<std::uint32_t> claimed = std::nullopt, std::uint32_t from = 0) {
  for (bool first = true;; first = false) {
    std::uint32_t tile = claimed.value_or(0);
    if (!first || !claimed) {
      if (Revoked(guards, /*started=*/true)) return Leave::kRevoked;
      if (!DepsMet(deps)) return Leave::kBlocked;
      if (yield()) return Leave::kYielded;
      const std::optional<std::uint32_t> taken = progress.Claim(from);
      if (!taken) return Leave::kExhausted;
      tile = *taken;
    }
    if (!run(tile)) {
      progress.Unclaim(tile);
      return Leave::kRevoked;
    }
    if (progress.Commit()) return Leave::kCompleted;
  }
}

}  // namespace lagoon
