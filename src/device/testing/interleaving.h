#pragma once

// Exploration of all interleavings of a few small threads, for tests. The threads run real code
// over model atomics; each access is one step, and between any two steps of a thread every other
// thread may move.
//
// No real threads and no fibers: a thread is a function of what its accesses returned so far, its
// log. To make a step, its function runs again from the start, fed from the log, performs one new
// access, and is left at the next one by an exception. A state is thus plain data: memory and logs.
// States seen before (by a 128-bit hash) are not expanded again.
//
// Sequentially consistent: an access takes effect at once for all. What the weaker orderings of the
// real code allow on top is argued in docs/design/block-protocol.md and watched by ThreadSanitizer.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/block.h"

namespace lagoon::interleaving {

using Memory = std::vector<std::uint64_t>;
/// What an access does to the memory, and its result. Nothing: the access is not possible now, and
/// the thread waits. `choice` counts from 0: an access may have several outcomes.
using Effect = std::function<std::optional<std::uint64_t>(Memory&, unsigned choice)>;

class Explorer {
 public:
  struct Outcome {
    std::uint64_t states = 0;
    std::uint64_t steps = 0;    // transitions between them
    std::uint64_t endings = 0;  // states in which all threads have returned
    std::string violation;      // empty: none; else what broke, and the schedule that led there
  };

  Explorer() { current_ = this; }
  ~Explorer() { current_ = nullptr; }
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  /// A word of memory with its initial value. Before Run().
  std::size_t AddWord(std::uint64_t value) {
    initial_.push_back(value);
    return initial_.size() - 1;
  }

  /// `body` must depend on nothing but what its accesses return. Before Run().
  void AddThread(std::string name, std::function<void()> body) {
    threads_.push_back({std::move(name), std::move(body)});
  }

  /// `invariant` is checked in every state. It returns what is wrong, or nullptr.
  void SetInvariant(std::function<const char*(const Memory&)> invariant) {
    invariant_ = std::move(invariant);
  }

  /// Explores everything, or up to the first violation: a broken invariant, a Require() that
  /// failed, or a state from which no schedule lets all threads return.
  Outcome Run() {
    outcome_ = {};
    State first{initial_, std::vector<Log>(threads_.size()), std::vector<bool>(threads_.size()), 0};
    Visit(first, 0, 0);
    while (!pending_.empty() && outcome_.violation.empty()) {
      const State state = std::move(pending_.back());
      pending_.pop_back();
      Expand(state);
    }
    outcome_.states = parents_.size();
    if (outcome_.violation.empty()) CheckEveryStateCanEnd();
    return outcome_;
  }

  // For the threads.

  /// One step with up to `choices` outcomes.
  static std::uint64_t Access(unsigned choices, const Effect& effect) {
    return current_->DoAccess(choices, effect);
  }
  /// One step that is possible once `condition` holds.
  static void Await(const std::function<bool(const Memory&)>& condition) {
    Access(1, [&](Memory& memory, unsigned) {
      return condition(memory) ? std::optional<std::uint64_t>(0) : std::nullopt;
    });
  }
  /// Called inside an effect.
  static void Require(bool condition, const char* what) {
    if (!condition && current_->broken_ == nullptr) current_->broken_ = what;
  }
  static std::size_t thread() { return current_->running_; }

  /// The only living Explorer. There is one at a time.
  static Explorer& current() { return *current_; }

  /// Declares that `label` names the thread's whole local state here, whatever happened before. All
  /// logs that lead here are replaced by the first such log, so that states which differ only in
  /// these logs are one state.
  static void Checkpoint(std::uint64_t label) { current_->DoCheckpoint(label); }

 private:
  using Log = std::vector<std::uint64_t>;
  using StateId = std::uint32_t;
  struct Thread {
    std::string name;
    std::function<void()> body;
  };
  struct State {
    Memory memory;
    std::vector<Log> logs;
    std::vector<bool> returned;
    StateId id;
  };
  struct Parent {
    StateId id;
    std::uint32_t thread;
  };
  struct Pause {};  // thrown to leave a thread at its next access
  enum class Stepped { kYes, kWaits, kNoSuchChoice };

