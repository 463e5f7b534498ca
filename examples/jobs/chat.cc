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
// shapes (see CheckDecode); the first dim of its inputs is the number of requests that decode
// together. Without a model in the role `prefill`, prompts go through `decode` too, token by token.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "sched/programs/job_program.h"

namespace {

using lagoon::Dims;
using lagoon::ErrorCode;
using lagoon::Fail;
using lagoon::JobContext;
using lagoon::JobInstance;
using lagoon::JobModel;
using lagoon::JobSignal;
using lagoon::JobTask;
using lagoon::Result;
using lagoon::Status;

struct Shape {
  std::int64_t rows = 0;    // requests that decode together
  std::int64_t length = 0;  // length of the cache, in tokens
  std::int64_t vocabulary = 0;
  std::int64_t heads = 0, head_size = 0;
  std::size_t caches = 0;  // keys and values of all layers
  bool in_place = false;   // the model puts the new entry into the cache, behind those in use
};

std::size_t Size(std::int64_t number) { return static_cast<std::size_t>(number); }

Status Expect(const lagoon::TensorSpec& tensor, const Dims& dims, lagoon::DataType type) {
  if (tensor.dims == dims && tensor.type == type) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("tensor '{}' is {}, expected {} of type {}", tensor.name, tensor.dims,
                          dims, type == lagoon::DataType::kInt64 ? "INT64" : "FP32"));
}

// Checks the model's inputs and outputs. With the new token's entry last, as GPT-2's exports:
//
// input_ids [b,1], attention_mask [b,n+1], position_ids [b,1], caches [b,h,n,d]
//     -> logits [b,1,v], then caches [b,h,n+1,d]
//
// or with GroupQueryAttention, whose past is a buffer:
//
// input_ids [b,1], attention_mask [b,n], caches [b,h,n,d] -> logits [b,1,v], then caches [b,h,n,d]
Result<Shape> CheckDecode(const JobModel& model) {
  using enum lagoon::DataType;
  const std::size_t caches = model.outputs.size() - 1, inputs = model.inputs.size();
  const bool in_place = inputs == caches + 2;
  if (model.outputs.size() < 3 || (!in_place && inputs != caches + 3) ||
      model.inputs[0].dims.size() != 2 || model.inputs.back().dims.size() != 4 ||
      model.outputs[0].dims.size() != 3) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'decode' has {} inputs and {} outputs: no decoder with caches", inputs,
                            model.outputs.size()));
  }
  const Dims cache = model.inputs.back().dims;
  const Shape shape{model.inputs[0].dims[0],
                    cache[2],
                    model.outputs[0].dims[2],
                    cache[1],
                    cache[3],
                    caches,
                    in_place};
  const std::int64_t b = shape.rows, keys = in_place ? shape.length : shape.length + 1;
  LAGOON_RETURN_IF_ERROR(Expect(model.inputs[0], {b, 1}, kInt64));
  LAGOON_RETURN_IF_ERROR(Expect(model.inputs[1], {b, keys}, kInt64));
  if (!in_place) LAGOON_RETURN_IF_ERROR(Expect(model.inputs[2], {b, 1}, kInt64));
  LAGOON_RETURN_IF_ERROR(Expect(model.outputs[0], {b, 1, shape.vocabulary}, kFloat32));
  for (std::size_t i = 0; i < caches; ++i) {
    LAGOON_RETURN_IF_ERROR(Expect(model.inputs[inputs - caches + i],
                                  {b, shape.heads, shape.length, shape.head_size}, kFloat32));
    LAGOON_RETURN_IF_ERROR(
        Expect(model.outputs[1 + i], {b, shape.heads, keys, shape.head_size}, kFloat32));
  }
  return shape;
}

// input_ids, attention_mask [1,n] -> logits [1,n,v], then caches [1,h,n,d]
Status CheckPrefill(const JobModel& model, const Shape& shape) {
  using enum lagoon::DataType;
  if (model.inputs.size() != 2 || model.outputs.size() != shape.caches + 1) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'prefill' has {} inputs and {} outputs, expected 2 and {}",
                            model.inputs.size(), model.outputs.size(), shape.caches + 1));
  }
  const std::int64_t n = shape.length;
  for (const auto& input : model.inputs) LAGOON_RETURN_IF_ERROR(Expect(input, {1, n}, kInt64));
  LAGOON_RETURN_IF_ERROR(Expect(model.outputs[0], {1, n, shape.vocabulary}, kFloat32));
  for (std::size_t i = 0; i < shape.caches; ++i) {
    LAGOON_RETURN_IF_ERROR(
        Expect(model.outputs[1 + i], {1, shape.heads, n, shape.head_size}, kFloat32));
  }
  return {};
}

