#pragma once

// How prompts get into caches before their tokens are decoded.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "chat_batch.h"
#include "chat_model.h"
#include "sched/programs/job_program.h"

namespace chat {

/// A prompt that models read. A coroutine awaits what Step() returns until that is nothing. Then
/// the caches and logits may be used until the prompt is destroyed.
class Prompt {
 public:
  Prompt() = default;
  virtual ~Prompt() = default;
  Prompt(const Prompt&) = delete;
  Prompt& operator=(const Prompt&) = delete;

  virtual std::optional<JobWait> Step(JobContext& job) = 0;
  /// Tokens that are read: the others, if any, are for `decode`.
  virtual std::size_t read() const = 0;
  /// The logits of the last token that is read.
  virtual std::span<const float> logits() const = 0;
  /// Cache `i` [1,h,n,d].
  virtual const void* cache(std::size_t i) const = 0;
};

/// By one run of a model for whole prompts.
class WholePrompt final : public Prompt {
 public:
  WholePrompt(const JobModel& model, const Shape& shape, Batch& batch,
              std::span<const std::int64_t> tokens)
      : model_(model),
        batch_(batch),
        ids_(Size(shape.length)),
        mask_(Size(shape.length)),
        logits_(Size(shape.length * shape.vocabulary)),
        caches_(shape.caches,
                std::vector<float>(Size(shape.heads * shape.length * shape.head_size))),
        read_(tokens.size()),
        vocabulary_(Size(shape.vocabulary)) {
    std::ranges::copy(tokens, ids_.begin());
    std::fill_n(mask_.begin(), read_, 1);
  }
  std::optional<JobWait> Step(JobContext& job) override {
    if (reading_) {
      reading_.reset();
      return std::nullopt;
    }
    if (!batch_.MayRead()) return job.Wait(batch_.changed);
    reading_.emplace(batch_);
    std::vector<void*> outputs{logits_.data()};
    for (std::vector<float>& cache : caches_) outputs.push_back(cache.data());
    return job.Run(model_, std::vector<const void*>{ids_.data(), mask_.data()}, outputs);
  }
  std::size_t read() const override { return read_; }
  std::span<const float> logits() const override {
    return std::span(logits_).subspan((read_ - 1) * vocabulary_, vocabulary_);
  }
  const void* cache(std::size_t i) const override { return caches_[i].data(); }

 private:
  const JobModel& model_;
  Batch& batch_;
  std::vector<std::int64_t> ids_, mask_;
  std::vector<float> logits_;
  std::vector<std::vector<float>> caches_;
  const std::size_t read_, vocabulary_;
  std::optional<Batch::Reading> reading_;  // while the model runs
};

class ChunkedPrompt;

/// Reads prompts in chunks of `ChunkModel::tokens`, by one instance: a chunk at a time, so that
/// texts get tokens between two chunks. The instance has the caches of one prompt, the holder;
/// another prompt whose turn comes first moves them to host memory.
class ChunkReader {
 public:
  /// So many chunks of others may pass a prompt that waits.
  static constexpr int kMostPassed = 16;

  ChunkReader(const ChunkModel& chunk, const Shape& shape, JobInstance& own, Nanoseconds decode,
              Batch& batch)
      : chunk_(chunk),
        shape_(shape),
        own_(own),
        decode_(decode),
        batch_(batch),
        ids_(Size(chunk.tokens)),
        positions_(Size(chunk.tokens)),
        mask_(Size(shape.length)),
        logits_(Size((chunk.all_logits ? chunk.tokens : 1) * shape.vocabulary)) {}

  /// How many tokens of a prompt chunks read; the rest is for `decode`, where that takes less time.
  std::size_t Reads(std::size_t length) const {
    const std::size_t tokens = Size(chunk_.tokens), rest = length % tokens;
    if (length < tokens && !chunk_.all_logits) return 0;
    const bool decodes = decode_ * static_cast<std::int64_t>(rest) < chunk_.model->standalone;
    return decodes ? length - rest : length;
  }

 private:
  friend class ChunkedPrompt;

  // The prompt for the next chunk: with the fewest tokens left; before it one that others have
  // passed too often. Of equals the one that came first.
  inline const ChunkedPrompt* Next() const;

