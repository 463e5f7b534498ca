#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "server/telemetry/span_exporter.h"
#include "serving/core/inference.h"

namespace lagoon {

/// A core that gives the spans of its requests to an exporter, and is otherwise the core below. A
/// request that is part of a client's trace (InferRequest::trace) is traced if the client says so
/// (`sampled`); of the others one in `rate` begins a trace of its own.
class TracedCore final : public Inference {
 public:
  /// Both are borrowed and outlive the object. `rate`: at least 1; 0: only what clients ask for.
  TracedCore(Inference& core, SpanExporter& exporter, std::uint64_t rate)
      : core_(core), exporter_(exporter), rate_(rate), draws_(Seed()) {}

  RequestHandle Infer(InferRequest request, InferCallback callback) override;

  bool Ready() const override { return core_.Ready(); }
  std::vector<ModelStatus> Models() const override { return core_.Models(); }
  Status ModelReady(const std::string& model, const std::string& version) const override {
    return core_.ModelReady(model, version);
  }
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override {
    return core_.Metadata(model, version);
  }
  Result<inference::ModelConfig> Config(const std::string& model,
                                        const std::string& version) const override;
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const override {
    return core_.Statistics(model, version);
  }
  void Cancel(RequestHandle handle) override { core_.Cancel(handle); }
  void Drain(TimePoint until) override { core_.Drain(until); }
  SchedulerControl* schedulers() override { return core_.schedulers(); }
  ShareControl* shares() override { return core_.shares(); }
  RepositoryControl* repository() override { return core_.repository(); }
  FleetControl* fleet() override { return core_.fleet(); }

 private:
  static std::uint64_t Seed();
  bool Wanted(const TraceContext& context);
  /// Not 0.
  std::uint64_t NewId();

  Inference& core_;
  SpanExporter& exporter_;
  const std::uint64_t rate_;
  std::atomic<std::uint64_t> requests_{0};  // without a client's trace
  std::atomic<std::uint64_t> draws_;        // a counter that is hashed: ids need no lock
};

}  // namespace lagoon
