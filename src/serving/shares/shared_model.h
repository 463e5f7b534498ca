#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/time.h"
#include "cluster/batch_limiter.h"
#include "cluster/monitor.h"
#include "cluster/surface.h"
#include "device/device.h"
#include "serving/config/share_settings.h"

namespace lagoon {

/// What ShareKeeper needs of a model that may have a share. One thread at a time calls, and a call
/// may block.
class SharedModel {
 public:
  /// What the model is known by, and what is asked of its share.
  struct Terms {
    std::string name, version;
    ShareSettings share;
    Nanoseconds slo{0};  // 0: only the arrivals decide how much the model needs
    SloOf slo_of = SloOf::kRequest;
    /// Part of the device that a share that is tuned has at first: the knee of the model's stored
    /// surface. Empty: there is none (kUnknownDemand).
    std::optional<double> knee = {};
    std::shared_ptr<const Surface> surface = nullptr;  // ModelShare::surface
  };

  virtual ~SharedModel() = default;
  virtual Terms ShareTerms() const = 0;
  /// No units: the model has all of the device. Loads nothing and fails no request.
  virtual Status MoveShare(UnitRange units) = 0;
  virtual Status SetWeight(double weight) = 0;
  virtual LoadReading ReadLoad(TimePoint now) = 0;
  /// The times of the model's batches so far mean nothing any more: its share has moved.
  virtual void ForgetTimes() = 0;
  virtual BatchNotice TakeNotice() = 0;
  virtual std::int64_t MostRows() const = 0;      // ModelShare::most_rows
  virtual void LimitRows(std::int64_t rows) = 0;  // ShareWanted::rows
};

}  // namespace lagoon
