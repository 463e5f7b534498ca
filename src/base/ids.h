#pragma once

#include <cstdint>
#include <functional>

namespace lagoon {

// Opaque identifiers. The comment names the only issuer of each; elsewhere the number means
// nothing.
enum class StreamId : std::uint32_t {};  // DeviceControl::CreateStream
enum class GuardId : std::uint32_t {};   // DeviceControl::CreateGuard
enum class ShareId : std::uint32_t {};   // DeviceControl::CreateShare
enum class LaunchId : std::uint64_t {};  // the code that submits the launch (the dispatcher)
enum class JobId : std::uint64_t {};    // Dispatcher, in order of posting; breaks ties between jobs
enum class QueueId : std::uint32_t {};  // Dispatcher::AddQueue
enum class ClientId : std::uint32_t {};  // ClientOf(): a queue or a tenant, for fairness

template <typename Id>
constexpr auto Raw(Id id) {
  return static_cast<std::underlying_type_t<Id>>(id);
}

}  // namespace lagoon