// How a request chooses its tokens.
class Sampler {
 public:
  Sampler(float temperature, float top_p, std::int64_t seed)
      : temperature_(temperature), top_p_(top_p), random_(static_cast<std::uint64_t>(seed)) {}

  /// The next token; -1: the logits are no numbers.
  std::int64_t Choose(std::span<const float> logits) {
    const auto best = std::ranges::max_element(logits);
    if (!std::isfinite(*best)) return -1;
    if (temperature_ <= 0) return best - logits.begin();
    candidates_.clear();
    double sum = 0;
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const double weight = std::exp((static_cast<double>(logits[id]) - *best) / temperature_);
      sum += weight;
      candidates_.emplace_back(weight, static_cast<std::int64_t>(id));
    }
    if (!std::isfinite(sum)) return -1;
    return Draw(sum);
  }

 private:
  // One of the most probable candidates, which have top_p of the sum together.
  std::int64_t Draw(double sum) {
    double room = sum;
    std::size_t kept = candidates_.size();
    if (top_p_ < 1) {
      // Equal weights: the lower id goes first, so that a seed gives the same text everywhere.
      const auto less = [](const auto& a, const auto& b) {
        return a.first < b.first || (a.first == b.first && a.second > b.second);
      };
      std::ranges::make_heap(candidates_, less);
      room = 0;
      for (kept = 0; kept == 0 || (room < top_p_ * sum && kept < candidates_.size()); ++kept) {
        std::pop_heap(candidates_.begin(), candidates_.end() - static_cast<std::ptrdiff_t>(kept),
                      less);
        room += candidates_[candidates_.size() - 1 - kept].first;
      }
    }
    double left = room * static_cast<double>(random_() >> 11) * 0x1p-53;
    const std::size_t first = candidates_.size() - kept;
    for (std::size_t i = candidates_.size() - 1; i > first; --i) {
      left -= candidates_[i].first;
      if (left < 0) return candidates_[i].second;
    }
    return candidates_[first].second;
  }

  const double temperature_, top_p_;
  std::mt19937_64 random_;
  std::vector<std::pair<double, std::int64_t>> candidates_;
};

