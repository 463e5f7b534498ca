#include "bench/live/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "bench/client/core_requests.h"
#include "bench/client/line_process.h"
#include "bench/client/temporary_repository.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"
#include "program/compile.h"
#include "program/open_device.h"
#include "program/profile/machine_rates.h"

namespace lagoon::bench {
namespace {

constexpr const char* kDecode = "decode";
constexpr const char* kPrefill = "prefill";
constexpr const char* kChat = "chat";
constexpr std::int64_t kStops = 4;
constexpr std::uint64_t kLoweredClass = 2;  // InferRequest::priority
constexpr int kWarmUpTokens = 16;
constexpr int kReadTokens = 512;  // most tokens of a prompt whose reading is measured

std::string Parameter(const std::string& key, const std::string& value) {
  return fmt::format("parameters {{ key: \"{}\" value {{ string_value: \"{}\" }} }}\n", key, value);
}

/// The configuration of the decoder for so many tokens of each row.
std::string DecoderConfig(const GenerateOptions& options, std::int64_t rows, std::int64_t tokens) {
  std::string config = "optimization { priority: PRIORITY_MAX }\n";
  for (const auto& [name, size] : {std::pair{"batch_size", rows},
                                   {"sequence_length", tokens},
                                   {"past_sequence_length", options.context},
                                   {"total_sequence_length", options.context}}) {
    config += Parameter(fmt::format("lagoon.dimension.{}", name), std::to_string(size));
  }
  return config;
}

std::string ChatConfig(const GenerateOptions& options) {
  const auto tensor = [](const char* field, const char* name, const char* type, std::int64_t size) {
    return fmt::format("{} {{ name: \"{}\" data_type: TYPE_{} dims: [ {} ] }}\n", field, name, type,
                       size);
  };
  return "backend: \"lagoon_job\"\nmodel_transaction_policy { decoupled: true }\n"
         "optimization { priority: PRIORITY_MAX }\n" +
         tensor("input", "prompt", "INT64", options.context) +
         tensor("input", "length", "INT64", 1) + tensor("input", "max_tokens", "INT64", 1) +
         tensor("input", "sampling", "FP32", 2) + tensor("input", "seed", "INT64", 1) +
         tensor("input", "stop", "INT64", kStops) + tensor("output", "token", "INT64", 1) +
         Parameter("lagoon.model.decode", kDecode) +
         (options.chunk > 0 ? Parameter("lagoon.model.prefill", kPrefill) : "");
}

/// The tensors of a request of `chat`.
struct ChatTensors {
  std::vector<std::int64_t> prompt;
  std::int64_t length = 0, most = 0, seed = 0;
  float sampling[2] = {0, 1};
  std::int64_t stop[kStops] = {-1, -1, -1, -1};
};

InferRequest ChatRequest(std::int64_t context, int prompt, int tokens) {
  auto tensors = std::make_shared<ChatTensors>();
  tensors->prompt.resize(static_cast<std::size_t>(context));
  for (int i = 0; i < prompt; ++i) tensors->prompt[static_cast<std::size_t>(i)] = 1 + i % 90;
  tensors->length = prompt;
  tensors->most = tokens;
  InferRequest request;
  request.model = kChat;
  const auto add = [&](const char* name, DataType type, const auto& values) {
    const auto span = std::span(values);
    request.inputs.push_back(
        {name, type, {static_cast<std::int64_t>(span.size())}, std::as_bytes(span)});
  };
  add("prompt", DataType::kInt64, tensors->prompt);
  add("length", DataType::kInt64, std::span(&tensors->length, 1));
  add("max_tokens", DataType::kInt64, std::span(&tensors->most, 1));
  add("sampling", DataType::kFloat32, tensors->sampling);
  add("seed", DataType::kInt64, std::span(&tensors->seed, 1));
  add("stop", DataType::kInt64, tensors->stop);
  request.payload = tensors;
  return request;
}

/// The tokens of one request. The thread that calls Await() takes them.
class Tokens final : public AnswerStream, public std::enable_shared_from_this<Tokens> {
 public:
  RequestHandle Start(Inference& core, InferRequest request) {
    request.stream = shared_from_this();
    request.arrival = begin_ = Now();
    return core.Infer(std::move(request), [self = shared_from_this()](const Answer& answer) {
      const std::lock_guard lock(self->mutex_);
      if (!answer) self->failure_ = answer.error();
      self->ended_ = true;
      self->changed_.notify_all();
    });
  }
  void Give(Result<InferResponse> /*answer*/, std::function<void()> taken) override {
    const std::lock_guard lock(mutex_);
    times_.push_back(Now());
    untaken_.push_back(std::move(taken));
    changed_.notify_all();
  }
  /// Waits for the end.
  Status Await() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ended_ || !untaken_.empty(); });
      if (untaken_.empty()) break;
      const std::function<void()> taken = std::move(untaken_.front());
      untaken_.pop_front();
      lock.unlock();
      taken();
      lock.lock();
    }
    if (failure_) return tl::unexpected<Error>(*failure_);
    return {};
  }
  TimePoint begin() const { return begin_; }
  const std::vector<TimePoint>& times() const { return times_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> untaken_;
  std::vector<TimePoint> times_;
  std::optional<Error> failure_;
  bool ended_ = false;
  TimePoint begin_;
};

