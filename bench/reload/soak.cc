#include "bench/reload/soak.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "bench/reload/models.h"

namespace lagoon::bench {
namespace {

constexpr std::size_t kMostProblems = 20;
constexpr int kInputs = 4;  // of each size
constexpr std::array<std::int64_t, 4> kRows = {1, 2, 3, 5};

/// Requests that may wait for ever have a deadline: best-effort ones under overload.
constexpr std::uint64_t kLongest = 5'000'000;

}  // namespace

std::uint64_t SoakCounts::Sent() const {
  return std::accumulate(fates.begin(), fates.end(), std::uint64_t{0});
}

void SoakCounts::Add(const Exchanged& exchanged, double ms) {
  ++fates[static_cast<std::size_t>(exchanged.fate)];
  most_error = std::max(most_error, exchanged.error);
  if (exchanged.fate == Fate::kRefused) refusal_ms.push_back(ms);
  if (exchanged.fate == Fate::kRight) answer_ms.push_back(ms);
  const bool bad = exchanged.fate == Fate::kWrong || exchanged.fate == Fate::kLost ||
                   exchanged.fate == Fate::kDoubled;
  if (bad && problems.size() < kMostProblems) problems.push_back(exchanged.problem);
}

void SoakCounts::Join(const SoakCounts& other) {
  for (std::size_t fate = 0; fate < kFates; ++fate) fates[fate] += other.fates[fate];
  most_error = std::max(most_error, other.most_error);
  refusal_ms.insert(refusal_ms.end(), other.refusal_ms.begin(), other.refusal_ms.end());
  answer_ms.insert(answer_ms.end(), other.answer_ms.begin(), other.answer_ms.end());
  problems.insert(problems.end(), other.problems.begin(), other.problems.end());
  if (problems.size() > kMostProblems) problems.resize(kMostProblems);
}

/// When requests are sent, shared by the clients of one run.
struct Soak::Schedule {
  TimePoint begin, end;
  double interval_ns = 0;  // 0: as soon as a client is free
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> next{0};
  Mutex mutex;
  SoakCounts counts GUARDED_BY(mutex);

  /// When the next request is due; `end` or later: none is left.
  TimePoint Next() {
    if (stop) return end;
    if (interval_ns <= 0) return Now();
    return begin +
           Nanoseconds(static_cast<std::int64_t>(interval_ns * static_cast<double>(next++)));
  }
};

Result<std::unique_ptr<Soak>> Soak::Make(const ServerProcess& server, std::uint32_t seed) {
  std::unique_ptr<Soak> soak(new Soak(server.port("http"), server.port("grpc"), seed));
  LAGOON_RETURN_IF_ERROR(soak->Learn());
  return soak;
}

Status Soak::Learn() {
  Random random(seed_);
  ExchangeClient client(http_port_, grpc_port_);
  for (const std::string_view model : {kTower, kMeans, kLine}) {
    for (const std::int64_t rows : kRows) {
      for (int input = 0; input < kInputs; ++input) {
        SoakSample& sample = samples_.emplace_back();
        sample.model = model;
        sample.dims = InputDims(model, rows);
        sample.input = RandomEighths(static_cast<std::size_t>(ElementCount(sample.dims)), random);
        Exchanged idle = client.Ask(sample, {.id = "idle"});
        if (idle.fate != Fate::kRight) {
          return Fail(ErrorCode::kInternal, fmt::format("the idle server: {}", idle.problem));
        }
        sample.expected = std::move(idle.answer);
      }
    }
  }
  return {};
}

RequestWords Soak::Draw(const SoakSample& sample, Random& random) const {
  RequestWords words;
  // The JSON of a tower's tensors is a hundred kilobytes.
  const double json = sample.model == kTower ? 0.03 : 0.25;
  const double draw = random.Uniform();
  if (draw < json) {
    words.protocol = Protocol::kHttpJson;
  } else if (draw < 0.6) {
    words.protocol = Protocol::kGrpc;
  }
  if (random.Happens(0.3)) words.timeout_us = 1000 * (20 + random.Below(400));
  if (random.Happens(0.1)) words.priority = 2;
  const bool best_effort = sample.model != kTower || words.priority > 0;
  if (best_effort && words.timeout_us == 0) words.timeout_us = kLongest;
  if (random.Happens(0.03)) words.leaves_after = std::chrono::milliseconds(1 + random.Below(30));
  return words;
}

void Soak::RunClient(int number, Schedule& schedule) {
  ExchangeClient client(http_port_, grpc_port_);
  Random random(seed_ + 1000U + static_cast<std::uint32_t>(number));
  SoakCounts counts;
  while (true) {
    const TimePoint due = schedule.Next();
    if (due >= schedule.end) break;
    std::this_thread::sleep_until(due);
    const SoakSample& sample = samples_[random.Below(static_cast<std::uint32_t>(samples_.size()))];
    RequestWords words = Draw(sample, random);
    words.id = fmt::format("r{}", ++last_id_);
    const TimePoint begin = Now();
    const Exchanged exchanged = client.Ask(sample, words);
    counts.Add(exchanged, ToMilliseconds(Now() - begin));
  }
  if (client.HasMore()) {
    counts.Add({Fate::kDoubled, "an answer without a request", {}, 0}, 0);
  }
  const MutexLock lock(schedule.mutex);
  schedule.counts.Join(counts);
}

Result<SoakCounts> Soak::Run(int clients, double rate_per_s, Nanoseconds time,
                             const std::function<Status(double)>& watch) {
  Schedule schedule;
  schedule.begin = Now();
  schedule.end = schedule.begin + time;
  schedule.interval_ns = rate_per_s > 0 ? 1e9 / rate_per_s : 0;
  std::vector<std::jthread> threads;
  for (int client = 0; client < clients; ++client) {
    threads.emplace_back([this, client, &schedule] { RunClient(client, schedule); });
  }
  Status watched;
  while (watched && Now() < schedule.end) {
    std::this_thread::sleep_until(std::min(schedule.end, Now() + std::chrono::seconds(1)));
    watched = watch(std::min(1.0, ToMilliseconds(Now() - schedule.begin) / ToMilliseconds(time)));
  }
  schedule.stop = true;
  threads.clear();
  LAGOON_RETURN_IF_ERROR(watched);
  const MutexLock lock(schedule.mutex);
  return std::move(schedule.counts);
}

}  // namespace lagoon::bench
