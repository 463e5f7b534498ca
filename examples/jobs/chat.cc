// Generates text and sends each token as an answer of its own (a decoupled model). Requests decode
// together: one run of the model `decode` takes a token of each of them, and a request joins or
// leaves between two runs (continuous batching).
//
//   input "prompt" INT64 [n]        token ids; only the first "length" count
//   input "length" INT64 [1]        1 to n
//   input "max_tokens" INT64 [1]    at least 1
//   input "sampling" FP32 [2]       temperature (0: the most probable token) and top_p
//   input "seed" INT64 [1]
//   input "stop" INT64 [m]          the text ends after one of these tokens; -1: none
//   output "token" INT64 [1]
//
// The text also ends when the cache is full. The model in the role `decode` is a decoder with fixed
// shapes (chat_model.h); the first dim of its inputs is the number of requests that decode
// together.
//
// Caches take memory for the tokens in use. The parameter `job.cache_tokens` limits those of all
// requests together; a request waits, in the order of arrival, until its prompt and its
// `max_tokens` fit.
//
// The model in the role `prefill` reads prompts, whole or in chunks (chat_prompt.h). Without it
// prompts go through `decode` too, token by token. Readings and runs of `decode` take turns, so
// that chunks bound the time for which texts wait for a prompt of their class. Models for chunks of
// other sizes may have the roles `prefill_2` and `prefill_3`: the program takes the largest chunk
// whose measured time is at most the parameter `job.chunk_ms` (100), otherwise the smallest.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "chat_batch.h"
#include "chat_model.h"
#include "chat_prompt.h"
#include "chat_sampler.h"
#include "sched/programs/job_program.h"

namespace chat {
namespace {

using lagoon::JobTask;

constexpr const char* kPrefillRoles[] = {"prefill", "prefill_2", "prefill_3"};
constexpr int kChunkMs = 100;

// The largest chunk that takes at most `most`, otherwise the smallest. A time of 0 is not known.
const ChunkModel& ChooseChunk(const std::vector<ChunkModel>& chunks, Nanoseconds most) {
  const ChunkModel* chosen = &*std::ranges::min_element(chunks, {}, &ChunkModel::tokens);
  for (const ChunkModel& chunk : chunks) {
    const Nanoseconds time = chunk.model->standalone;
    const bool fits = time > Nanoseconds(0) && time <= most;
    if (fits && chunk.tokens > chosen->tokens) chosen = &chunk;
  }
  return *chosen;
}

class Chat final : public lagoon::JobProgram {
 public:
  Status Init(lagoon::JobSetup& setup) override {
    LAGOON_ASSIGN_OR_RETURN(decode_, setup.FindModel("decode"));
    LAGOON_ASSIGN_OR_RETURN(shape_, CheckDecode(*decode_));
    if (shape_.in_place && ReplacesCaches(*decode_, shape_.caches)) {
      LAGOON_ASSIGN_OR_RETURN(own_, setup.MakeInstance(*decode_));
    }
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t all, CacheTokens(setup));
    room_ = std::min(shape_.length, all);
    batch_ = std::make_unique<Batch>(shape_, own_, all);
    return FindPrefill(setup);
  }

  JobTask Run(JobContext& job) override {
    if (Status valid = Check(job); !valid) co_return valid;
    const std::int64_t length = job.Input<std::int64_t>(1)[0];
    const std::int64_t most = job.Input<std::int64_t>(2)[0];
    const auto sampling = job.Input<float>(3);
    const auto stop = job.Input<std::int64_t>(5);
    Sampler sampler(sampling[0], sampling[1], job.Input<std::int64_t>(4)[0]);

    const std::int64_t limit = most < room_ - length ? length + most : room_;
    Batch::Row row(*batch_, limit);
    while (!row.Take()) co_await job.Wait(batch_->changed);
    const auto tokens = job.Input<std::int64_t>(0).first(Size(length));
    std::size_t next = 0;  // the first token of the prompt that `decode` takes
    std::int64_t token = tokens[0];
    if (const auto prompt = MakePrompt(tokens); prompt != nullptr && prompt->read() > 0) {
      while (const auto wait = prompt->Step(job)) co_await *wait;
      next = prompt->read();
      if (next == tokens.size()) token = sampler.Choose(prompt->logits());
      batch_->WantToJoin(row.index());
      while (batch_->led()) co_await job.Wait(batch_->changed);
      const Batch::Lead lead(*batch_);
      for (std::size_t i = 0; i < shape_.caches; ++i) {
        batch_->Join(job, row.index(), i, prompt->cache(i), next);
        co_await job.All();
      }
      batch_->Joined(row.index(), static_cast<std::int64_t>(next));
    }
    for (std::int64_t made = 0;;) {
      if (next == tokens.size()) {  // `token` is new
        if (token < 0) co_return Fail(ErrorCode::kInternal, "the model's logits are no numbers");
        job.Output<std::int64_t>(0)[0] = token;
        co_await job.Send();
        const bool stops = std::ranges::find(stop, token) != stop.end();
        if (stops || ++made == most || batch_->used(row.index()) == limit) break;
      } else {
        token = tokens[next++];
      }
      batch_->Want(row.index(), token);
      while (batch_->wants(row.index())) {
        if (!batch_->MayLead()) {
          co_await job.Wait(batch_->changed);
          continue;
        }
        const Batch::Lead lead(*batch_);
        const std::vector<const void*> inputs = batch_->Inputs();
        const std::vector<void*> outputs = batch_->Outputs();
        // Not one co_await of a conditional expression: gcc 12 then runs both sides.
        if (own_ != nullptr) {
          co_await job.Run(*own_, inputs, outputs);
        } else {
          co_await job.Run(*decode_, inputs, outputs);
        }
        batch_->End();
      }
      if (next == tokens.size()) token = sampler.Choose(batch_->logits(row.index()));
      batch_->HadToken(row.index());
    }
    co_return Status();
  }

