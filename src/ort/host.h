#pragma once

// The one device of all sessions of the process.

#include "base/status.h"
#include "local/local_device.h"
#include "ort/options.h"

namespace lagoon::plugin {

/// Opens the device with the first call, whose settings decide; later calls must agree
/// (CheckAgree). The device lives until the process ends: its workers may run when the last session
/// is gone, and the library is never unloaded. Any thread. kUnavailable in a forked child.
Result<LocalDevice*> OpenDeviceOfProcess(const ProcessSettings& wanted);

/// The device, if it is open; else null.
LocalDevice* DeviceOfProcess();

/// After a load, which may have made static objects of the core: the next exit() waits for the runs
/// under way before it destroys them. Few loads make static objects; later ones find them made.
void EndBeforeNewStatics();

/// Whether this is a forked child of the process that has opened the device. There are no workers
/// then, and locks may be held for ever.
bool InForkedChild();

/// Around each run. kUnavailable: it is the forked child of the process that has opened the device,
/// or a handler of exit() runs a session. At exit() the process waits for the runs inside, a second
/// at most, and later ones of other threads never return.
class InsideRun {
 public:
  InsideRun();
  ~InsideRun();
  InsideRun(const InsideRun&) = delete;
  InsideRun& operator=(const InsideRun&) = delete;
  /// Whether the run may begin.
  Status Check() const;
};

}  // namespace lagoon::plugin
