#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/cuda/driver/image_cache.h"
#include "device/cuda/driver/nvrtc.h"
#include "device/cuda/driver/program.h"

namespace lagoon::cuda {

/// A program as CUDA C++ source. Compiled for the GPU at hand when it is first loaded; later loads
/// find the image in the cache.
class SourceProgram final : public Program {
 public:
  struct Source {
    SourceFile main;
    std::vector<SourceFile> headers;  // all headers that `main` includes
    std::vector<EntryName> entries;   // lightest first
  };

  /// `nvrtc`: library files, as Nvrtc::Load takes them. The key of an image contains the compiler's
  /// version, so NVRTC must be there even if the image is in the cache.
  SourceProgram(Source source, ImageCache cache, std::vector<std::string> nvrtc = {})
      : source_(std::move(source)), cache_(std::move(cache)), nvrtc_(std::move(nvrtc)) {}

  const std::string& name() const override { return source_.main.name; }
  std::span<const EntryName> entries() const override { return source_.entries; }
  Result<std::string> ImageFor(const GpuInfo& gpu) const override;

 private:
  std::string KeyFor(int arch, const std::string& compiler) const;

  const Source source_;
  const ImageCache cache_;
  const std::vector<std::string> nvrtc_;
};

}  // namespace lagoon::cuda
