#pragma once

#include <cstdint>
#include <string>

#include "bench/report/report.h"

namespace lagoon::bench {

struct ReloadOptions {
  std::string lagoon;  // path of the program
  int loads = 1000;
  int shapes = 10'000;
  double minutes = 60;
  double overload = 2;        // times what the server answers
  int clients = 64;           // at most, of the overload
  std::uint32_t workers = 0;  // 0: one per core
  std::uint32_t seed = 1;
};

/// Numbers of operators who reload, against `lagoon serve` in processes of its own, with models
/// that this benchmark writes (reload/models.h). A part is left out if its
/// option (`loads`, `shapes` or `minutes`) is 0.
/// Slopes are of the resident memory over the second half of a part, by least squares. Metrics:
///   reload_rss_kib_per_load     a model is loaded, asked and unloaded, again and again
///   reload_ms_p50, _p99         of a load
///   shapes_rss_kib_per_shape    requests of shapes that the server has not seen
///   shape_ms_p50, _p99          of such a request
///   soak_lost, soak_doubled, soak_wrong   of the mixed load (Soak) at `overload` times what the
///                               server has answered before; goals: 0. Answers are compared with
///                               those of the idle server
///   soak_rss_mib_per_hour
///   soak_requests, soak_right, soak_refused, soak_expired, soak_cancelled   numbers
///   soak_refusal_ms_p50, _p99, soak_answer_ms_p50, _p99
///   soak_capacity_per_s, soak_offered_per_s, soak_answered_per_s
///   soak_reloads                loads of models during the load, one of them in use
///   soak_failed_reloads, soak_pending_at_end        goals: 0
///   soak_most_error             of a right answer, relative to the largest value
/// A wrong answer before the mixed load is an error.
Status RunReload(const ReloadOptions& options, Report& report);

}  // namespace lagoon::bench