/// Asks the same over and over, one request after the other, on a thread of its own.
class Background {
 public:
  Background(Inference& core, InferRequest request) : core_(core), request_(std::move(request)) {
    thread_ = std::jthread([this] { Loop(); });
  }
  ~Background() { static_cast<void>(Stop()); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Ends the present request. The error of a request before it, if one failed.
  Status Stop() {
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(stopped_, true)) core_.Cancel(handle_);
    }
    if (thread_.joinable()) thread_.join();
    return failure_;
  }

 private:
  void Loop() {
    while (true) {
      const auto one = std::make_shared<Tokens>();
      {
        const std::lock_guard lock(mutex_);
        if (stopped_ || !failure_) return;
        handle_ = one->Start(core_, request_);
      }
      Status end = one->Await();
      const std::lock_guard lock(mutex_);
      if (!stopped_) failure_ = std::move(end);
    }
  }

  Inference& core_;
  const InferRequest request_;
  std::mutex mutex_;
  bool stopped_ = false;
  RequestHandle handle_{};
  Status failure_;
  std::jthread thread_;
};

class DecoderBenchmark {
 public:
  DecoderBenchmark(const GenerateOptions& options, std::string model, std::string file,
                   Device& idle, Report& report)
      : options_(options),
        model_(std::move(model)),
        file_(std::move(file)),
        idle_(idle),
        report_(report) {}