 private:
  Status FindPrefill(JobSetup& setup) {
    std::vector<ChunkModel> chunks;
    for (const char* const role : kPrefillRoles) {
      const auto found = setup.FindModel(role);
      if (!found) continue;
      if ((*found)->inputs.size() == 2) {
        whole_ = *found;
        LAGOON_RETURN_IF_ERROR(CheckWhole(role, *whole_, shape_));
      } else {
        LAGOON_ASSIGN_OR_RETURN(chunks.emplace_back(), CheckChunk(role, **found, shape_));
      }
    }
    if (whole_ != nullptr && !chunks.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "models for prompts are given for whole ones and for chunks: give one kind");
    }
    LAGOON_ASSIGN_OR_RETURN(const Nanoseconds most, ChunkTime(setup));
    if (chunks.empty()) return {};
    const ChunkModel& chunk = ChooseChunk(chunks, most);
    LAGOON_ASSIGN_OR_RETURN(JobInstance* const own, setup.MakeInstance(*chunk.model));
    reader_ = std::make_unique<ChunkReader>(chunk, shape_, *own, decode_->standalone, *batch_);
    return {};
  }

  static Result<Nanoseconds> ChunkTime(const JobSetup& setup) {
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t ms, Number(setup, "chunk_ms", kChunkMs, 60'000));
    return Nanoseconds(std::chrono::milliseconds(ms));
  }
  // Tokens that the caches of all requests may have, together.
  Result<std::int64_t> CacheTokens(const JobSetup& setup) const {
    const std::int64_t most = shape_.rows * shape_.length;
    return Number(setup, "cache_tokens", most, most);
  }
  static Result<std::int64_t> Number(const JobSetup& setup, const std::string& name,
                                     std::int64_t otherwise, std::int64_t most) {
    const std::string word = setup.Parameter(name).value_or(std::to_string(otherwise));
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc() && end == word.data() + word.size() && number >= 1 && number <= most) {
      return number;
    }
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("parameter 'job.{}' is '{}', it takes 1 to {}", name, word, most));
  }

  std::unique_ptr<Prompt> MakePrompt(std::span<const std::int64_t> tokens) const {
    if (whole_ != nullptr) return std::make_unique<WholePrompt>(*whole_, shape_, *batch_, tokens);
    if (reader_ != nullptr) return std::make_unique<ChunkedPrompt>(*reader_, tokens);
    return nullptr;
  }

  Status Check(const JobContext& job) const {
    const auto refuse = [](std::string message) -> Status {
      return Fail(ErrorCode::kInvalidArgument, std::move(message));
    };
    const auto prompt = job.Input<std::int64_t>(0);
    const std::int64_t length = job.Input<std::int64_t>(1)[0];
    const std::int64_t most = std::min(room_, static_cast<std::int64_t>(prompt.size()));
    if (length < 1 || length > most) {
      return refuse(fmt::format("the prompt has {} tokens, the model takes 1 to {}", length, most));
    }
    const auto known = [&](std::int64_t id) { return id >= 0 && id < shape_.vocabulary; };
    const auto tokens = prompt.first(Size(length));
    if (const auto bad = std::ranges::find_if_not(tokens, known); bad != tokens.end()) {
      return refuse(fmt::format("prompt has token {}, the vocabulary {}", *bad, shape_.vocabulary));
    }
    if (job.Input<std::int64_t>(2)[0] < 1) return refuse("max_tokens is below 1");
    const auto sampling = job.Input<float>(3);
    if (!(sampling[0] >= 0 && sampling[0] <= 100) || !(sampling[1] > 0 && sampling[1] <= 1)) {
      return refuse(
          fmt::format("temperature is {} and top_p {}; they take 0 to 100, and above 0 "
                      "to 1",
                      sampling[0], sampling[1]));
    }
    return {};
  }

  const JobModel* decode_ = nullptr;
  const JobModel* whole_ = nullptr;  // reads whole prompts
  JobInstance* own_ = nullptr;       // of `decode_`, where that writes its caches in place
  Shape shape_;
  std::int64_t room_ = 0;  // tokens that one request may have
  std::unique_ptr<Batch> batch_;
  std::unique_ptr<ChunkReader> reader_;
};

}  // namespace
}  // namespace chat

LAGOON_JOB_PROGRAM(chat::Chat)
