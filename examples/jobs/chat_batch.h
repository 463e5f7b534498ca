#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "chat_model.h"
#include "sched/programs/job_program.h"

namespace chat {

// The requests that decode together, and their caches. A request has a row from its prefill to its
// end. One coroutine at a time leads: it runs the model for all rows that want a token then.
// Tensors change only while no coroutine leads, or by the one that does.
//
// Readings of prompts and runs take turns: otherwise the scheduler would run what is shorter, the
// texts, and a prompt would be read when they have ended, instead of decoding with them.
class Batch {
 public:
  /// `own`: has the caches, which the model changes in place. Their memory is there for the tokens
  /// in use, by pages of the system. Null: they lie in host memory, and each run copies them.
  /// `room`: tokens that the requests with a row may need at most, all together.
  Batch(const Shape& shape, JobInstance* own, std::int64_t room)
      : shape_(shape),
        own_(own),
        room_(room),
        rows_(Size(shape.rows)),
        ids_(rows_.size()),
        positions_(rows_.size()),
        keys_(Size(shape.in_place ? shape.length : shape.length + 1)),
        mask_(rows_.size() * keys_),
        logits_(rows_.size() * Size(shape.vocabulary)) {
    if (own != nullptr) return;
    const std::size_t entry = rows_.size() * Size(shape.heads * shape.head_size);
    past_.resize(shape.caches, std::vector<float>(entry * Size(shape.length)));
    present_.resize(shape.caches, std::vector<float>(entry * keys_));
  }

  JobSignal changed;  // a row is free, a run has ended, or a coroutine may lead

  /// A free row for one request, given back in the destructor. Requests get theirs in the order in
  /// which they came.
  class Row {
   public:
    /// `tokens`: most that the request will have in its caches, at most the room for all.
    Row(Batch& batch, std::int64_t tokens) : batch_(batch), tokens_(tokens) {
      batch_.waiting_.push_back(this);
    }
    ~Row() {
      std::erase(batch_.waiting_, this);
      if (taken_) batch_.Leave(index_);
      batch_.changed.Notify();
    }
    Row(const Row&) = delete;
    Row& operator=(const Row&) = delete;
    /// Takes the row; returns false if there is none yet, or no room for the tokens.
    bool Take() {
      if (batch_.waiting_.front() != this || batch_.room_ < tokens_) return false;
      const auto row = std::ranges::find(batch_.rows_, false, &State::taken);
      if (row == batch_.rows_.end()) return false;
      taken_ = true;
      // A run may still be under way for the request that had the row before. What that run writes
      // lies behind the entries of this request, which begin at 0.
      *row = {.taken = true, .tokens = tokens_};
      batch_.room_ -= tokens_;
      index_ = static_cast<std::size_t>(row - batch_.rows_.begin());
      batch_.waiting_.pop_front();
      if (!batch_.waiting_.empty()) batch_.changed.Notify();  // the next one may have come before
      return true;
    }
    std::size_t index() const { return index_; }

   private:
    Batch& batch_;
    const std::int64_t tokens_;
    bool taken_ = false;
    std::size_t index_ = 0;
  };

  /// Leads until it is destroyed, also where its request ends in the middle of the run: another
  /// coroutine then leads, and runs the same tokens again.
  class Lead {
   public:
    explicit Lead(Batch& batch) : batch_(batch) { batch_.Begin(); }
    ~Lead() {
      batch_.led_ = false;
      batch_.changed.Notify();
    }
    Lead(const Lead&) = delete;
    Lead& operator=(const Lead&) = delete;

   private:
    Batch& batch_;
  };

  /// Reads a prompt, or a chunk of one, until it is destroyed. Only where MayRead().
  class Reading {
   public:
    explicit Reading(Batch& batch) : batch_(batch) { ++batch_.readings_; }
    ~Reading() {
      --batch_.readings_;
      batch_.runs_next_ = true;
      batch_.changed.Notify();
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    Batch& batch_;
  };

  bool led() const { return led_; }
  /// Whether a coroutine should lead now: no one does or reads, all rows of the last run have had
  /// their token, so that they can be in the next one, and no row waits to join.
  bool MayLead() const {
    return !led_ && readings_ == 0 && due_ == 0 && std::ranges::none_of(rows_, &State::joins);
  }
  /// Whether a coroutine may read now: rows that want a token have had a run since the last
  /// reading.
  bool MayRead() const { return !runs_next_ || std::ranges::none_of(rows_, &State::wants); }
  bool wants(std::size_t row) const { return rows_[row].wants; }
  /// Tokens in the row's cache.
  std::int64_t used(std::size_t row) const { return rows_[row].used; }

