#pragma once

// Loading and unloading models while others serve.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// What a client gives a load in place of what the repository has.
struct LoadOverride {
  std::string config;  // a ModelConfig as JSON, in place of config.pbtxt; empty: none
  /// By their path in the model's folder ("1/model.onnx"). If there are any, the model is made of
  /// them alone, `config` must be there, and the repository need not have the model.
  std::map<std::string, std::string> files;

  bool empty() const { return config.empty() && files.empty(); }
  std::size_t bytes() const {
    std::size_t sum = config.size();
    for (const auto& [path, contents] : files) sum += path.size() + contents.size();
    return sum;
  }
};

/// Any thread may call any method.
class RepositoryControl {
 public:
  virtual ~RepositoryControl() = default;

  /// Loads the model as the repository has it now, while other models serve. `done` is called once,
  /// on any thread, when the model answers requests. If the model was loaded before, requests in
  /// flight are answered by what was loaded before, which is freed then. On an error what was
  /// loaded before stays. The changes of one model are made in order; those of different models may
  /// overlap, so that a load of minutes does not hold up others.
  ///
  /// kNotFound: the repository has no such model. kInvalidArgument: the model cannot be served, or
  /// a job program runs it; the message may name paths of the server. kUnimplemented: a job
  /// program. kUnavailable: the device is lost, or too many changes wait.
  ///
  /// `with` holds until the model's next load, or until the device is lost: then the model is
  /// loaded as the repository has it.
  ///
  /// The shares of the device's other models make room at once. A tuned share of the model begins
  /// as when the server started; the others go on from what they have, and fixed ones and sizes
  /// that ResizeShare() gave stay.
  virtual void LoadModel(const std::string& model, LoadOverride with,
                         std::function<void(Status)> done) = 0;
  void LoadModel(const std::string& model, std::function<void(Status)> done) {
    LoadModel(model, {}, std::move(done));
  }
  /// Requests that come from now on find no such model. `done` is called once, on any thread, when
  /// the requests in flight are answered and the model's memory is free. kNotFound: the model is
  /// not loaded. Otherwise as LoadModel.
  virtual void UnloadModel(const std::string& model, std::function<void(Status)> done) = 0;
  /// The names of all models that lie in the repository now, loaded or not, in order. Reads the
  /// folder. Empty: it cannot be read, or is not on this machine.
  virtual std::vector<std::string> Found() const { return {}; }
};

}  // namespace lagoon
