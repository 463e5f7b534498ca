#pragma once

// What a core over one device is opened with.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "program/open_device.h"
#include "serving/core/share_control.h"
#include "serving/core/tenant_statistics.h"
#include "serving/model/load_options.h"

namespace lagoon {

class EngineHost;
class LateLog;        // serving/late/late_log.h
class TraceRecorder;  // trace/recorder.h

/// How long the core waits before it opens a lost device again. The pause doubles every time that
/// opening fails, or that the device is lost again within `longest`; it never exceeds `longest`.
struct ReopenPauses {
  Nanoseconds first = std::chrono::seconds(1);
  Nanoseconds longest = std::chrono::minutes(1);
  /// After so many tries in a row that fail, CoreOptions::on_gone is called. With the pauses above
  /// that is after half a minute.
  int tries = 5;
};

struct CoreOptions {
  std::string repository;  // Triton's layout
  /// The models to load when the core opens. Empty: all of the repository.
  std::optional<std::vector<std::string>> models = {};
  std::string scheduler = "reset";  // MakeScheduler()
  DeviceChoice device;
  std::string engine;  // ChooseEngine()
  /// An engine of the program's own, in place of `engine`. Null: there is none.
  std::shared_ptr<EngineHost> engine_host = {};
  std::string python = "python3";  // the interpreter of models of Python: a path, or one of PATH
  /// What the shares of models are (lagoon.share). Empty: weights under the scheduler `weighted`
  /// and on devices that have no ranges of units, else units.
  std::optional<ShareKind> shares;
  /// What no share needs goes to all shares that are tuned, in proportion; else it stays idle.
  bool share_surplus = true;
  ProfileOptions profile;
  /// A model without lagoon.parts runs in parts if it takes longer alone than this (CutIfLong).
  /// 0: none does.
  Nanoseconds split_long{0};
  /// A best-effort request that has waited for so long and has not begun is refused, kUnavailable:
  /// where real-time requests keep the device busy, no client waits without an end. 0: it waits on.
  Nanoseconds max_wait = std::chrono::seconds(30);
  /// Under every scheduler that preempts: SchedulerConfig::best_effort_minimum. 1 % lets a model
  /// answer now and then, so that neither its requests nor its clients wait for ever, and makes a
  /// real-time request wait for 10 ms once a second at most. 0: real-time work may take all.
  double best_effort_minimum = 0.01;
  /// Where requests say whose they are. Policies with deficits (`lagoon`, `paella`) are then fair
  /// among tenants, and no longer among models.
  TenantSource tenants = TenantSource::kNone;
  /// Threads that prepare models when the core opens; what runs on the device runs behind that, one
  /// model after the other. 0: as many as the process has cores.
  unsigned load_threads = 0;
  ReopenPauses reopen;
  /// Called once per loss, on a thread of the core, when the device has not opened again in
  /// ReopenPauses::tries tries. The core goes on trying. It must not call the core. May be empty.
  std::function<void(const std::string& why)> on_gone = {};
  LateLog* late = nullptr;         // gets all requests that miss their deadlines; outlives the core
  TraceRecorder* trace = nullptr;  // records all requests; outlives the core; null: no trace
};

}  // namespace lagoon
