#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/cuda/driver.h"
#include "device/device.h"

namespace lagoon {

namespace cuda {

/// An entry kernel: a class of bodies (device/cuda/entry.cuh).
struct EntryName {
  std::string name;  // of the kernel in the image
  std::uint32_t threads = 256;
};

/// Code that a GPU loads as one module. Lives as long as any kernel of it.
class Program {
 public:
  virtual ~Program() = default;
  virtual const std::string& name() const = 0;
  /// Lightest first; an entry has the bodies of those before it, and more.
  virtual std::span<const EntryName> entries() const = 0;
  /// What cuModuleLoadData takes, for this GPU. Any thread, may take seconds.
  virtual Result<std::string> ImageFor(const GpuInfo& gpu) const = 0;
};

class GpuSession;  // session.h

/// A program in a GPU's context. Whoever has it unloads the module.
struct LoadedProgram {
  Module module = nullptr;
  std::vector<Function> functions;  // by entry; may have all the shared memory that a block can
};

/// Makes the context the calling thread's. Errors name the program and the call.
Result<LoadedProgram> LoadProgram(const GpuSession& session, const Program& program);

}  // namespace cuda

/// A kernel's body on an NVIDIA GPU: CodeImage::cuda. KernelSpec::scratch_bytes is the shared
/// memory of a block.
struct CudaImage {
  const cuda::Program* program = nullptr;
  std::uint32_t body = 0;        // its number in the entries that have it
  std::uint32_t entry = 0;       // the lightest of them
  std::uint32_t args_bytes = 0;  // copied into the launch; 0: the pointer itself is
};

}  // namespace lagoon
