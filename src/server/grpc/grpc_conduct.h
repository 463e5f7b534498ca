#pragma once

#include <algorithm>
#include <chrono>
#include <string_view>

#include "base/time.h"

namespace lagoon {

/// Whether a connection sends more frames than its calls need. For one connection, one thread at a
/// time.
class GrpcConduct {
 public:
  /// A client may leave calls without an answer: kFailures at once, and then kFailuresPerSecond. An
  /// attack resets some 20,000 a second (CVE-2023-44487).
  static constexpr double kFailures = 4000;
  static constexpr double kFailuresPerSecond = 2000;
  /// The same of frames that carry no call on: pings, settings, changes of windows. Each frame that
  /// does carry one on allows kControlsPerUse more.
  static constexpr double kControls = 4000;
  static constexpr double kControlsPerSecond = 2000;
  static constexpr double kControlsPerUse = 2;

  explicit GrpcConduct(TimePoint now) : failures_{kFailures, now}, controls_{kControls, now} {}

  // Empty: the connection may stay. Else what it does, for the log.

  /// A call ended without an answer: it was reset or refused.
  std::string_view OnFailure(TimePoint now) {
    if (failures_.Take(kFailures, kFailuresPerSecond, now)) return {};
    return "it resets its calls faster than a client that gives up";
  }
  /// A frame came that carries no call on.
  std::string_view OnControl(TimePoint now) {
    if (controls_.Take(kControls, kControlsPerSecond, now)) return {};
    return "it sends frames that belong to no call";
  }
  /// A call began, or a piece of a message was received or sent.
  void OnUse() { controls_.left += kControlsPerUse; }

 private:
  struct Bucket {
    double left;
    TimePoint filled;

    // What is left never lasts for more than `most`.
    bool Take(double most, double per_second, TimePoint now) {
      const std::chrono::duration<double> passed = now - filled;
      filled = now;
      left = std::min(most, left + passed.count() * per_second) - 1;
      return left >= 0;
    }
  };

  Bucket failures_;
  Bucket controls_;
};

}  // namespace lagoon