  std::uint64_t DoAccess(unsigned choices, const Effect& effect) {
    Log& log = state_->logs[running_];
    if (position_ < log.size()) return log[position_++];
    if (stepped_) throw Pause{};
    if (choice_ >= choices) {
      result_ = Stepped::kNoSuchChoice;
      throw Pause{};
    }
    const std::optional<std::uint64_t> value = effect(state_->memory, choice_);
    if (!value) {
      result_ = Stepped::kWaits;
      throw Pause{};
    }
    stepped_ = true;
    log.push_back(*value);
    ++position_;
    return *value;
  }

  void DoCheckpoint(std::uint64_t label) {
    Log& log = state_->logs[running_];
    if (position_ < log.size()) return;  // the log is still being replayed
    const Log& known = checkpoints_.try_emplace({running_, label}, log).first->second;
    if (stepped_) log = known;
    position_ = log.size();
  }

  Stepped Step(State& state, std::size_t thread, unsigned choice) {
    state_ = &state;
    running_ = thread;
    choice_ = choice;
    position_ = 0;
    stepped_ = false;
    result_ = Stepped::kYes;
    try {
      threads_[thread].body();
      if (!stepped_ && choice > 0) return Stepped::kNoSuchChoice;  // a thread without any access
      state.returned[thread] = true;
    } catch (const Pause&) {
    }
    return result_;
  }

  void Expand(const State& state) {
    bool ended = true;
    for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
      if (state.returned[thread]) continue;
      ended = false;
      for (unsigned choice = 0;; ++choice) {
        State next = state;
        const Stepped stepped = Step(next, thread, choice);
        if (stepped == Stepped::kNoSuchChoice) break;
        if (stepped == Stepped::kWaits) continue;
        ++outcome_.steps;
        Visit(next, state.id, thread);
        if (!outcome_.violation.empty()) return;
      }
    }
    if (ended) {
      ++outcome_.endings;
      endings_.push_back(state.id);
    }
  }

  // Gives the state its id, and queues it if it is new.
  void Visit(State& state, StateId from, std::size_t thread) {
    const auto [it, is_new] =
        seen_.try_emplace(HashOf(state), static_cast<StateId>(parents_.size()));
    state.id = it->second;
    if (is_new) parents_.push_back({from, static_cast<std::uint32_t>(thread)});
    edges_.emplace_back(from, state.id);
    const char* wrong = broken_ != nullptr ? broken_
                        : invariant_       ? invariant_(state.memory)
                                           : nullptr;
    if (wrong != nullptr) Fail(wrong, state.id);
    if (is_new) pending_.push_back(state);
  }

  void Fail(const std::string& what, StateId id) {
    std::vector<std::string> names;
    for (; id != 0; id = parents_[id].id) names.push_back(threads_[parents_[id].thread].name);
    outcome_.violation = what + " after";
    for (std::size_t i = names.size(); i-- > 0;) outcome_.violation += ' ' + names[i];
  }

  // Searches backwards from the endings: a state that is not reached can never end.
  void CheckEveryStateCanEnd() {
    std::vector<std::vector<StateId>> before(parents_.size());
    for (const auto& [from, to] : edges_) before[to].push_back(from);
    std::vector<bool> can_end(parents_.size());
    std::vector<StateId> queue = endings_;
    while (!queue.empty()) {
      const StateId id = queue.back();
      queue.pop_back();
      if (can_end[id]) continue;
      can_end[id] = true;
      queue.insert(queue.end(), before[id].begin(), before[id].end());
    }
    for (StateId id = 0; id < parents_.size(); ++id) {
      if (!can_end[id]) return Fail("no schedule ends", id);
    }
  }

  struct Hash {
    std::uint64_t low, high;
    bool operator==(const Hash&) const = default;
  };
  struct HashHasher {
    std::size_t operator()(const Hash& hash) const { return hash.low; }
  };

  static Hash HashOf(const State& state) {
    Hash hash{0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f};
    const auto mix = [&hash](std::uint64_t value) {
      hash.low = (hash.low ^ value) * 0xff51afd7ed558ccd;
      hash.low ^= hash.low >> 32;
      hash.high = (hash.high + value) * 0xc4ceb9fe1a85ec53;
      hash.high ^= hash.high >> 29;
    };
    for (const std::uint64_t word : state.memory) mix(word);
    for (std::size_t i = 0; i < state.logs.size(); ++i) {
      mix(state.returned[i] ? ~std::uint64_t{0} : state.logs[i].size());
      if (state.returned[i]) continue;  // the log of a returned thread no longer matters
      for (const std::uint64_t value : state.logs[i]) mix(value);
    }
    return hash;
  }

  static inline Explorer* current_ = nullptr;