  /// The row joins as soon as no coroutine leads.
  void WantToJoin(std::size_t row) { rows_[row].joins = true; }
  /// Puts `used` tokens of a prompt's cache `i` into a row. Only by the coroutine that leads, which
  /// awaits job.All() after each cache. Job programs run where device memory is host memory, so
  /// that the cache may lie in either.
  void Join(JobContext& job, std::size_t row, std::size_t i, const void* cache, std::size_t used) {
    for (std::int64_t head = 0; head < shape_.heads; ++head) {
      const std::size_t at = shape_.HeadAt(head), bytes = shape_.TokenBytes() * used;
      const std::byte* const from = static_cast<const std::byte*>(cache) + at;
      if (own_ != nullptr) {
        job.CopyToDevice(RowOf(i, row) + at, from, bytes);
      } else {
        std::memcpy(RowOf(i, row) + at, from, bytes);
      }
    }
  }
  void Joined(std::size_t row, std::int64_t used) {
    rows_[row].used = used;
    rows_[row].joins = false;
  }
  void Want(std::size_t row, std::int64_t token) {
    rows_[row].wants = true;
    rows_[row].token = token;
  }
  /// The row has had its token: the next run need not wait for it.
  void HadToken(std::size_t row) {
    if (!std::exchange(rows_[row].due, false)) return;
    if (--due_ == 0) changed.Notify();
  }
  std::span<const float> logits(std::size_t row) const {
    return std::span(logits_).subspan(row * Size(shape_.vocabulary), Size(shape_.vocabulary));
  }

  std::vector<const void*> Inputs() const {
    std::vector<const void*> inputs{ids_.data(), mask_.data()};
    if (shape_.positions) inputs.push_back(positions_.data());
    for (const std::vector<float>& cache : past_) inputs.push_back(cache.data());
    if (own_ != nullptr) inputs.resize(inputs.size() + shape_.caches);
    return inputs;
  }
  std::vector<void*> Outputs() {
    std::vector<void*> outputs{logits_.data()};
    for (std::vector<float>& cache : present_) outputs.push_back(cache.data());
    outputs.resize(1 + shape_.caches);
    return outputs;
  }
  /// The run has ended: the entries of its tokens are added to the caches.
  void End() {
    runs_next_ = false;
    if (shape_.in_place) past_.swap(present_);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      State& state = rows_[row];
      if (!state.taken && state.used > 0) Clear(row);
      if (!state.runs || !state.taken) continue;
      if (!shape_.in_place) Keep(row);
      ++state.used;
      state.runs = state.wants = false;
      state.due = true;
      ++due_;
    }
  }

 private:
  struct State {
    bool taken = false;
    std::int64_t tokens = 0;  // that the request needs at most
    bool joins = false;       // waits to join
    bool wants = false;       // the token after `token`
    bool runs = false;        // is in the present run
    bool due = false;         // was in the last run and has not had its token
    std::int64_t token = 0;
    std::int64_t used = 0;  // of a row that is not taken: left to clear
  };

  // The run is for the rows that want a token now. The other rows are computed too, and their
  // tokens are not read; what is written into their caches lies behind the entries in use.
  void Begin() {
    led_ = true;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      State& state = rows_[row];
      state.runs = state.wants;
      ids_[row] = state.runs ? state.token : 0;
      positions_[row] = state.runs ? state.used : 0;
      const auto mask = std::span(mask_).subspan(row * keys_, keys_);
      std::ranges::fill(mask, 0);
      if (shape_.in_place) {
        std::fill_n(mask.begin(), std::min(state.used + 1, shape_.length), 1);
      } else {
        std::fill_n(mask.begin(), state.runs ? state.used : 0, 1);
        mask.back() = 1;
      }
    }
  }
  void Keep(std::size_t row) {
    const std::size_t size = Size(shape_.head_size), length = Size(shape_.length);
    const std::size_t heads = Size(shape_.heads), used = Size(rows_[row].used);
    for (std::size_t i = 0; i < past_.size(); ++i) {
      for (std::size_t head = row * heads; head < (row + 1) * heads; ++head) {
        const float* from = &present_[i][(head * (length + 1) + length) * size];
        std::copy_n(from, size, &past_[i][(head * length + used) * size]);
      }
    }
  }
  void Leave(std::size_t row) {
    HadToken(row);
    room_ += rows_[row].tokens;
    rows_[row] = {.used = std::max<std::int64_t>(rows_[row].used, 1)};
    if (!led_) Clear(row);
  }
  // What the row used takes no memory any more. If a run is under way, End() clears the row.
  void Clear(std::size_t row) {
    const std::size_t bytes = shape_.CacheBytes();
    bool cleared = true;
    for (std::size_t i = 0; own_ != nullptr && i < shape_.caches; ++i) {
      cleared = own_->Clear(shape_.first_cache + i, row * bytes, bytes) && cleared;
    }
    if (cleared) rows_[row].used = 0;
  }
  std::byte* RowOf(std::size_t cache, std::size_t row) {
    std::byte* const caches = own_ != nullptr ? own_->input(shape_.first_cache + cache)
                                              : reinterpret_cast<std::byte*>(past_[cache].data());
    return caches + row * shape_.CacheBytes();
  }

  const Shape shape_;
  JobInstance* const own_;
  std::int64_t room_;  // tokens that further requests may need
  std::deque<const Row*> waiting_;
  std::vector<State> rows_;
  bool led_ = false;
  std::size_t due_ = 0;  // rows that are due
  int readings_ = 0;
  bool runs_next_ = false;  // a reading has ended since the last run
  std::vector<std::int64_t> ids_, positions_;
  const std::size_t keys_;  // of a row in the mask
  std::vector<std::int64_t> mask_;
  std::vector<float> logits_;
  std::vector<std::vector<float>> past_, present_;  // empty with `own_`
};

}  // namespace chat
