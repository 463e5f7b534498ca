#pragma once

// What every edge calls: requests for models, and what is known of the models.

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "serving/core/models.h"
#include "serving/core/request.h"

namespace inference {
class ModelConfig;  // generated from model_config.proto, Triton's names and numbers
}

namespace lagoon {

class FleetControl;
class RepositoryControl;
class SchedulerControl;
class ShareControl;

/// A core: it answers requests for its models. Any thread may call any method.
class Inference {
 public:
  virtual ~Inference() = default;

  virtual bool Ready() const = 0;  // models are loaded, and the core is not draining
  virtual std::vector<ModelStatus> Models() const = 0;
  /// kNotFound names the model or version. kUnavailable names them and refers to the log: the
  /// reason of a failed load names paths of the server, which remote clients must not see.
  virtual Status ModelReady(const std::string& model, const std::string& version) const = 0;
  virtual Result<ModelMetadata> Metadata(const std::string& model,
                                         const std::string& version) const = 0;
  virtual Result<inference::ModelConfig> Config(const std::string& model,
                                                const std::string& version) const = 0;
  /// Empty `model`: all models.
  virtual Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                          const std::string& version) const = 0;

  /// Validates, admits and returns. The answer or error comes through `callback`, possibly on this
  /// thread and before Infer returns. A full queue answers kUnavailable at once.
  virtual RequestHandle Infer(InferRequest request, InferCallback callback) = 0;
  /// For a client that went away. Ignores a handle that is no longer in flight.
  virtual void Cancel(RequestHandle handle) = 0;

  /// Refuses new requests, waits until those in flight are answered or `until`, then ends the rest,
  /// which are answered kUnavailable, and waits for their answers.
  virtual void Drain(TimePoint until) = 0;

  // The facets: what else there is to see and to change. Null: this core has no such thing. Each is
  // the same from the first call to the last, and lives as long as the core.
  virtual SchedulerControl* schedulers() { return nullptr; }
  virtual ShareControl* shares() { return nullptr; }
  virtual RepositoryControl* repository() { return nullptr; }
  virtual FleetControl* fleet() { return nullptr; }
};

}  // namespace lagoon
