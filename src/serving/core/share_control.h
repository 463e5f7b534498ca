#pragma once

// The shares of a device's models, as /v2/shares shows and changes them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "cluster/batch_limiter.h"
#include "cluster/monitor.h"
#include "cluster/surface.h"
#include "device/device.h"

namespace lagoon {

/// What a share is.
enum class ShareKind : std::uint8_t {
  kUnits,   // a range of units (Dispatcher::MoveShare), under every scheduler
  kWeight,  // a part of the unit time (Dispatcher::SetWeight), under the scheduler `weighted`
};

/// Where ModelShare::demand is from.
enum class DemandFrom : std::uint8_t {
  kFixed,    // lagoon.share, an operator, or the placer of a fleet
  kSurface,  // the knee of the model's stored surface
  kDefault,  // nothing is known of the model yet (kUnknownDemand)
  kLoad,     // what the model did
};

struct ShareChange {
  double from = 0, to = 0;  // parts of the device; from 0: the model had none
  std::string why;
  TimePoint at;
};

struct ModelShare {
  std::string model, version;
  /// Empty: the model has no share and may use the whole device.
  std::optional<double> share;  // part of the device
  bool fixed = false;           // not tuned
  double demand = 0;            // part of the device that the model needs, as far as known
  DemandFrom demand_from = DemandFrom::kDefault;
  UnitRange units;  // no units: all of the device
  double weight = 1;
  Nanoseconds slo{0};  // 0: none
  SloOf slo_of = SloOf::kRequest;
  LoadReading load;
  /// Times of batches alone on this device, from `lagoon profile --shares --save`. Null: none.
  std::shared_ptr<const Surface> surface = nullptr;
  std::int64_t most_rows = 0;  // of a batch, now; 0: requests are not joined
  std::int64_t ceiling = 0;    // ShareWanted::rows
  std::uint64_t moves = 0;
  std::optional<ShareChange> last;
};

struct SharesReport {
  ShareKind kind = ShareKind::kUnits;
  bool tuning = true;        // shares that are not fixed follow the load
  double trigger = 0;        // ShareTuner::Options
  Nanoseconds hold_down{0};  // ShareTuner::Options
  std::uint32_t units = 0;   // of the device
  std::uint32_t granule = 1;
  std::vector<ModelShare> models;
};

/// Parts that are not given stay as they are.
struct SharesRules {
  std::optional<bool> tuning;
  std::optional<double> trigger;
  std::optional<Nanoseconds> hold_down;
};

/// A model's share from now on. Exactly one of the first four is given.
struct ShareWanted {
  std::optional<std::uint32_t> units = {};
  std::optional<double> part = {};
  bool automatic = false;
  bool none = false;  // all of the device, next to all others
  /// Batches have at most so many rows, whatever else allows more. 0: only the rest limits them.
  std::int64_t rows = 0;
};

/// The shares of a core's device. Any thread may call any method.
class ShareControl {
 public:
  virtual ~ShareControl() = default;

  /// All models that are no job programs, with their loads and shares.
  virtual Result<SharesReport> ReadShares() const = 0;
  /// How shares are tuned from now on. kInvalidArgument names the rule and its value; then nothing
  /// changes.
  virtual Status SetSharesRules(const SharesRules& rules) = 0;
  /// Moves the model's share at once; requests go on. kNotFound; kInvalidArgument also if the fixed
  /// shares would be more than the device. Then nothing changes.
  virtual Status ResizeShare(const std::string& model, const std::string& version,
                             const ShareWanted& wanted) = 0;
};

}  // namespace lagoon
