#include "bench/reload/reload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/client/server_process.h"
#include "bench/client/temporary_folder.h"
#include "bench/measure/seconds.h"
#include "bench/measure/slope.h"
#include "bench/measure/statistics.h"
#include "bench/reload/exchange.h"
#include "bench/reload/models.h"
#include "bench/reload/soak.h"

namespace lagoon::bench {
namespace {

constexpr std::chrono::seconds kCalibration{5};
constexpr int kCalibrationClients = 16;
constexpr std::chrono::seconds kBetweenReloads{2};
constexpr std::chrono::seconds kEndLimit{15};  // until the last request has left the server
constexpr int kColumns = 100;                  // of shapes

std::string LoadPath(std::string_view model, bool load) {
  return fmt::format("/v2/repository/models/{}/{}", model, load ? "load" : "unload");
}

/// Loads models while they are used, from a thread of its own.
class Reloader {
 public:
  explicit Reloader(const ServerProcess& server)
      : client_(server.port("http"), server.port("grpc")),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  void Stop() {
    thread_.request_stop();
    thread_.join();
  }
  int loads() const { return loads_; }
  int failed() const { return failed_; }

 private:
  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const std::string_view model : {kMeans, kLine, kTower}) {
        failed_ += client_.Post(LoadPath(model, true)) == 200 ? 0 : 1;
        ++loads_;
        // In short sleeps, so that the end of the load ends the pause too.
        for (TimePoint until = Now() + kBetweenReloads; Now() < until && !stop.stop_requested();) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
      }
    }
  }

  ExchangeClient client_;
  int loads_ = 0, failed_ = 0;
  std::jthread thread_;
};

class ReloadBench {
 public:
  ReloadBench(const ReloadOptions& options, TemporaryFolder folder, Report& report)
      : options_(options),
        folder_(std::move(folder)),
        report_(report),
        progress_("bench reload", (options.loads > 0 ? kSteps : 0) +
                                      (options.shapes > 0 ? kSteps : 0) +
                                      (options.minutes > 0 ? kSteps : 0)) {}

  Status Run() {
    LAGOON_RETURN_IF_ERROR(WriteReloadModels(folder_.path()));
    if (options_.loads > 0) LAGOON_RETURN_IF_ERROR(RunLoads());
    if (options_.shapes > 0) LAGOON_RETURN_IF_ERROR(RunShapes());
    return options_.minutes > 0 ? RunSoak() : Status();
  }

 private:
  static constexpr int kSteps = 20;  // of the progress of each part

  Result<std::unique_ptr<ServerProcess>> Serve(const std::vector<std::string_view>& models) {
    std::vector<std::string> words = {"--models",
                                      folder_.path(),
                                      "--engine",
                                      "none",
                                      "--model-control",
                                      "explicit",
                                      "--allow-admin-on-http",
                                      "--log-level",
                                      "error",
                                      "--workers",
                                      std::to_string(options_.workers)};
    for (const std::string_view model : models) {
      words.insert(words.end(), {"--load-model", std::string(model)});
    }
    return ServerProcess::Start(options_.lagoon, std::move(words));
  }

  /// Draws the progress of a part: `done` of all.
  void Show(const std::string& part, double done) {
    const int step = static_cast<int>(done * kSteps);
    for (; shown_ < step; ++shown_) progress_.Step(part);
    if (shown_ == kSteps) shown_ = 0;
  }

  void Times(const std::string& name, const std::vector<double>& ms) {
    if (ms.empty()) return;
    report_.Metric(name + "_p50", Percentile(ms, 50));
    report_.Metric(name + "_p99", Percentile(ms, 99));
  }

  Status RunLoads() {
    LAGOON_ASSIGN_OR_RETURN(const auto server, Serve({}));
    ExchangeClient client(server->port("http"), server->port("grpc"));
    Random random(options_.seed);
    SoakSample sample{std::string(kTower), InputDims(kTower, 1), {}, {}};
    sample.input = RandomEighths(static_cast<std::size_t>(ElementCount(sample.dims)), random);
    std::vector<Point> memory;
    std::vector<double> times_ms;
    for (int load = 1; load <= options_.loads; ++load) {
      const TimePoint begin = Now();
      LAGOON_RETURN_IF_ERROR(Change(client, true));
      times_ms.push_back(ToMilliseconds(Now() - begin));
      LAGOON_RETURN_IF_ERROR(AskRight(client, sample, load));
      LAGOON_RETURN_IF_ERROR(Change(client, false));
      LAGOON_ASSIGN_OR_RETURN(const double rss, server->RssKib());
      memory.push_back({1.0 * load, rss});
      Show("loads and unloads", 1.0 * load / options_.loads);
    }
    report_.Metric("reload_rss_kib_per_load", SlopeOfSecondHalf(memory));
    report_.Metric("reload_rss_mib_at_end", memory.back().y / 1024);
    Times("reload_ms", times_ms);
    return {};
  }

  Status Change(ExchangeClient& client, bool load) {
    const int status = client.Post(LoadPath(kTower, load));
    if (status == 200) return {};
    return Fail(ErrorCode::kInternal, fmt::format("{} of '{}' was answered {}",
                                                  load ? "a load" : "an unload", kTower, status));
  }

