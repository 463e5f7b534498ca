#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/client/control_groups.h"

namespace lagoon::bench {

/// Ways in which an operating system prefers the process of a real-time model to those of
/// background models: not at all ("plain"), "nice19" and "idle" (SCHED_IDLE) for the background,
/// "cgroup" (weights of control groups), and "fifo" (SCHED_FIFO for the real-time model).
inline constexpr const char* kOsSettings[] = {"plain", "nice19", "idle", "cgroup", "fifo"};

bool IsOsSetting(const std::string& word);

/// kUnavailable: this system does not permit the setting; the message says why.
Status Permitted(const std::string& setting);

/// ONNX Runtime in a process for each of several models beside each other, under one setting.
class OnnxRuntimeBeside {
 public:
  static Result<std::unique_ptr<OnnxRuntimeBeside>> Open(const std::string& setting);

  /// Starts a process, with as many threads as cores (unless `options` says otherwise) and without
  /// spinning: sessions that spin would take the cores of the others.
  Status Add(const std::string& file, bool real_time, ComparatorOptions options);

  /// In the order of Add().
  ComparatorProcess& operator[](std::size_t i) { return *processes_[i]; }
  std::size_t size() const { return processes_.size(); }

 private:
  explicit OnnxRuntimeBeside(const std::string& setting) : setting_(setting) {}

  const std::string setting_;
  std::unique_ptr<ControlGroups> groups_;  // removed when the processes have ended
  std::vector<std::unique_ptr<ComparatorProcess>> processes_;
};

/// What a setting has shown.
struct SettingShown {
  double tail = 0;  // p99 of the real-time requests, over that without a background
  bool late = false;
  double work = 0;
};
/// The largest `tail` of a setting that keeps its real-time promise.
inline constexpr double kMostTail = 1.10;

/// The setting that a user would choose: of those that keep the promise the one with the most work;
/// where none does, the one with the shortest tail. Not empty.
std::size_t BestSetting(const std::vector<SettingShown>& shown);

}  // namespace lagoon::bench
