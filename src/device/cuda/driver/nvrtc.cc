#include "device/cuda/driver/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lagoon::cuda {
namespace {

const std::vector<std::string>& KnownLibraries() {
  static const std::vector<std::string> libraries = {"libnvrtc.so.13", "libnvrtc.so.12",
                                                     "/usr/local/cuda/lib64/libnvrtc.so"};
  return libraries;
}

}  // namespace

Result<std::shared_ptr<const Nvrtc>> Nvrtc::Load(const std::vector<std::string>& libraries,
                                                 int newest) {
  const std::vector<std::string>& names = libraries.empty() ? KnownLibraries() : libraries;
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc);
  std::string found;
  for (const std::string& name : names) {
    nvrtc->handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (nvrtc->handle_ == nullptr) continue;
    LAGOON_RETURN_IF_ERROR(nvrtc->Resolve(name));
    if (newest != 0 && nvrtc->major_ > newest) {
      found +=
          fmt::format("; {} is of CUDA {}, the driver of CUDA {}", name, nvrtc->version_, newest);
      continue;
    }
    return std::shared_ptr<const Nvrtc>(std::move(nvrtc));
  }
  return Fail(
      ErrorCode::kUnavailable,
      fmt::format("no NVRTC: looked for {}{}; install the nvrtc package of CUDA 12 or 13 (it "
                  "needs no compiler), or put its folder into LD_LIBRARY_PATH",
                  fmt::join(names, ", "), found));
}

Status Nvrtc::Resolve(const std::string& library) {
  const auto find = [&](const char* name, auto& call) -> Status {
    void* const symbol = dlsym(handle_, name);
    call = reinterpret_cast<std::decay_t<decltype(call)>>(symbol);
    if (symbol != nullptr) return {};
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("'{}' has no {}: install the nvrtc package of CUDA 12 or 13", library, name));
  };
  LAGOON_RETURN_IF_ERROR(find("nvrtcVersion", get_version_));
  LAGOON_RETURN_IF_ERROR(find("nvrtcCreateProgram", create_));
  LAGOON_RETURN_IF_ERROR(find("nvrtcCompileProgram", compile_));
  LAGOON_RETURN_IF_ERROR(find("nvrtcGetProgramLogSize", log_size_));
  LAGOON_RETURN_IF_ERROR(find("nvrtcGetProgramLog", log_));
  LAGOON_RETURN_IF_ERROR(find("nvrtcGetCUBINSize", cubin_size_));
  LAGOON_RETURN_IF_ERROR(find("nvrtcGetCUBIN", cubin_));
  LAGOON_RETURN_IF_ERROR(find("nvrtcDestroyProgram", destroy_));
  LAGOON_RETURN_IF_ERROR(find("nvrtcGetErrorString", error_text_));
  int minor = 0;
  if (const int code = get_version_(&major_, &minor); code != 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("'{}': nvrtcVersion: {}", library, error_text_(code)));
  }
  version_ = fmt::format("{}.{}", major_, minor);
  return {};
}

Result<std::string> Nvrtc::Compile(const SourceFile& main, std::span<const SourceFile> headers,
                                   int arch) const {
  std::vector<const char*> names, texts;
  for (const SourceFile& header : headers) {
    names.push_back(header.name.c_str());
    texts.push_back(header.text.c_str());
  }
  Program program = nullptr;
  const int code = create_(&program, main.text.c_str(), main.name.c_str(),
                           static_cast<int>(headers.size()), texts.data(), names.data());
  if (code != 0) {
    return Fail(ErrorCode::kInternal,
                fmt::format("nvrtcCreateProgram('{}'): {}", main.name, error_text_(code)));
  }
  const std::vector<std::string> options = {fmt::format("--gpu-architecture=sm_{}", arch),
                                            "--std=c++20"};
  Result<std::string> image = Finish(program, main.name, options);
  destroy_(&program);
  return image;
}

Result<std::string> Nvrtc::Finish(Program program, const std::string& name,
                                  std::span<const std::string> options) const {
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  if (const int code = compile_(program, static_cast<int>(words.size()), words.data()); code != 0) {
    return Fail(ErrorCode::kInternal,
                fmt::format("nvrtcCompileProgram('{}', {}): {}\n{}", name, fmt::join(options, " "),
                            error_text_(code), LogOf(program)));
  }
  std::size_t bytes = 0;
  int code = cubin_size_(program, &bytes);
  std::string image(bytes, '\0');
  if (code == 0) code = cubin_(program, image.data());
  if (code != 0 || image.empty()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("nvrtcGetCUBIN('{}'): {}", name, error_text_(code)));
  }
  return image;
}

std::string Nvrtc::LogOf(Program program) const {
  std::size_t bytes = 0;
  if (log_size_(program, &bytes) != 0) return "";
  std::string text(bytes, '\0');
  if (log_(program, text.data()) != 0) return "";
  text.resize(text.find_last_not_of(std::string("\0\n", 2)) + 1);
  return text;
}

}  // namespace lagoon::cuda