  std::size_t first_cache() const { return chunk_.model->inputs.size() - shape_.caches; }
  std::byte* cache(std::size_t i) const { return own_.input(first_cache() + i); }
  // The caches take no memory until the next chunk. Nothing happens if a chunk is under way.
  void Clear() {
    for (std::size_t i = 0; i < shape_.caches; ++i) {
      own_.Clear(first_cache() + i, 0, shape_.CacheBytes());
    }
  }
  // Runs `ids` behind `begin` tokens in the caches.
  JobWait Run(JobContext& job, std::span<const std::int64_t> ids, std::size_t begin, bool last) {
    std::ranges::fill(std::copy(ids.begin(), ids.end(), ids_.begin()), ids_.end(), 0);
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      positions_[i] = static_cast<std::int64_t>(begin + i);
    }
    std::ranges::fill(mask_, 0);
    std::fill_n(mask_.begin(), begin + ids_.size(), 1);
    std::vector<const void*> inputs{ids_.data(), mask_.data()};
    if (chunk_.positions) inputs.push_back(positions_.data());
    inputs.resize(inputs.size() + shape_.caches);  // null: they lie in the instance
    std::vector<void*> outputs(1 + shape_.caches);
    if (last) outputs[0] = logits_.data();
    return job.Run(own_, inputs, outputs);
  }

  const ChunkModel chunk_;
  const Shape shape_;
  JobInstance& own_;
  const Nanoseconds decode_;             // of a run of `decode`, alone
  Batch& batch_;                         // its signal also tells that the next one may begin
  std::vector<ChunkedPrompt*> prompts_;  // that wait or are read, in the order of their arrival
  const ChunkedPrompt* busy_ = nullptr;  // null: the next one may begin
  ChunkedPrompt* holder_ = nullptr;      // null: what lies in the caches is not needed
  std::vector<std::int64_t> ids_, positions_, mask_;
  std::vector<float> logits_;
};

/// A prompt of a ChunkReader. After its last chunk it keeps the reader until it is destroyed.
class ChunkedPrompt final : public Prompt {
 public:
  ChunkedPrompt(ChunkReader& reader, std::span<const std::int64_t> tokens)
      : reader_(reader), tokens_(tokens.first(reader.Reads(tokens.size()))) {
    if (!tokens_.empty()) reader.prompts_.push_back(this);
  }
  ~ChunkedPrompt() override {
    std::erase(reader_.prompts_, this);
    if (reader_.busy_ == this) reader_.busy_ = nullptr;
    if (reader_.holder_ == this) {
      reader_.holder_ = nullptr;
      if (reader_.busy_ == nullptr)
        reader_.Clear();  // else `busy_` is another, which parks this one
    }
    reader_.batch_.changed.Notify();
  }
  ChunkedPrompt(const ChunkedPrompt&) = delete;
  ChunkedPrompt& operator=(const ChunkedPrompt&) = delete;

  std::optional<JobWait> Step(JobContext& job) override {
    if (state_ == State::kRuns) EndChunk();
    if (used_ == tokens_.size()) return std::nullopt;
    if (state_ == State::kWaits) {
      const bool begins = reader_.busy_ == nullptr && reader_.Next() == this;
      if (!begins || !reader_.batch_.MayRead()) return job.Wait(reader_.batch_.changed);
      Begin();
      if (reader_.holder_ != nullptr && reader_.holder_ != this) StartToPark(*reader_.holder_);
    }
    if (state_ == State::kParks) {
      if (moved_ < parks_->size()) return ParkCache(job);
      reader_.holder_ = nullptr;
      reader_.Clear();
      parks_.reset();
    }
    if (state_ != State::kLoads && reader_.holder_ != this && used_ > 0) {
      state_ = State::kLoads;
      moved_ = 0;
    }
    if (state_ == State::kLoads) {
      if (moved_ < parked_->size()) return LoadCache(job);
      parked_.reset();
    }
    reader_.holder_ = this;
    return RunChunk(job);
  }
  std::size_t read() const override { return tokens_.size(); }
  std::span<const float> logits() const override {
    const std::size_t row = reader_.chunk_.all_logits ? used_ - 1 - begin_ : 0;
    const std::size_t vocabulary = Size(reader_.shape_.vocabulary);
    return std::span(reader_.logits_).subspan(row * vocabulary, vocabulary);
  }
  const void* cache(std::size_t i) const override { return reader_.cache(i); }

