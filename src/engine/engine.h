#pragma once

// An engine to fall back on: it computes the parts of a model that Lagoon has no kernels for.
//
// The interface has the six calls of GSLICE (section 3.1): load, describe, bind, run, stop, unload.
// docs/guide/engines.md says how to write another engine.
//
// Threads: an Engine and an EngineModel may be used by any number of threads at a time; an
// EngineBinding runs on one thread at a time, and only Stop() may come from another one meanwhile.
// An engine computes on the calling thread only: that thread is a worker of the device, and Lagoon
// accounts for one. It starts no threads and does not spin.
//
// Errors: kInvalidArgument for a model or tensors that the engine does not take; kUnimplemented for
// ops that the engine does not have; kResourceExhausted for memory; kCancelled after Stop();
// kInternal for all else. Messages say what is wrong, not which model: the caller adds this. No
// method throws.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon {

/// An ONNX model for an engine. One of the two is set.
struct EngineSource {
  std::string file;                  // a path; external data lie beside the file
  std::span<const std::byte> bytes;  // a serialised onnx::ModelProto; needed only during the call
};

/// The inputs and outputs of a loaded model, in the order of the file. A dim that the engine does
/// not know is -1. If it does not even know the rank of an output, the dims may be empty: only dims
/// that are all known, with a rank above 0, promise the shape of an output.
struct EngineSignature {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
};

/// A tensor in memory: dense row-major, little-endian. kBool is a byte, 0 or 1. kString is a
/// StringElement (plan/strings.h), whose bytes live as long as `data`.
struct EngineTensor {
  DataType type = DataType::kFloat32;
  Dims dims;
  /// Borrowed, aligned to 64 bytes, ElementCount(dims) elements; not null if there are elements.
  void* data = nullptr;
};

/// Tensors for the inputs and outputs of a model.
class EngineBinding {
 public:
  virtual ~EngineBinding() = default;

  /// Reads the bound inputs and writes the bound outputs. May be called any number of times. Fails
  /// if the shape of an output is not the bound one; the contents of outputs are then undefined.
  virtual Status Run() = 0;

  /// Asks a Run() that is under way to end early with kCancelled; a hint. Later runs are not
  /// affected. Any thread.
  virtual void Stop() = 0;

  /// The outputs as the last successful Run() made them: types and actual dims. Where the engine
  /// makes room, `data` are the elements, valid until the next Run() or the binding's end. They
  /// need not be aligned, and are null if there are none.
  virtual const std::vector<EngineTensor>& outputs() const = 0;
};

/// A loaded model. Destroying it unloads the model. Outlives its bindings.
class EngineModel {
 public:
  virtual ~EngineModel() = default;

  virtual const EngineSignature& Describe() const = 0;

  /// Binds memory, which must stay valid until the binding is destroyed. One tensor per input, with
  /// actual dims, and one per output. The engine reads and writes that memory without copies where
  /// it can. For an output with null `data` the engine makes room itself: its type and dims are
  /// ignored. Outputs of kString always have null `data`.
  virtual Result<std::unique_ptr<EngineBinding>> Bind(std::span<const EngineTensor> inputs,
                                                      std::span<const EngineTensor> outputs) = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// For people: "ONNX Runtime 1.31.1".
  virtual const std::string& name() const = 0;

  /// Takes seconds for a large model. The engine outlives the model.
  virtual Result<std::unique_ptr<EngineModel>> Load(const EngineSource& source) = 0;
};

}  // namespace lagoon
