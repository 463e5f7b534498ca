#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "chat_model.h"
#include "sched/programs/job_program.h"

namespace chat {

// The requests that decode together, and their caches. A request has a row from its prefill to its
// end. One coroutine at a time leads: it runs the model for all rows that want a token then.
// Tensors change only while no coroutine leads, or by the one that does.
class Batch {
 public:
  /// `own`: has the caches, which the model changes in place. Null: they lie in host memory, and
  /// each run copies them.
  Batch(const Shape& shape, JobInstance* own)
      : shape_(shape),
        own_(own),
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

  /// A free row for one request, given back in the destructor.
  class Row {
   public:
    Row() = default;
    ~Row() {
      if (batch_ != nullptr) batch_->Leave(index_);
    }
    Row(const Row&) = delete;
    Row& operator=(const Row&) = delete;
    /// Takes a free row; returns false if there is none.
    bool Take(Batch& batch) {
      for (index_ = 0; index_ < batch.rows_.size(); ++index_) {
        if (batch.rows_[index_].taken) continue;
        batch.rows_[index_] = {.taken = true};
        batch_ = &batch;
        return true;
      }
      return false;
    }
    std::size_t index() const { return index_; }

   private:
    Batch* batch_ = nullptr;
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

  bool led() const { return led_; }
  /// Whether a coroutine should lead now: no one does, all rows of the last run have had their
  /// token, so that they can be in the next one, and no row waits to join.
  bool MayLead() const { return !led_ && due_ == 0 && std::ranges::none_of(rows_, &State::joins); }
  bool wants(std::size_t row) const { return rows_[row].wants; }
  /// Tokens in the row's cache.
  std::int64_t used(std::size_t row) const { return rows_[row].used; }

  /// The row joins as soon as no coroutine leads.
  void WantToJoin(std::size_t row) { rows_[row].joins = true; }
  /// Puts a prompt's caches into a row. Only by the coroutine that leads, which then awaits
  /// job.All(). Job programs run where device memory is host memory, so that the caches may lie in
  /// either.
  void Join(JobContext& job, std::size_t row, std::span<const void* const> caches) {
    const std::size_t floats = Size(shape_.heads * shape_.length * shape_.head_size);
    const std::size_t bytes = floats * sizeof(float);
    for (std::size_t i = 0; i < caches.size(); ++i) {
      if (own_ != nullptr) {
        job.CopyToDevice(own_->input(shape_.first_cache + i) + row * bytes, caches[i], bytes);
      } else {
        std::memcpy(past_[i].data() + row * floats, caches[i], bytes);
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
    if (shape_.in_place) past_.swap(present_);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      State& state = rows_[row];
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
    bool joins = false;  // waits to join
    bool wants = false;  // the token after `token`
    bool runs = false;   // is in the present run
    bool due = false;    // was in the last run and has not had its token
    std::int64_t token = 0;
    std::int64_t used = 0;
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
    rows_[row] = {};
    changed.Notify();
  }

  const Shape shape_;
  JobInstance* const own_;
  std::vector<State> rows_;
  bool led_ = false;
  std::size_t due_ = 0;  // rows that are due
  std::vector<std::int64_t> ids_, positions_;
  const std::size_t keys_;  // of a row in the mask
  std::vector<std::int64_t> mask_;
  std::vector<float> logits_;
  std::vector<std::vector<float>> past_, present_;  // empty with `own_`
};

}  // namespace chat
