#pragma once

// The provider of one session.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "ort/options.h"
#include "ort/ort_abi.h"
#include "ort/subgraph.h"

namespace lagoon::plugin {

/// "LagoonExecutionProvider". Sessions choose the provider by this name.
const char* ProviderName();

/// Made by CreateProvider(), freed by ReleaseProvider(). ONNX Runtime calls its functions from one
/// thread at a time, but for those of runs and for dynamic options: any thread, several at once.
class Provider final : public Ep {
 public:
  /// `logger` lives as long as the provider.
  Provider(SessionSettings settings, LocalDevice& device, const Logger* logger);

  void Claim(const Graph* graph, SupportInfo* info);
  std::unique_ptr<Subgraph> Compile(const Graph* graph, const Node* fused);
  /// No Compute() of it is under way.
  void Forget(const Subgraph* subgraph);
  void SetDynamic(const std::string& key, const std::string& value);
  void Compute(Subgraph& subgraph, KernelContext* context);
  void RunStarts(const RunOptions* options);
  static void RunEnds();

 private:
  void Log(LogLevel level, const std::string& message) const;
  std::string NameOf(const Node* fused) const;

  SessionSettings settings_;
  std::string model_;      // its file, or the name of its graph
  std::size_t parts_ = 0;  // of the model that run on Lagoon
  LocalDevice& device_;
  const Logger* const logger_;
  std::atomic<bool> warned_of_threads_{false};
  // ONNX Runtime has freed constants behind the load, which the C library keeps.
  std::atomic<bool> memory_left_{false};
  Mutex mutex_;
  std::vector<Subgraph*> subgraphs_ GUARDED_BY(mutex_);
};

/// Options are those of the session (`SessionEntries`). Throws Failed.
Ep* CreateProvider(const SessionOptions* options, const Logger* logger);
void ReleaseProvider(Ep* ep);

}  // namespace lagoon::plugin