 private:
  friend class ChunkReader;
  enum class State : std::uint8_t { kWaits, kParks, kLoads, kRuns };
  using Caches = std::vector<std::vector<std::byte>>;

  std::size_t left() const { return tokens_.size() - used_; }

  void Begin() {
    reader_.busy_ = this;
    reading_.emplace(reader_.batch_);
    for (ChunkedPrompt* const other : reader_.prompts_) ++other->passed_;
    passed_ = 0;
  }
  // The holder may be destroyed meanwhile: its memory is then this prompt's until the copies end.
  void StartToPark(ChunkedPrompt& holder) {
    state_ = State::kParks;
    moved_ = 0;
    const Shape& shape = reader_.shape_;
    parks_ = holder.parked_ = std::make_shared<Caches>(
        shape.caches,
        std::vector<std::byte>(Size(shape.heads) * shape.TokenBytes() * holder.used_));
  }
  JobWait ParkCache(JobContext& job) {
    const auto copy = [&job](std::byte* parked, std::byte* head, std::size_t bytes) {
      job.CopyToHost(parked, head, bytes);
    };
    return Move(job, *parks_, copy);
  }
  JobWait LoadCache(JobContext& job) {
    const auto copy = [&job](std::byte* parked, std::byte* head, std::size_t bytes) {
      job.CopyToDevice(head, parked, bytes);
    };
    return Move(job, *parked_, copy);
  }
  // Moves the next cache: the tokens in use of each head.
  template <typename CopyHead>
  JobWait Move(JobContext& job, Caches& parked, const CopyHead& copy) {
    std::vector<std::byte>& to = parked[moved_];
    const std::int64_t heads = reader_.shape_.heads;
    const std::size_t bytes = to.size() / Size(heads);
    for (std::int64_t head = 0; head < heads; ++head) {
      copy(to.data() + Size(head) * bytes, reader_.cache(moved_) + reader_.shape_.HeadAt(head),
           bytes);
    }
    ++moved_;
    return job.All();
  }
  // A last chunk that is not full begins earlier, and computes some tokens once more; the only
  // chunk of a short prompt is filled up behind it.
  JobWait RunChunk(JobContext& job) {
    state_ = State::kRuns;
    const std::size_t size = reader_.ids_.size();
    begin_ = left() >= size ? used_ : tokens_.size() - std::min(size, tokens_.size());
    end_ = std::min(begin_ + size, tokens_.size());
    return reader_.Run(job, tokens_.subspan(begin_, end_ - begin_), begin_, end_ == tokens_.size());
  }
  void EndChunk() {
    used_ = end_;
    reading_.reset();  // which notifies the prompts that wait, too
    if (used_ == tokens_.size()) return;
    state_ = State::kWaits;
    reader_.busy_ = nullptr;
  }

  ChunkReader& reader_;
  const std::span<const std::int64_t> tokens_;
  State state_ = State::kWaits;
  std::size_t used_ = 0;                   // tokens whose entries are in the caches
  std::size_t begin_ = 0, end_ = 0;        // of the present or last chunk
  std::size_t moved_ = 0;                  // caches, where a prompt is parked or loaded
  int passed_ = 0;                         // chunks of others since the last one of this prompt
  std::optional<Batch::Reading> reading_;  // from Begin() to EndChunk()
  std::shared_ptr<Caches> parked_;         // the caches, where another prompt is the holder
  std::shared_ptr<Caches> parks_;          // another prompt's, while this one moves them
};

inline const ChunkedPrompt* ChunkReader::Next() const {
  const ChunkedPrompt* next = nullptr;
  for (const ChunkedPrompt* const prompt : prompts_) {
    if (prompt->passed_ >= kMostPassed) return prompt;
    if (next == nullptr || prompt->left() < next->left()) next = prompt;
  }
  return next;
}

}  // namespace chat