  /// Asks, in turns over the protocols. The first answer is what the later ones must be.
  Status AskRight(ExchangeClient& client, SoakSample& sample, int number) {
    constexpr std::array kProtocols = {Protocol::kHttpBinary, Protocol::kGrpc, Protocol::kHttpJson};
    RequestWords words{.protocol = kProtocols[static_cast<std::size_t>(number) % 3],
                       .id = std::to_string(number)};
    Exchanged exchanged = client.Ask(sample, words);
    if (exchanged.fate != Fate::kRight) {
      return Fail(
          ErrorCode::kInternal,
          fmt::format("request {} is {}: {}", number,
                      kFateNames[static_cast<std::size_t>(exchanged.fate)], exchanged.problem));
    }
    if (sample.expected.empty()) sample.expected = std::move(exchanged.answer);
    return {};
  }

  Status RunShapes() {
    LAGOON_ASSIGN_OR_RETURN(const auto server, Serve({kLine}));
    ExchangeClient client(server->port("http"), server->port("grpc"));
    Random random(options_.seed);
    std::vector<Point> memory;
    std::vector<double> times_ms;
    for (int shape = 0; shape < options_.shapes; ++shape) {
      SoakSample sample{std::string(kLine), {shape / kColumns + 1, shape % kColumns + 1}, {}, {}};
      sample.input = RandomEighths(static_cast<std::size_t>(ElementCount(sample.dims)), random);
      for (const float value : sample.input) sample.expected.push_back(2 * value + 1);
      const TimePoint begin = Now();
      LAGOON_RETURN_IF_ERROR(AskRight(client, sample, shape));
      times_ms.push_back(ToMilliseconds(Now() - begin));
      LAGOON_ASSIGN_OR_RETURN(const double rss, server->RssKib());
      memory.push_back({1.0 * shape, rss});
      Show("shapes", (shape + 1.0) / options_.shapes);
    }
    report_.Metric("shapes_rss_kib_per_shape", SlopeOfSecondHalf(memory));
    report_.Metric("shapes_rss_mib_at_end", memory.back().y / 1024);
    Times("shape_ms", times_ms);
    return {};
  }

  Status RunSoak() {
    LAGOON_ASSIGN_OR_RETURN(const auto server, Serve({kTower, kMeans, kLine}));
    LAGOON_ASSIGN_OR_RETURN(const auto soak, Soak::Make(*server, options_.seed));
    const double seconds = 60 * options_.minutes;
    const Nanoseconds calibration = std::min<Nanoseconds>(kCalibration, FromSeconds(seconds));
    LAGOON_ASSIGN_OR_RETURN(const SoakCounts alone, soak->Run(kCalibrationClients, 0, calibration,
                                                              [](double) { return Status(); }));
    const double capacity =
        1e3 * static_cast<double>(alone.Of(Fate::kRight)) / ToMilliseconds(calibration);
    std::vector<Point> memory;
    const TimePoint begin = Now();
    Reloader reloader(*server);
    const Result<SoakCounts> counts =
        soak->Run(options_.clients, std::max(1.0, options_.overload * capacity),
                  FromSeconds(seconds), [&](double done) -> Status {
                    LAGOON_ASSIGN_OR_RETURN(const double rss, server->RssKib());
                    memory.push_back({ToMilliseconds(Now() - begin) / 3.6e6, rss / 1024});
                    Show("mixed load", done);
                    return {};
                  });
    reloader.Stop();
    if (!counts) return tl::unexpected<Error>(counts.error());
    LAGOON_ASSIGN_OR_RETURN(const double pending, PendingAtEnd(*server));
    report_.Metric("soak_capacity_per_s", capacity);
    report_.Metric("soak_rss_mib_per_hour", SlopeOfSecondHalf(memory));
    report_.Metric("soak_rss_mib_at_end", memory.back().y);
    report_.Metric("soak_reloads", reloader.loads());
    report_.Metric("soak_failed_reloads", reloader.failed());
    report_.Metric("soak_pending_at_end", pending);
    Tell(*counts, seconds);
    return {};
  }

  void Tell(const SoakCounts& counts, double seconds) {
    for (std::size_t fate = 0; fate < kFates; ++fate) {
      report_.Metric(fmt::format("soak_{}", kFateNames[fate]),
                     static_cast<double>(counts.fates[fate]));
    }
    report_.Metric("soak_requests", static_cast<double>(counts.Sent()));
    report_.Metric("soak_offered_per_s", static_cast<double>(counts.Sent()) / seconds);
    report_.Metric("soak_answered_per_s", static_cast<double>(counts.Of(Fate::kRight)) / seconds);
    report_.Metric("soak_most_error", counts.most_error);
    Times("soak_refusal_ms", counts.refusal_ms);
    Times("soak_answer_ms", counts.answer_ms);
    if (!counts.problems.empty()) report_.Field("problems", counts.problems);
  }

  /// The requests that the server still has some time after all clients have gone.
  Result<double> PendingAtEnd(const ServerProcess& server) {
    const TimePoint until = Now() + kEndLimit;
    ExchangeClient client(server.port("http"), server.port("grpc"));
    LAGOON_ASSIGN_OR_RETURN(double pending, client.Pending());
    // The server says how many requests it has only when it is asked.
    while (pending > 0 && Now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      LAGOON_ASSIGN_OR_RETURN(pending, client.Pending());
    }
    return pending;
  }

  const ReloadOptions& options_;
  const TemporaryFolder folder_;
  Report& report_;
  ProgressBar progress_;
  int shown_ = 0;
};

}  // namespace

Status RunReload(const ReloadOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Make());
  return ReloadBench(options, std::move(folder), report).Run();
}

}  // namespace lagoon::bench
