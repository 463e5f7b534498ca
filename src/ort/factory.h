#pragma once

// The functions that ONNX Runtime looks up in the library.

#include <cstddef>
#include <cstdint>

#include "ort/ort_abi.h"

extern "C" {

/// Makes one factory. ONNX Runtime calls this when the library is registered, once more for each
/// name that the library is registered under. An ONNX Runtime without version 23 of the ABI is
/// refused with a message that names its version.
lagoon::plugin::AbiStatus* CreateEpFactories(const char* registered_as,
                                             const lagoon::plugin::ApiBase* base,
                                             const lagoon::plugin::Logger* logger,
                                             lagoon::plugin::Factory** factories, std::size_t most,
                                             std::size_t* made);
lagoon::plugin::AbiStatus* ReleaseEpFactory(lagoon::plugin::Factory* factory);

/// Since the device was opened, of all sessions: runs that have ended; revocations; runs under way.
/// Zeros before. Any thread.
void LagoonOrtTotals(std::uint64_t totals[3]);
}
