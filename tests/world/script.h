#pragma once

// What happens in a world, as a text that can be drawn from a seed, shortened and replayed.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "world/threads.h"

namespace lagoon::world {

/// What a client does, after a pause.
struct Event {
  enum class Kind : std::uint8_t {
    kInfer,    // model; number: contents; first: timeout in us, 0: none; second: priority
    kCancel,   // number: which of the client's last requests, from 0
    kLoad,     // model; number: the new configuration
    kUnload,   // model
    kSwitch,   // number: which scheduler
    kResize,   // model; number: part of the device in thousandths, 0: automatic
    kHold,     // from now on, kernels of the engine wait
    kRelease,  // no longer
    kLose,     // the device; number: how often opening it fails then
    kStarve,   // number: which allocation fails, from now on; first: how many then
    kLook,     // reads everything that can be read, and checks it
    kAwait,    // until all of the client's requests are answered
  };
  Kind kind{};
  std::uint32_t client = 0;
  std::uint64_t pause_us = 0;
  std::string model;
  std::uint64_t number = 0, first = 0, second = 0;
};

struct Script {
  ThreadOptions threads;
  std::uint32_t devices = 1;  // 2 or more: a fleet, whose placer moves models all the time
  std::uint32_t workers = 2;
  std::uint32_t scheduler = 0;
  std::uint64_t config = 0;         // of the models at the start
  std::vector<std::string> models;  // loaded at the start
  std::vector<Event> events;        // each client does its own in order
};

inline constexpr std::uint32_t kClients = 3;

/// Schedulers that events name by number.
const std::vector<std::string>& SchedulerTexts();

Script DrawScript(std::uint64_t seed);
/// One line for the settings, and one for each event.
std::string ToText(const Script& script);
/// kInvalidArgument names the line.
Result<Script> ParseScript(const std::string& text);

}  // namespace lagoon::world
