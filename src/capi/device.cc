// lagoon.h: devices, statistics and traces.

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "capi/exit.h"
#include "capi/handles.h"

namespace lagoon::capi {
namespace {

Result<LocalDeviceOptions> FromC(const lagoon_device_options& from) {
  LocalDeviceOptions options;
  if (from.device != nullptr) options.device.name = from.device;
  options.device.workers = from.workers;
  if (from.core_count > 0 && from.cores == nullptr)
    return tl::unexpected<Error>(
        Null("lagoon_device_options: `cores`, which has a core_count,").error());
  if (from.cores != nullptr && from.core_count == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "lagoon_device_options: `cores` is set and core_count is 0");
  }
  if (from.cores != nullptr) options.cores.assign(from.cores, from.cores + from.core_count);
  if (from.scheduler != nullptr) options.scheduler = from.scheduler;
  options.worker_nice = from.worker_nice;
  options.worker_fifo = from.worker_fifo;
  if (from.spin_us == LAGOON_NO_SPIN) {
    options.spin = Nanoseconds(0);
  } else if (from.spin_us > 0) {
    options.spin = std::chrono::microseconds(from.spin_us);
  }
  options.trace_events = from.trace_events;
  options.version = LAGOON_VERSION;
  return options;
}

Status Usable(const lagoon_device* device) {
  if (device == nullptr) return Null("the device");
  if (!device->open->device->usable()) return tl::unexpected<Error>(LocalDevice::ForkedError());
  return {};
}

// `done` is called by the thread that `function` would wait for.
Status NotWithinDone(const char* function) {
  if (!Run::AnyInDone()) return {};
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{} within `done` of a run", function));
}

void Add(const LocalModelStatistics& of, lagoon_stats& to) {
  to.done += of.done;
  to.expired += of.expired;
  to.cancelled += of.cancelled;
  to.superseded += of.superseded;
  to.too_late += of.too_late;
  to.failed += of.failed;
  to.late += of.late;
  to.revocations += of.revocations;
  to.compiled += of.compiled;
  to.queued_ns += of.queued.count();
  to.computed_ns += of.computed.count();
  to.pending += of.pending;
}

}  // namespace
}  // namespace lagoon::capi

using namespace lagoon;        // NOLINT: the functions of the border are of no namespace
using namespace lagoon::capi;  // NOLINT: for the same

const char* lagoon_version(void) { return LAGOON_VERSION; }
uint32_t lagoon_abi(void) { return 1; }

const char* lagoon_code_name(lagoon_code code) {
  const int number = NumberOf(code);
  if (number < LAGOON_OK || number > LAGOON_TOO_LATE) return "unknown";
  // Names are of literals, so that they end with a zero byte.
  return Name(static_cast<RunCode>(number)).data();
}

lagoon_code lagoon_device_open(const lagoon_device_options* options, lagoon_device** device,
                               lagoon_error* error) {
  return Call(error, [&]() -> Status {
    if (device == nullptr) return Null("the place for the device");
    *device = nullptr;
    lagoon_device_options given;
    LAGOON_RETURN_IF_ERROR(ReadOptions(options, "lagoon_device_options", given));
    LAGOON_ASSIGN_OR_RETURN(const LocalDeviceOptions opens, FromC(given));
    LogToHostOnly();
    std::unique_ptr<HostLog> log;
    if (given.log != nullptr) log = std::make_unique<HostLog>(given.log, given.log_arg);
    LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<LocalDevice> opened, LocalDevice::Open(opens));
    auto open = std::make_shared<capi::KeptDevice>(std::move(log), std::move(opened));
    CloseAtExit(open);
    *device = new lagoon_device{std::move(open)};
    return {};
  });
}

void lagoon_device_close(lagoon_device* device) {
  if (device == nullptr) return;
  Quietly([&] {
    if (Run::AnyInDone()) {
      spdlog::error("lagoon_device_close within `done` of a run: the device stays open");
      return;
    }
    if (device->open->device->usable()) {
      const std::size_t models = device->open->Models().size();
      if (models > 0) {
        spdlog::error("lagoon_device_close: {} models of the device are not freed", models);
      }
      device->open->Close(kNoDeadline);
    }
    delete device;
  });
}

lagoon_code lagoon_device_scheduler(lagoon_device* device, const char* scheduler,
                                    lagoon_error* error) {
  return Call(error, [&]() -> Status {
    LAGOON_RETURN_IF_ERROR(Usable(device));
    LAGOON_RETURN_IF_ERROR(NotWithinDone("lagoon_device_scheduler"));
    if (scheduler == nullptr) return Null("the scheduler");
    return device->open->device->SwitchScheduler(scheduler);
  });
}

lagoon_code lagoon_statistics(lagoon_device* device, lagoon_model* model_or_null,
                              lagoon_stats* stats) {
  return Call(nullptr, [&]() -> Status {
    LAGOON_RETURN_IF_ERROR(Usable(device));
    lagoon_stats sum = LAGOON_STATS_INIT;
    if (model_or_null != nullptr) {
      if (model_or_null->open->device != device->open) {
        return Fail(ErrorCode::kInvalidArgument, "the model is of another device");
      }
      Add(model_or_null->open->model->Statistics(), sum);
    } else {
      for (const auto& model : device->open->Models()) Add(model->model->Statistics(), sum);
    }
    const LocalDeviceStatistics of = device->open->device->Statistics();
    sum.device_revocations = of.dispatcher.revocations;
    sum.launches = of.dispatcher.launches;
    sum.under_way = of.in_flight;
    sum.workers = of.workers;
    return WriteResult(sum, "lagoon_stats", stats);
  });
}

lagoon_code lagoon_trace_write(lagoon_device* device, const char* path, lagoon_error* error) {
  return Call(error, [&]() -> Status {
    LAGOON_RETURN_IF_ERROR(Usable(device));
    LAGOON_RETURN_IF_ERROR(NotWithinDone("lagoon_trace_write"));
    if (path == nullptr) return Null("the path");
    return device->open->device->WriteTrace(path);
  });
}
