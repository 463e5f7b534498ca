#include "device/cuda/driver/source_program.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

namespace lagoon::cuda {

// Another source, GPU architecture or compiler gives another image.
std::string SourceProgram::KeyFor(int arch, const std::string& compiler) const {
  std::string key = fmt::format("sm_{} nvrtc {}\n", arch, compiler);
  const auto add = [&key](const SourceFile& file) {
    key += fmt::format("{} {}\n{}\n", file.name, file.text.size(), file.text);
  };
  add(source_.main);
  for (const SourceFile& header : source_.headers) add(header);
  return key;
}

Result<std::string> SourceProgram::ImageFor(const GpuInfo& gpu) const {
  const int arch = gpu.major * 10 + gpu.minor;
  LAGOON_ASSIGN_OR_RETURN(const std::shared_ptr<const Nvrtc> nvrtc,
                          Nvrtc::Load(nvrtc_, gpu.driver_version / 1000));
  const std::string key = KeyFor(arch, nvrtc->version());
  if (std::optional<std::string> known = cache_.Find(key)) return *std::move(known);
  Result<std::string> image = nvrtc->Compile(source_.main, source_.headers, arch);
  if (image) cache_.Keep(key, *image);
  return image;
}

}  // namespace lagoon::cuda
