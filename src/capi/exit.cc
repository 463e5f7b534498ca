#include "capi/exit.h"

#include <atomic>
#include <cstdlib>
#include <vector>

#include "base/mutex.h"
#include "capi/handles.h"

namespace lagoon::capi {
namespace {

struct Devices {
  Mutex mutex;
  std::vector<std::weak_ptr<KeptDevice>> all GUARDED_BY(mutex);
};

/// Never freed, as exits come at any time.
Devices& Opened() {
  static Devices& devices = *new Devices;
  return devices;
}

void CloseAll() {
  Quietly([] {
    std::vector<std::shared_ptr<KeptDevice>> open;
    {
      Devices& devices = Opened();
      const MutexLock lock(devices.mutex);
      for (const auto& device : devices.all) {
        if (auto held = device.lock()) open.push_back(std::move(held));
      }
    }
    const TimePoint until = Now() + std::chrono::seconds(1);
    for (const auto& device : open) {
      if (device->device->usable()) device->Close(until);
    }
    // The handles are the program's, which may still have them: nothing is freed here.
    for (auto& device : open) new std::shared_ptr<KeptDevice>(std::move(device));
  });
}

}  // namespace

void CloseBeforeNewStatics() {
  // Few loads make static objects; later ones find them made.
  static std::atomic<int> times{0};
  if (times.fetch_add(1, std::memory_order_relaxed) < 32) std::atexit(CloseAll);
}

void CloseAtExit(const std::shared_ptr<KeptDevice>& device) {
  Devices& devices = Opened();
  {
    const MutexLock lock(devices.mutex);
    std::erase_if(devices.all, [](const auto& one) { return one.expired(); });
    devices.all.push_back(device);
  }
  CloseBeforeNewStatics();
}

}  // namespace lagoon::capi
