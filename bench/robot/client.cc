#include "bench/robot/client.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "base/time.h"
#include "bench/client/core_requests.h"
#include "bench/client/infer_client.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

constexpr int kWarmUp = 5;
// After an error a closed loop waits for so long: a server that refuses needs no more requests.
constexpr auto kPause = std::chrono::milliseconds(10);

// The inputs of one model, and the bytes that they borrow.
struct Inputs {
  std::vector<std::vector<char>> bytes;
  std::vector<InputTensor> tensors;
};

Result<std::shared_ptr<Inputs>> ReadInputs(const Json& stream) {
  auto inputs = std::make_shared<Inputs>();
  for (const Json& input : stream.at("inputs")) {
    const std::string path = input.at("file");
    std::ifstream file(path, std::ios::binary);
    if (!file) return Fail(ErrorCode::kNotFound, fmt::format("cannot read '{}'", path));
    inputs->bytes.emplace_back(std::istreambuf_iterator<char>(file),
                               std::istreambuf_iterator<char>());
    inputs->tensors.push_back({input.at("name"), input.at("type").get<DataType>(),
                               input.at("dims").get<Dims>(),
                               std::as_bytes(std::span(inputs->bytes.back()))});
  }
  return inputs;
}

// Sends one request and waits for its answer. One thread at a time.
using Call = std::function<Status()>;

// What the requests of one stream got in one window.
class Answers {
 public:
  explicit Answers(TimePoint start) : start_(start) {}

  void Add(TimePoint arrival, const Status& status) {
    const TimePoint now = Now();
    const MutexLock lock(mutex_);
    if (!status) {
      ++failed_;
      error_ = status.error().message;
      return;
    }
    latencies_us_.push_back(ToMicroseconds(now - arrival));
    ends_us_.push_back(ToMicroseconds(now - start_));
  }
  Json ToJson() {
    const MutexLock lock(mutex_);
    return {{"latencies_us", latencies_us_},
            {"ends_us", ends_us_},
            {"failed", failed_},
            {"error", error_}};
  }

 private:
  const TimePoint start_;
  Mutex mutex_;
  std::vector<double> latencies_us_ GUARDED_BY(mutex_);
  std::vector<double> ends_us_ GUARDED_BY(mutex_);
  int failed_ GUARDED_BY(mutex_) = 0;
  std::string error_ GUARDED_BY(mutex_);
};

TimePoint TimeOf(const Json& window, const char* key) {
  return TimePoint(Nanoseconds(window.at(key).get<std::int64_t>()));
}

// The requests to one model.
class Stream {
 public:
  void Connect(Call call) { calls_.push_back(std::move(call)); }

  Status WarmUp() {
    for (const Call& call : calls_) {
      for (int i = 0; i < kWarmUp; ++i) LAGOON_RETURN_IF_ERROR(call());
    }
    return {};
  }

  Json Run(const Json& window) {
    if (window.is_null()) return nullptr;
    const TimePoint start = TimeOf(window, "start_ns");
    Answers answers(start);
    if (window.contains("arrivals_us")) {
      RunArrivals(start, TimeOf(window, "give_up_ns"),
                  window.at("arrivals_us").get<std::vector<double>>(), answers);
    } else {
      RunLoop(start, TimeOf(window, "end_ns"), answers);
    }
    return answers.ToJson();
  }

 private:
  // Each connection takes the next arrival when its request before is answered. From `give_up` on,
  // none is sent.
  void RunArrivals(TimePoint start, TimePoint give_up, const std::vector<double>& arrivals_us,
                   Answers& answers) {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (const Call& call : calls_) {
      threads.emplace_back([&] {
        prctl(PR_SET_TIMERSLACK, 1);  // in ns; the default adds 50 us to every sleep
        for (std::size_t i = next++; i < arrivals_us.size(); i = next++) {
          const TimePoint arrival =
              start + Nanoseconds(static_cast<std::int64_t>(arrivals_us[i] * 1e3));
          std::this_thread::sleep_until(arrival);
          if (Now() >= give_up) return;
          answers.Add(arrival, call());
        }
      });
    }
  }

  void RunLoop(TimePoint start, TimePoint end, Answers& answers) {
    std::this_thread::sleep_until(start);
    while (Now() < end) {
      const TimePoint begin = Now();
      const Status status = calls_.front()();
      answers.Add(begin, status);
      if (!status) std::this_thread::sleep_for(kPause);
    }
  }

  std::vector<Call> calls_;
};

class RobotClient {
 public:
  Status Open(const Json& words) {
    const std::string transport = words.at("transport");
    if (transport == "process") {
      LAGOON_ASSIGN_OR_RETURN(
          core_, Serve(words.at("repository"), words.at("scheduler"), words.at("workers")));
    }
    for (const Json& stream : words.at("streams")) {
      LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<Inputs> inputs, ReadInputs(stream));
      Stream& added = streams_.emplace_back();
      for (int i = 0; i < stream.at("connections").get<int>(); ++i) {
        LAGOON_ASSIGN_OR_RETURN(Call call, Connect(transport, words, stream.at("model"), inputs));
        added.Connect(std::move(call));
      }
      LAGOON_RETURN_IF_ERROR(added.WarmUp());
    }
    return {};
  }

  Json Run(const Json& windows) {
    std::vector<Json> answers(streams_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < streams_.size(); ++i) {
        threads.emplace_back([&, i] { answers[i] = streams_[i].Run(windows.at(i)); });
      }
    }
    return {{"ok", true}, {"streams", answers}};
  }

 private:
  Result<Call> Connect(const std::string& transport, const Json& words, const std::string& model,
                       const std::shared_ptr<Inputs>& inputs) {
    if (core_ != nullptr) {
      InferRequest request;
      request.model = model;
      request.inputs = inputs->tensors;
      request.payload = inputs;
      return Call([core = core_.get(), request]() -> Status {
        const Answer answer = Ask(*core, request);
        return answer ? Status() : tl::unexpected<Error>(answer.error());
      });
    }
    const ClientTarget target{.address = "127.0.0.1", .port = words.at("port"), .model = model};
    LAGOON_ASSIGN_OR_RETURN(std::shared_ptr<InferClient> client,
                            transport == "grpc" ? ConnectGrpc(target) : ConnectHttp(target));
    LAGOON_RETURN_IF_ERROR(client->Prepare(inputs->tensors));
    return Call([client]() -> Status {
      const Result<Timing> timing = client->Infer();
      return timing ? Status() : tl::unexpected<Error>(timing.error());
    });
  }

  std::unique_ptr<Inference> core_;  // transport "process"
  std::vector<Stream> streams_;
};

void Say(const Json& answer) { std::cout << DumpJson(answer) << std::endl; }

}  // namespace

int RunRobotClient() {
  RobotClient client;
  bool open = false;
  for (std::string line; std::getline(std::cin, line);) {
    const Json words = Json::parse(line, nullptr, false);
    if (words.is_discarded()) return 1;  // lagoon-bench, which writes the lines, was killed
    if (open) {
      Say(client.Run(words.at("streams")));
      continue;
    }
    const Status opened = client.Open(words);
    if (!opened) {
      Say({{"ok", false}, {"error", opened.error().message}});
      return 1;
    }
    open = true;
    Say({{"ok", true}});
  }
  return 0;
}

}  // namespace lagoon::bench
