#pragma once

#include <memory>

namespace lagoon::capi {

class KeptDevice;

/// Where the process exits while the device is open: its runs are cancelled before static objects
/// of this library are destroyed, which they use. Waits for a second at most.
void CloseAtExit(const std::shared_ptr<KeptDevice>& device);

/// Static objects may have been made since: the next exit closes devices before they are destroyed.
void CloseBeforeNewStatics();

}  // namespace lagoon::capi