  Status Run(Evidence& evidence, ProgressBar& progress) {
    LAGOON_RETURN_IF_ERROR(CountBytes());
    LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository, TemporaryRepository::Link("", {}));
    LAGOON_RETURN_IF_ERROR(
        repository.AddFile(kDecode, file_, DecoderConfig(options_, options_.rows, 1)));
    if (options_.chunk > 0) {
      LAGOON_RETURN_IF_ERROR(
          repository.AddFile(kPrefill, file_, DecoderConfig(options_, 1, options_.chunk)));
    }
    LAGOON_RETURN_IF_ERROR(AddProgram(repository.path()));
    LAGOON_ASSIGN_OR_RETURN(core_, Serve(repository.path(), options_.scheduler, options_.workers));
    LAGOON_RETURN_IF_ERROR(Generate(1, kWarmUpTokens));
    if (!options_.genai.empty()) {
      LAGOON_ASSIGN_OR_RETURN(
          genai_, LineProcess::Start("onnxruntime-genai",
                                     {options_.genai, options_.genai_worker, file_, "--threads",
                                      std::to_string(idle_.info().units)}));
      LAGOON_RETURN_IF_ERROR(GenaiRate());
    }
    LAGOON_RETURN_IF_ERROR(MeasureTokens(evidence, progress));
    return MeasureFirstTokens(evidence, progress);
  }

 private:
  Status AddProgram(const std::string& repository) const {
    namespace fs = std::filesystem;
    const fs::path folder = fs::path(repository) / kChat;
    std::error_code error;
    fs::create_directories(folder / "1", error);
    if (!error) fs::create_symlink(fs::absolute(options_.program), folder / "1" / "job.so", error);
    std::ofstream(folder / "config.pbtxt") << ChatConfig(options_);
    if (!error) return {};
    return Fail(ErrorCode::kInternal, fmt::format("'{}': {}", folder.string(), error.message()));
  }

  // What a run reads: the packed weights of all products, and of each cache a row of `entry_bytes_`
  // for each token so far. (Of the table of embeddings a token reads one row.)
  Status CountBytes() {
    CompileOptions compile;
    compile.model = model_;
    LAGOON_ASSIGN_OR_RETURN(const auto compiler, ModelCompiler::Read(file_, idle_, compile));
    GraphInputs inputs = compiler->model().DefaultInputs();
    for (std::size_t i = 0; i < inputs.dims.size(); ++i) {
      Dims& dims = inputs.dims[i];
      if (dims.size() == 4) dims = {1, dims[1], options_.context, dims[3]};
      if (dims.size() == 2) dims = {1, i == 0 ? 1 : options_.context};
    }
    LAGOON_ASSIGN_OR_RETURN(const CompiledPart part, compiler->Compile(inputs));
    for (const PlanOp& op : part.loaded->plan.ops) {
      for (const ByteRange& read : op.reads) {
        const bool table = op.kernel_name == "gather" || op.kernel_name == "take";
        if (read.region == Region::kWeights && !table) {
          weight_bytes_ += static_cast<double>(read.bytes);
        }
      }
    }
    for (const PlanTensor& output : part.loaded->plan.outputs) {
      const Dims& dims = output.spec.dims;
      if (dims.size() == 4) entry_bytes_ += static_cast<double>(4 * dims[1] * dims[3]);
    }
    const double used = options_.prompt + options_.tokens / 2.0;
    report_.Metric("bytes_per_token." + model_, BytesPerToken());
    report_.Metric("cache_bytes_per_token." + model_, entry_bytes_ * used);
    return {};
  }
  double BytesPerToken() const {
    return weight_bytes_ + entry_bytes_ * (options_.prompt + options_.tokens / 2.0);
  }

  /// Tokens a second of `clients` at once.
  Result<double> Generate(std::size_t clients, int tokens) {
    std::vector<std::shared_ptr<Tokens>> all(clients);
    for (auto& one : all) {
      one = std::make_shared<Tokens>();
      one->Start(*core_, ChatRequest(options_.context, options_.prompt, tokens));
    }
    std::vector<Status> ends(clients);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < clients; ++i) {
        threads.emplace_back([&, i] { ends[i] = all[i]->Await(); });
      }
    }
    TimePoint first = TimePoint::max(), last = TimePoint::min();
    std::size_t count = 0;
    for (std::size_t i = 0; i < clients; ++i) {
      LAGOON_RETURN_IF_ERROR(ends[i]);
      first = std::min(first, all[i]->times().front());
      last = std::max(last, all[i]->times().back());
      count += all[i]->times().size() - 1;  // the first one ends the prompt
    }
    return static_cast<double>(count) / std::chrono::duration<double>(last - first).count();
  }

  /// Tokens a second of onnxruntime-genai.
  Result<double> GenaiRate() {
    LAGOON_RETURN_IF_ERROR(
        genai_->Send({{"prompt", options_.prompt}, {"tokens", options_.tokens}}));
    LAGOON_ASSIGN_OR_RETURN(const nlohmann::json reply, genai_->Receive());
    return reply.at("tokens_per_second").get<double>();
  }

  /// What the windows of the undisturbed trials have measured, by window.
  template <typename Value>
  struct Measured {
    std::vector<std::vector<Value>> values;
    bool clean = false;
  };

  /// Measures windows in turns: `measure` gets the index of a window.
  template <typename Value, typename Call>
  Result<Measured<Value>> InTurns(const std::string& what, std::vector<std::string> windows,
                                  Evidence& evidence, ProgressBar& progress, Call measure) {
    const WindowsPlan plan{.groups = {fmt::format("{} {}", model_, what)},
                           .windows = std::move(windows),
                           .rounds = options_.windows,
                           .seed = options_.seed};
    std::vector<std::vector<Value>> all(plan.windows.size());
    const auto measure_at = [&](const WindowPlace& place) -> Status {
      all[place.window].resize(place.trial + 1);
      LAGOON_ASSIGN_OR_RETURN(all[place.window][place.trial], measure(place.window));
      progress.Step(plan.groups[0]);
      return {};
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result,
                            MeasureWindows(plan, probe, Now, measure_at));
    evidence.AddWindows(result.summary);
    Measured<Value> measured;
    measured.clean = result.Clean(0);
    for (const std::vector<Value>& window : all) {
      std::vector<Value>& kept = measured.values.emplace_back();
      for (const std::size_t trial : result.trials[0]) kept.push_back(window[trial]);
    }
    return measured;
  }

  Status MeasureTokens(Evidence& evidence, ProgressBar& progress) {
    const std::size_t clients[] = {1, static_cast<std::size_t>(options_.rows)};
    std::vector<std::string> windows{"memory", "one client", "clients"};
    if (genai_ != nullptr) windows.emplace_back("onnxruntime-genai");
    const auto measure = [&](std::size_t window) -> Result<double> {
      if (window == 3) return GenaiRate();
      if (window > 0) return Generate(clients[window - 1], options_.tokens);
      LAGOON_ASSIGN_OR_RETURN(const MachineRates rates, MeasureRates(idle_));
      return rates.far_bytes_per_us / 1000;
    };
    LAGOON_ASSIGN_OR_RETURN(const auto measured, InTurns<double>("tokens", std::move(windows),
                                                                 evidence, progress, measure));
    const auto& [values, clean] = measured;
    std::vector<double> of_bound, of_genai;
    for (std::size_t i = 0; i < values[0].size(); ++i) {
      if (genai_ != nullptr) of_genai.push_back(values[1][i] / values[3][i]);
      of_bound.push_back(values[1][i] * BytesPerToken() / (values[0][i] * 1e9));
    }
    evidence.Add("read_gbps." + model_, values[0]);
    for (std::size_t i = 0; i < 2; ++i) {
      evidence.Add(fmt::format("tokens_per_second.{}.c{}", model_, clients[i]), values[1 + i]);
    }
    if (genai_ != nullptr) {
      evidence.Add(fmt::format("tokens_per_second.{}.genai", model_), values[3]);
      evidence.Add("tokens_ratio_vs_genai." + model_, of_genai);
    }
    const std::string name = "tokens_of_bound." + model_;
    evidence.Target(name, evidence.Add(name, of_bound), Bound::kAtLeast, 0.85, clean);
    return {};
  }

  /// Milliseconds to the first tokens of real-time requests, one at a time.
  Result<std::vector<double>> FirstTokens() {
    std::vector<double> times_ms;
    for (int i = 0; i < options_.requests; ++i) {
      const auto one = std::make_shared<Tokens>();
      one->Start(*core_, ChatRequest(options_.context, options_.prompt, 1));
      LAGOON_RETURN_IF_ERROR(one->Await());
      times_ms.push_back(ToMilliseconds(one->times().front() - one->begin()));
    }
    return times_ms;
  }

  Result<std::vector<double>> FirstTokensBeside() {
    InferRequest request = ChatRequest(options_.context, options_.background, 1);
    request.priority = kLoweredClass;
    Background prompts(*core_, std::move(request));
    // No event tells that a prompt is being read: 300 ms are enough to begin, and it takes seconds.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Result<std::vector<double>> times_ms = FirstTokens();
    LAGOON_RETURN_IF_ERROR(prompts.Stop());
    return times_ms;
  }

  /// Milliseconds from a long prompt to its first token.
  Result<std::vector<double>> ReadPrompt() {
    const auto one = std::make_shared<Tokens>();
    one->Start(*core_, ChatRequest(options_.context, ReadTokens(), 1));
    LAGOON_RETURN_IF_ERROR(one->Await());
    return std::vector{ToMilliseconds(one->times().front() - one->begin())};
  }
  int ReadTokens() const { return std::min(options_.background, kReadTokens); }

  Status MeasureFirstTokens(Evidence& evidence, ProgressBar& progress) {
    const auto measure = [&](std::size_t window) -> Result<std::vector<double>> {
      if (window == 2) return ReadPrompt();
      return window == 0 ? FirstTokens() : FirstTokensBeside();
    };
    LAGOON_ASSIGN_OR_RETURN(
        const auto measured,
        InTurns<std::vector<double>>("first token", {"alone", "beside", "a long prompt"}, evidence,
                                     progress, measure));
    const auto& [values, clean] = measured;
    std::vector<double> all[2], p50, tail, read;
    for (std::size_t i = 0; i < values[0].size(); ++i) {
      for (int side = 0; side < 2; ++side) {
        all[side].insert(all[side].end(), values[side][i].begin(), values[side][i].end());
      }
      p50.push_back(Median(values[1][i]) / Median(values[0][i]));
      read.push_back(ReadTokens() * 1000 / values[2][i].front());
    }
    const char* const sides[] = {"alone", "beside"};
    for (int side = 0; side < 2; ++side) {
      for (const int percent : {50, 99}) {
        report_.Metric(fmt::format("first_token_ms_p{}.{}.{}", percent, model_, sides[side]),
                       Percentile(all[side], percent));
      }
    }
    evidence.Add("prompt_tokens_per_second." + model_, read);
    evidence.Add("first_token_ratio_p50." + model_, p50);
    tail.push_back(Percentile(all[1], 99) / Percentile(all[0], 99));
    const std::string name = "first_token_ratio_p99." + model_;
    evidence.Target(name, evidence.Add(name, tail), Bound::kAtMost, 1.1, clean);
    return {};
  }

  const GenerateOptions& options_;
  const std::string model_, file_;
  Device& idle_;  // of the benchmark alone
  Report& report_;
  std::unique_ptr<Inference> core_;
  std::unique_ptr<LineProcess> genai_;  // null: not measured
  double weight_bytes_ = 0, entry_bytes_ = 0;
};

}  // namespace

Status RunGenerate(const GenerateOptions& options, Report& report) {
  spdlog::set_level(spdlog::level::warn);
  DeviceChoice choice;
  choice.workers = options.workers;
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice idle, OpenDevice(choice));
  ProgressBar progress("bench generate", (options.genai.empty() ? 6 : 7) * options.windows *
                                             static_cast<int>(options.models.size()));
  Evidence evidence(report, options.seed);
  for (const auto& [model, file] : options.models) {
    const Status measured =
        DecoderBenchmark(options, model, file, *idle.device, report).Run(evidence, progress);
    if (!measured) return Annotate(model, measured.error());
  }
  evidence.Finish();
  return {};
}

}  // namespace lagoon::bench