// The requests that decode together, and their caches. A request has a row from its prefill to its
// end. One coroutine at a time leads: it runs the model for all rows that want a token then.
// Tensors change only while no coroutine leads, or by the one that does.
class Batch {
 public:
  static constexpr std::size_t kFirstCache = 2;  // among the inputs of a model with `own`

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
    /// False: all rows are taken.
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
  /// job.All().
  void Join(JobContext& job, std::size_t row, const std::vector<std::vector<float>>& caches) {
    for (std::size_t i = 0; i < caches.size(); ++i) {
      const std::vector<float>& from = caches[i];
      if (own_ != nullptr) {
        const std::size_t bytes = from.size() * sizeof(float);
        job.CopyToDevice(own_->input(kFirstCache + i) + row * bytes, from.data(), bytes);
      } else {
        std::ranges::copy(from, past_[i].begin() + static_cast<std::ptrdiff_t>(row * from.size()));
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
    if (!shape_.in_place) inputs.push_back(positions_.data());
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

  // The run is for the rows that want a token now. The others run along, and nobody looks at them;
  // an entry that is put into their caches lies behind those in use.
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

class Chat final : public lagoon::JobProgram {
 public:
  Status Init(lagoon::JobSetup& setup) override {
    LAGOON_ASSIGN_OR_RETURN(decode_, setup.FindModel("decode"));
    LAGOON_ASSIGN_OR_RETURN(shape_, CheckDecode(*decode_));
    if (const auto prefill = setup.FindModel("prefill")) {
      prefill_ = *prefill;
      LAGOON_RETURN_IF_ERROR(CheckPrefill(*prefill_, shape_));
    }
    if (ReplacesCaches()) {
      LAGOON_ASSIGN_OR_RETURN(own_, setup.MakeInstance(*decode_));
    }
    batch_ = std::make_unique<Batch>(shape_, own_);
    return {};
  }

  JobTask Run(JobContext& job) override {
    if (Status valid = Check(job); !valid) co_return valid;
    const std::int64_t length = job.Input<std::int64_t>(1)[0];
    const std::int64_t most = job.Input<std::int64_t>(2)[0];
    const auto sampling = job.Input<float>(3);
    const auto stop = job.Input<std::int64_t>(5);
    Sampler sampler(sampling[0], sampling[1], job.Input<std::int64_t>(4)[0]);

    Batch::Row row;
    while (!row.Take(*batch_)) co_await job.Wait(batch_->changed);
    const auto tokens = job.Input<std::int64_t>(0).first(Size(length));
    std::size_t next = 0;  // the first token of the prompt that `decode` takes
    std::int64_t token = tokens[0];
    if (prefill_ != nullptr) {
      Prompt prompt(shape_, tokens);
      co_await job.Run(*prefill_, prompt.Inputs(), prompt.Outputs());
      token = sampler.Choose(prompt.Last());
      next = tokens.size();
      batch_->WantToJoin(row.index());
      while (batch_->led()) co_await job.Wait(batch_->changed);
      const Batch::Lead lead(*batch_);
      batch_->Join(job, row.index(), prompt.caches);
      co_await job.All();
      batch_->Joined(row.index(), length);
    }
    for (std::int64_t made = 0;;) {
      if (next == tokens.size()) {  // `token` is new
        if (token < 0) co_return Fail(ErrorCode::kInternal, "the model's logits are no numbers");
        job.Output<std::int64_t>(0)[0] = token;
        co_await job.Send();
        const bool stops = std::ranges::find(stop, token) != stop.end();
        if (stops || ++made == most || batch_->used(row.index()) == shape_.length) break;
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
  // A prompt's run through `prefill`.
  struct Prompt {
    Prompt(const Shape& shape, std::span<const std::int64_t> tokens)
        : ids(Size(shape.length)),
          mask(Size(shape.length)),
          logits(Size(shape.length * shape.vocabulary)),
          caches(shape.caches,
                 std::vector<float>(Size(shape.heads * shape.length * shape.head_size))),
          used(tokens.size()),
          vocabulary(Size(shape.vocabulary)) {
      std::ranges::copy(tokens, ids.begin());
      std::fill_n(mask.begin(), used, 1);
    }
    std::vector<const void*> Inputs() const { return {ids.data(), mask.data()}; }
    std::vector<void*> Outputs() {
      std::vector<void*> outputs{logits.data()};
      for (std::vector<float>& cache : caches) outputs.push_back(cache.data());
      return outputs;
    }
    std::span<const float> Last() const {
      return std::span(logits).subspan((used - 1) * vocabulary, vocabulary);
    }

    std::vector<std::int64_t> ids, mask;
    std::vector<float> logits;
    std::vector<std::vector<float>> caches;
    std::size_t used, vocabulary;
  };

  // Whether `decode` writes each new cache into the place of the old one.
  bool ReplacesCaches() const {
    for (std::size_t i = 0; i < shape_.caches; ++i) {
      if (decode_->replaces[1 + i] != Batch::kFirstCache + i) return false;
    }
    return shape_.in_place;
  }

  Status Check(const JobContext& job) const {
    const auto refuse = [](std::string message) -> Status {
      return Fail(ErrorCode::kInvalidArgument, std::move(message));
    };
    const auto prompt = job.Input<std::int64_t>(0);
    const std::int64_t length = job.Input<std::int64_t>(1)[0];
    const std::int64_t most = std::min(shape_.length, static_cast<std::int64_t>(prompt.size()));
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

  const JobModel* prefill_ = nullptr;
  const JobModel* decode_ = nullptr;
  JobInstance* own_ = nullptr;  // of `decode_`, where that writes its caches in place
  Shape shape_;
  std::unique_ptr<Batch> batch_;
};

}  // namespace

LAGOON_JOB_PROGRAM(Chat)
