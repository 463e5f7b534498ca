// Fuzzes the import of ONNX files: for any bytes LoadGraph must return, in bounded time and memory.

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "graph/graph.h"

namespace {

// Large enough for every seed, small enough that a file that asks for much memory is refused early.
constexpr std::size_t kMaxBytes = std::size_t{32} << 20;

// A model file, in memory if the machine has /dev/shm. The destructor removes it.
class ModelFile {
 public:
  ModelFile() {
    const std::filesystem::path memory = "/dev/shm";
    const auto parent =
        std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
    folder_ = parent / fmt::format("lagoon-fuzz-{}", getpid());
    std::filesystem::create_directories(folder_);
  }
  ~ModelFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string Write(const std::uint8_t* data, std::size_t size) const {
    const std::filesystem::path path = folder_ / "model.onnx";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ModelFile file;
  lagoon::ImportOptions options;
  options.max_bytes = kMaxBytes;
  const auto graph = lagoon::LoadGraph(file.Write(data, size), options);
  if (!graph && graph.error().message.empty()) std::abort();  // a refusal says why
  return 0;
}
