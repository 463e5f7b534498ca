#pragma once

// NVIDIA's run-time compiler, found at run time like the driver.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace lagoon::cuda {

/// A file that sources include by `name`.
struct SourceFile {
  std::string name;  // "device/cuda/gpu/entry.cuh"
  std::string text;
};

/// Any thread.
class Nvrtc {
 public:
  /// kUnavailable, saying what was looked for and what to do. `libraries`: file names or paths; the
  /// first that opens is used. Empty: those of the known toolkits. `newest`: CUDA's version of the
  /// driver, which loads no code of a later one; 0: any.
  static Result<std::shared_ptr<const Nvrtc>> Load(const std::vector<std::string>& libraries = {},
                                                   int newest = 0);
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  /// "13.0"
  const std::string& version() const { return version_; }

  /// Compiles to a cubin for sm_`arch` (90). kInternal with the compiler's log. Takes seconds.
  Result<std::string> Compile(const SourceFile& main, std::span<const SourceFile> headers,
                              int arch) const;

 private:
  using Program = void*;
  Nvrtc() = default;
  Status Resolve(const std::string& library);
  Result<std::string> Finish(Program program, const std::string& name,
                             std::span<const std::string> options) const;
  std::string LogOf(Program program) const;

  void* handle_ = nullptr;  // from dlopen; never closed: such libraries do not unload cleanly
  std::string version_;
  int major_ = 0;
  int (*get_version_)(int* major, int* minor) = nullptr;
  int (*create_)(Program* program, const char* source, const char* name, int headers,
                 const char* const* texts, const char* const* names) = nullptr;
  int (*compile_)(Program program, int options, const char* const* words) = nullptr;
  int (*log_size_)(Program program, std::size_t* bytes) = nullptr;
  int (*log_)(Program program, char* text) = nullptr;
  int (*cubin_size_)(Program program, std::size_t* bytes) = nullptr;
  int (*cubin_)(Program program, char* image) = nullptr;
  int (*destroy_)(Program* program) = nullptr;
  const char* (*error_text_)(int code) = nullptr;
};

}  // namespace lagoon::cuda
