#pragma once

// Shares that follow the load while models serve (GSLICE 3.2 and 4.4), in virtual time.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench/report/report.h"

namespace lagoon::bench {

struct TuneOptions {
  std::string gpu = "v100";  // simulated
  /// Kernel lists of that GPU, at least two, each once.
  std::vector<std::string> models = {"vgg19", "resnet50", "alexnet"};
  /// Virtual, at least 1. The run has as many phases of equal length as there are models. In each
  /// phase another model is hot, in the order of `models`.
  double seconds = 60;
  double hot = 0.6;   // arrivals of the hot model: part of what it does alone on the whole device
  double cold = 0.1;  // the same for the other models
  double slo_factor = 10;   // SLO of a request: so many times its time alone
  double hold_down_s = 10;  // ShareKeeper::Options
  unsigned seed = 1;        // of the Poisson arrivals, which are the same for every side
};

struct TuneSide {
  std::string_view name, scheduler;
  enum class Shares : std::uint8_t { kTuned, kEqual, kNone } shares = Shares::kTuned;
  // Of shares that are tuned: what the server does and the paper does not.
  bool headroom = true, surplus = true, growth = true, knee = true;
};

/// tuned         the server's ShareKeeper tunes the shares, which are fences
/// paper         the same as in the paper: arrivals may use all of a share, what no model needs
///               stays idle, every model that moved stays for the hold-down, and shares begin at
///               30 %
/// headroom, surplus, growth, knee   the paper's, with one of the server's changes: a fifth of a
///               share to spare; what no model needs is handed out; a missed SLO grows at once; the
///               knee is the first share
/// tuned-lent    the same under `lagoon`, which lends units that a model does not use
/// equal         fixed shares of equal size
/// no-shares     every model may use the whole device (`streams`)
const std::vector<TuneSide>& TuneSides();

struct TuneDecision {
  double at_s = 0;  // since the start
  std::string model;
  double from = 0, to = 0;  // parts of the device; from 0: the first share
  std::string why;
};

struct TunedModel {
  std::string name;
  double slo_ms = 0;
  std::vector<double> rates;  // by phase: requests a second
  std::uint64_t arrived = 0;
  std::vector<double> latencies_ms;   // of all answers, from arrival to answer
  std::vector<double> share_percent;  // at the end of each second
};

struct TuneRun {
  std::vector<TunedModel> models;
  std::vector<TuneDecision> decisions;
  std::uint64_t lost = 0;  // requests that ended without an answer
};

/// One side. kInvalidArgument names the option and its value; kNotFound a model without a list.
Result<TuneRun> RunTuneSide(const TuneOptions& options, const TuneSide& side);

/// From `begin_s` to the last move of a share before `end_s`. Empty: nothing moved.
std::optional<double> SettleSeconds(const std::vector<TuneDecision>& decisions, double begin_s,
                                    double end_s);

/// All sides. Metrics, for a side S, a model M, a second N and a phase P (from 1):
///   throughput_ips.S.M                       answers in the length of the run, a second
///   latency_ms_p50.S.M, latency_ms_p99.S.M   from arrival to answer (p90 with less than 1,000)
///   slo_kept.S.M, slo_kept.S                 part of the requests that was answered within the SLO
///   share_percent.M.tN                       side `tuned`, at the end of the second
///   settle_s.pP                              side `tuned`: from the begin of the phase, when the
///                                            loads change, to its last move
///   moves.S, requests_lost.S                 moves of shares; requests without an answer
/// Fields: "phases" [{"begin_s", "hot", "rates_ips": {M}}], "slo_ms" {M}, "decisions" of the side
/// `tuned` [{"at_s", "model", "from_percent", "to_percent", "why"}].
Status RunTune(const TuneOptions& options, Report& report);

}  // namespace lagoon::bench