  Memory initial_;
  std::vector<Thread> threads_;
  std::function<const char*(const Memory&)> invariant_;
  std::map<std::pair<std::size_t, std::uint64_t>, Log> checkpoints_;

  // The step under way.
  State* state_ = nullptr;
  std::size_t running_ = 0;
  std::size_t position_ = 0;
  unsigned choice_ = 0;
  bool stepped_ = false;
  Stepped result_ = Stepped::kYes;
  const char* broken_ = nullptr;

  Outcome outcome_;
  std::vector<State> pending_;
  std::unordered_map<Hash, StateId, HashHasher> seen_;
  std::vector<Parent> parents_;  // by id: how a state was first reached
  std::vector<std::pair<StateId, StateId>> edges_;
  std::vector<StateId> endings_;
};

/// Atomics with a step at every access. All memory orderings count as sequentially consistent.
struct ModelAtomics {
  /// Called at every access: (thread, word).
  static inline std::function<void(const Memory&, std::size_t, std::size_t)> on_access;

  template <typename T>
  class Atomic {
   public:
    /// Takes a word of the current explorer. Before Run().
    explicit Atomic(T value) : word_(Explorer::current().AddWord(Bits(value))) {}
    Atomic() : Atomic(T{}) {}
    Atomic(const Atomic&) = delete;
    Atomic& operator=(const Atomic&) = delete;

    std::size_t word() const { return word_; }

    T load(std::memory_order) const {
      return Step([](T now) { return now; });
    }
    void store(T value, std::memory_order) {
      Step([value](T) { return value; });
    }
    T fetch_add(T value, std::memory_order) {
      return Step([value](T now) { return static_cast<T>(now + value); });
    }
    T fetch_sub(T value, std::memory_order) {
      return Step([value](T now) { return static_cast<T>(now - value); });
    }
    T exchange(T value, std::memory_order) {
      return Step([value](T) { return value; });
    }
    bool compare_exchange_strong(T& expected, T value, std::memory_order) {
      const T before = Step([=](T now) { return now == expected ? value : now; });
      return std::exchange(expected, before) == before;
    }
    T fetch_and(T value, std::memory_order) {
      return Step([value](T now) { return static_cast<T>(now & value); });
    }
    T fetch_or(T value, std::memory_order) {
      return Step([value](T now) { return static_cast<T>(now | value); });
    }

    /// Ends only by a notification after the load that found `old`. If that notification is
    /// forgotten, the thread waits for ever.
    void wait(T old, std::memory_order) const {
      for (;;) {
        const std::uint64_t found = Explorer::Access(1, [&](Memory& memory, unsigned) {
          const bool changed = FromBits(memory[word_]) != old;
          return std::optional<std::uint64_t>(changed ? 0 : 1 + Notified(memory));
        });
        if (found == 0) return;
        Explorer::Await([&](const Memory& memory) { return 1 + Notified(memory) != found; });
      }
    }
    void notify_all() {
      static_assert(sizeof(T) <= 4);
      Explorer::Access(1, [&](Memory& memory, unsigned) {
        return std::optional<std::uint64_t>(memory[word_] += std::uint64_t{1} << 32);
      });
    }

   private:
    static std::uint64_t Bits(T value) {
      if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<std::uintptr_t>(value);
      } else {
        return static_cast<std::uint64_t>(value);
      }
    }
    static T FromBits(std::uint64_t bits) {
      if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<T>(static_cast<std::uintptr_t>(bits));
      } else {
        return static_cast<T>(bits);
      }
    }

    // The upper half of a word, which a type of at most 4 bytes leaves free, counts notifications.
    std::uint64_t Notified(const Memory& memory) const {
      return sizeof(T) <= 4 ? memory[word_] >> 32 : 0;
    }

    template <typename F>
    T Step(F next) const {
      return FromBits(Explorer::Access(1, [&](Memory& memory, unsigned) {
        if (on_access) on_access(memory, Explorer::thread(), word_);
        const T before = FromBits(memory[word_]);
        memory[word_] = Notified(memory) << 32 | Bits(next(before));
        return std::optional<std::uint64_t>(Bits(before));
      }));
    }
    std::size_t word_;
  };
};

// The words of the block protocol.
using ModelProgress = BasicProgress<ModelAtomics>;
using ModelGuard = BasicGuard<ModelAtomics>;
using ModelDep = BasicDep<ModelAtomics>;

}  // namespace lagoon::interleaving
