// Generates text with a language model, token by token. The prompt runs through one model, which
// fills a cache of keys and values; then each new token runs through another model. Between two
// tokens the scheduler may run more urgent work, including the tokens of other requests.
//
//   input "prompt" INT64 [n]      token ids; only the first "length" count
//   input "length" INT64 [1]      1 to n
//   output "tokens" INT64 [m]     the most probable continuation, then -1
//
// The program runs the models in the roles `prefill` and `decode`, with the shapes of GPT-2's
// exports (see CheckModels). Parameter job.end_token: the text ends after this token; without the
// parameter, no token ends the text.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "sched/programs/job_program.h"

namespace {

using lagoon::Dims;
using lagoon::ErrorCode;
using lagoon::Fail;
using lagoon::JobContext;
using lagoon::JobModel;
using lagoon::JobTask;
using lagoon::Result;
using lagoon::Status;

// The sizes that both models have.
struct Shape {
  std::int64_t length = 0;  // length of the cache, in tokens
  std::int64_t vocabulary = 0;
  std::int64_t heads = 0, head_size = 0;
  std::size_t caches = 0;  // keys and values of all layers
};

Status Expect(const lagoon::TensorSpec& tensor, const Dims& dims) {
  if (tensor.dims == dims) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("tensor '{}' is {}, expected {}", tensor.name, tensor.dims, dims));
}

// Checks the models' inputs and outputs:
//
// prefill: input_ids, attention_mask [1,n] -> logits [1,n,v], then caches [1,h,n,d]
// decode:  input_ids [1,1], attention_mask [1,n+1], position_ids [1,1], caches [1,h,n,d]
//          -> logits [1,1,v], then caches [1,h,n+1,d], the new token's entry last
Result<Shape> CheckModels(const JobModel& prefill, const JobModel& decode) {
  if (prefill.inputs.size() != 2 || prefill.outputs.size() < 3 ||
      decode.inputs.size() != prefill.outputs.size() + 2 ||
      decode.outputs.size() != prefill.outputs.size() || prefill.outputs[0].dims.size() != 3 ||
      prefill.outputs[1].dims.size() != 4) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'prefill' has {} inputs and {} outputs, 'decode' {} and {}: no prefill "
                    "and decode of one model",
                    prefill.inputs.size(), prefill.outputs.size(), decode.inputs.size(),
                    decode.outputs.size()));
  }
  Shape shape;
  shape.length = prefill.outputs[0].dims[1];
  shape.vocabulary = prefill.outputs[0].dims[2];
  shape.heads = prefill.outputs[1].dims[1];
  shape.head_size = prefill.outputs[1].dims[3];
  shape.caches = prefill.outputs.size() - 1;
  const std::int64_t n = shape.length;
  for (const auto& input : prefill.inputs) LAGOON_RETURN_IF_ERROR(Expect(input, {1, n}));
  LAGOON_RETURN_IF_ERROR(Expect(decode.inputs[0], {1, 1}));
  LAGOON_RETURN_IF_ERROR(Expect(decode.inputs[1], {1, n + 1}));
  LAGOON_RETURN_IF_ERROR(Expect(decode.inputs[2], {1, 1}));
  LAGOON_RETURN_IF_ERROR(Expect(decode.outputs[0], {1, 1, shape.vocabulary}));
  for (std::size_t i = 0; i < shape.caches; ++i) {
    const Dims cache{1, shape.heads, n, shape.head_size};
    LAGOON_RETURN_IF_ERROR(Expect(prefill.outputs[1 + i], cache));
    LAGOON_RETURN_IF_ERROR(Expect(decode.inputs[3 + i], cache));
    LAGOON_RETURN_IF_ERROR(Expect(decode.outputs[1 + i], {1, shape.heads, n + 1, shape.head_size}));
  }
  return shape;
}

// One request's tensors. The cache has room for `length` tokens. The model appends the entry of a
// new token at the end of its output; KeepToken() copies the entry behind those in use.
class Text {
 public:
  explicit Text(const Shape& shape)
      : shape_(shape),
        ids_(static_cast<std::size_t>(shape.length)),
        mask_(static_cast<std::size_t>(shape.length + 1)),
        logits_(static_cast<std::size_t>(shape.length * shape.vocabulary)) {
    const auto entry = static_cast<std::size_t>(shape.heads * shape.head_size);
    past_.resize(shape.caches, std::vector<float>(entry * ids_.size()));
    present_.resize(shape.caches, std::vector<float>(entry * mask_.size()));
  }

  void Prompt(std::span<const std::int64_t> tokens) {
    std::ranges::copy(tokens, ids_.begin());
    std::fill_n(mask_.begin(), tokens.size(), 1);
    used_ = static_cast<std::int64_t>(tokens.size());
  }
  std::int64_t used() const { return used_; }

