#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/cuda/driver/driver.h"
#include "device/device.h"

namespace lagoon {

namespace cuda {

/// An entry kernel, of one or several bodies (device/cuda/gpu/entry.cuh).
struct EntryName {
  std::string name;  // of the entry kernel in the image
  std::uint32_t threads = 256;
};

/// Code that a GPU loads as one module. Must outlive all kernels loaded from it.
class Program {
 public:
  virtual ~Program() = default;
  virtual const std::string& name() const = 0;
  virtual std::span<const EntryName> entries() const = 0;
  /// The image for this GPU, as cuModuleLoadData takes it. Any thread, may take seconds.
  virtual Result<std::string> ImageFor(const GpuInfo& gpu) const = 0;
};

class GpuSession;  // session.h

/// A program in a GPU's context. The owner of this struct unloads the module.
struct LoadedProgram {
  Module module = nullptr;
  // By entry. Each function may use as much shared memory as a block can have.
  std::vector<Function> functions;
};

/// Makes the context current on the calling thread. Errors name the program and the call.
Result<LoadedProgram> LoadProgram(const GpuSession& session, const Program& program);

}  // namespace cuda

/// A kernel's body on an NVIDIA GPU: CodeImage::cuda. KernelSpec::scratch_bytes is the shared
/// memory of a block.
struct CudaImage {
  const cuda::Program* program = nullptr;
  std::uint32_t body = 0;        // number of the body in its entry
  std::uint32_t entry = 0;       // number of the entry in the program
  std::uint32_t args_bytes = 0;  // copied into the launch; 0: the pointer itself is copied
};

}  // namespace lagoon
