#pragma once

// How models are compiled for their device, and profiled.

#include <functional>
#include <memory>

#include "base/status.h"
#include "base/time.h"
#include "engine/engine_host.h"
#include "program/open_device.h"
#include "program/profile/profile_file.h"
#include "serving/python/job.h"

namespace lagoon {

struct ProfileOptions {
  int runs = 5;  // standalone executions of a model that has no profile yet
  ProfileStore store;
};

struct LoadOptions {
  ProfileOptions profile;
  const KernelMaker* kernels = nullptr;     // CompileOptions::kernels
  std::shared_ptr<EngineHost> engine = {};  // null: there is none
  /// Set: the device of the load serves requests meanwhile. What must run on an idle device (a
  /// measurement, a check) runs on one that this opens, which is like the device of the load and is
  /// closed again. Its errors fail the load.
  std::function<Result<ComputeDevice>()> open_idle = {};
  Nanoseconds max_wait{0};    // CoreOptions::max_wait
  unsigned threads = 0;       // CoreOptions::load_threads
  PythonOptions python = {};  // of models of Python
  Nanoseconds split_long{0};  // CoreOptions::split_long
};

}  // namespace lagoon