  std::vector<const void*> PrefillInputs() const { return {ids_.data(), mask_.data()}; }
  std::vector<void*> PrefillOutputs() { return Outputs(past_); }

  /// The inputs for decoding `token`, which comes next.
  std::vector<const void*> DecodeInputs(std::int64_t token) {
    token_ = token;
    mask_.back() = 1;
    std::vector<const void*> inputs{&token_, mask_.data(), &used_};
    for (const std::vector<float>& cache : past_) inputs.push_back(cache.data());
    return inputs;
  }
  std::vector<void*> DecodeOutputs() { return Outputs(present_); }

  /// Adds the entry of the decoded token to the cache.
  void KeepToken() {
    const auto size = static_cast<std::size_t>(shape_.head_size);
    const auto length = static_cast<std::size_t>(shape_.length);
    for (std::size_t i = 0; i < past_.size(); ++i) {
      for (std::size_t head = 0; head < static_cast<std::size_t>(shape_.heads); ++head) {
        const float* from = &present_[i][(head * (length + 1) + length) * size];
        std::copy_n(from, size,
                    &past_[i][(head * length + static_cast<std::size_t>(used_)) * size]);
      }
    }
    mask_[static_cast<std::size_t>(used_++)] = 1;
  }

  /// The most probable token after the one in `row` of the logits.
  std::int64_t Best(std::int64_t row) const {
    const auto first = logits_.begin() + row * shape_.vocabulary;
    return std::max_element(first, first + shape_.vocabulary) - first;
  }

 private:
  std::vector<void*> Outputs(std::vector<std::vector<float>>& caches) {
    std::vector<void*> outputs{logits_.data()};
    for (std::vector<float>& cache : caches) outputs.push_back(cache.data());
    return outputs;
  }

  const Shape shape_;
  std::int64_t used_ = 0;  // number of tokens in the cache; also the position of the next one
  std::int64_t token_ = 0;
  std::vector<std::int64_t> ids_, mask_;
  std::vector<float> logits_;
  std::vector<std::vector<float>> past_, present_;
};

class Generate final : public lagoon::JobProgram {
 public:
  Status Init(lagoon::JobSetup& setup) override {
    LAGOON_ASSIGN_OR_RETURN(prefill_, setup.FindModel("prefill"));
    LAGOON_ASSIGN_OR_RETURN(decode_, setup.FindModel("decode"));
    LAGOON_ASSIGN_OR_RETURN(shape_, CheckModels(*prefill_, *decode_));
    const std::string end = setup.Parameter("end_token").value_or("-1");
    const auto [last, error] = std::from_chars(end.data(), end.data() + end.size(), end_token_);
    if (error != std::errc() || last != end.data() + end.size()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("parameter 'job.end_token' is '{}'; it takes a number", end));
    }
    return {};
  }

  JobTask Run(JobContext& job) override {
    const auto prompt = job.Input<std::int64_t>(0);
    const std::int64_t length = job.Input<std::int64_t>(1)[0];
    const std::int64_t most = std::min(shape_.length, static_cast<std::int64_t>(prompt.size()));
    const auto known = [&](std::int64_t id) { return id >= 0 && id < shape_.vocabulary; };
    if (length < 1 || length > most) {
      co_return Fail(ErrorCode::kInvalidArgument,
                     fmt::format("length is {}, it may be 1 to {}", length, most));
    }
    const auto tokens = prompt.first(static_cast<std::size_t>(length));
    if (const auto bad = std::ranges::find_if_not(tokens, known); bad != tokens.end()) {
      co_return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("prompt has token {}, the vocabulary {}", *bad, shape_.vocabulary));
    }
    const auto output = job.Output<std::int64_t>(0);
    std::ranges::fill(output, -1);

    Text text(shape_);
    text.Prompt(tokens);
    co_await job.Run(*prefill_, text.PrefillInputs(), text.PrefillOutputs());
    std::int64_t token = text.Best(length - 1);
    for (std::size_t i = 0; i < output.size(); ++i) {
      output[i] = token;
      if (i + 1 == output.size() || token == end_token_ || text.used() == shape_.length) break;
      co_await job.Run(*decode_, text.DecodeInputs(token), text.DecodeOutputs());
      text.KeepToken();
      token = text.Best(0);
    }
    co_return Status();
  }

 private:
  const JobModel* prefill_ = nullptr;
  const JobModel* decode_ = nullptr;
  Shape shape_;
  std::int64_t end_token_ = -1;
};

}  // namespace

LAGOON_JOB_PROGRAM(Generate)
