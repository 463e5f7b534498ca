#pragma once

#include <cstdint>
#include <functional>

namespace lagoon {

// Opaque identifiers. Each is issued by one owner and means nothing elsewhere.
enum class StreamId : std::uint32_t {};  // DeviceControl::CreateStream
enum class GuardId : std::uint32_t {};   // DeviceControl::CreateGuard
enum class LaunchId : std::uint64_t {};  // the submitter of a launch (the dispatcher)
enum class JobId : std::uint64_t {};     // Dispatcher, in order of posting; ties break by it
enum class QueueId : std::uint32_t {};   // Dispatcher::AddQueue

template <typename Id>
constexpr auto Raw(Id id) {
  return static_cast<std::underlying_type_t<Id>>(id);
}

}  // namespace lagoon
