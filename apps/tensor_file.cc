#include "apps/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#define STB_IMAGE_RESIZE_STATIC
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#include <stb/stb_image_resize.h>
#pragma GCC diagnostic pop

namespace lagoon {
namespace {

using Json = nlohmann::json;

tl::unexpected<Error> Invalid(const std::string& path, const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}': {}", path, what));
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) return Invalid(path, "cannot be read");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<std::vector<float>> Sized(const std::string& path, const TensorSpec& spec,
                                 std::vector<float> values) {
  if (static_cast<std::int64_t>(values.size()) == ElementCount(spec.dims)) return values;
  return Invalid(path, fmt::format("has {} numbers, input '{}' takes {} ({})", values.size(),
                                   spec.name, ToString(spec.dims), ElementCount(spec.dims)));
}

template <typename T>
std::vector<float> Convert(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return {values.begin(), values.end()};
}

// The .npy format: magic, version, header length, a Python dict as text, data.
Result<std::vector<float>> ReadNpy(const std::string& path, const TensorSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (file.size() < 12 || file.compare(0, kMagic.size(), kMagic) != 0) {
    return Invalid(path, "is not a .npy file");
  }
  const bool wide = file[6] >= 2;
  std::uint32_t header = 0;
  std::memcpy(&header, file.data() + 8, wide ? 4 : 2);
  const std::size_t begin = (wide ? 12 : 10) + std::size_t{header};
  if (begin > file.size()) return Invalid(path, "is truncated");
  const std::string_view text(file.data() + (wide ? 12 : 10), header);
  if (text.find("'fortran_order': False") == std::string_view::npos) {
    return Invalid(path, "is not in C order; save it with numpy.ascontiguousarray");
  }
  const std::string_view data(file.data() + begin, file.size() - begin);
  if (text.find("'<f4'") != std::string_view::npos) return Sized(path, spec, Convert<float>(data));
  if (text.find("'<f8'") != std::string_view::npos) return Sized(path, spec, Convert<double>(data));
  if (text.find("'|u1'") != std::string_view::npos) {
    return Sized(path, spec, Convert<std::uint8_t>(data));
  }
  return Invalid(path, fmt::format("holds neither float32, float64 nor uint8: {}", text));
}

bool Flatten(const Json& json, std::vector<float>& values, int depth = 0) {
  if (json.is_number()) {
    values.push_back(json.get<float>());
    return true;
  }
  constexpr int kDeepest = 16;
  if (!json.is_array() || depth == kDeepest) return false;
  return std::all_of(json.begin(), json.end(),
                     [&](const Json& item) { return Flatten(item, values, depth + 1); });
}

Result<std::vector<float>> ReadJson(const std::string& path, const TensorSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded()) return Invalid(path, "is not JSON");
  if (json.is_object()) {  // an inference request
    Json data;
    for (const Json& input : json.value("inputs", Json::array())) {
      if (input.is_object() && input.value("name", "") == spec.name)
        data = input.value("data", Json());
    }
    if (data.is_null()) return Invalid(path, fmt::format("has no input named '{}'", spec.name));
    json = std::move(data);
  }
  std::vector<float> values;
  if (!Flatten(json, values)) return Invalid(path, "is not an array of numbers");
  return Sized(path, spec, std::move(values));
}

Result<std::vector<float>> ReadImage(const std::string& path, const TensorSpec& spec,
                                     Normalization normalization) {
  const Dims& dims = spec.dims;
  if (dims.size() != 4 || dims[0] != 1 || (dims[1] != 1 && dims[1] != 3)) {
    return Invalid(path, fmt::format("an image fits [1,1 or 3,H,W], input '{}' takes {}", spec.name,
                                     ToString(dims)));
  }
  const int channels = static_cast<int>(dims[1]);
  const int height = static_cast<int>(dims[2]);
  const int width = static_cast<int>(dims[3]);
  int in_width = 0, in_height = 0, in_channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load(path.c_str(), &in_width, &in_height, &in_channels, channels), &stbi_image_free);
  if (pixels == nullptr) return Invalid(path, fmt::format("no image: {}", stbi_failure_reason()));
  const std::size_t area = static_cast<std::size_t>(height) * width;
  std::vector<stbi_uc> resized(area * channels);
  if (stbir_resize_uint8(pixels.get(), in_width, in_height, 0, resized.data(), width, height, 0,
                         channels) == 0) {
    return Invalid(path,
                   fmt::format("cannot resize {}x{} to {}x{}", in_width, in_height, width, height));
  }
  // ImageNet's mean and deviation, as torchvision's models expect them.
  constexpr float kMean[] = {0.485f, 0.456f, 0.406f};
  constexpr float kDeviation[] = {0.229f, 0.224f, 0.225f};
  std::vector<float> values(area * channels);
  for (int channel = 0; channel < channels; ++channel) {
    for (std::size_t i = 0; i < area; ++i) {
      float value = resized[i * channels + channel];
      if (normalization != Normalization::kRaw) value /= 255.0f;
      if (normalization == Normalization::kImageNet)
        value = (value - kMean[channel]) / kDeviation[channel];
      values[channel * area + i] = value;
    }
  }
  return values;
}

}  // namespace

Result<std::vector<float>> ReadTensor(const std::string& path, const TensorSpec& spec,
                                      Normalization normalization) {
  if (spec.type != DataType::kFloat32) {
    return Invalid(path, fmt::format("input '{}' is {}, only FP32 can be read from a file",
                                     spec.name, OipName(spec.type)));
  }
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".npy") return ReadNpy(path, spec);
  if (ending == ".json") return ReadJson(path, spec);
  if (ending == ".png" || ending == ".jpg" || ending == ".jpeg" || ending == ".bmp") {
    return ReadImage(path, spec, normalization);
  }
  return Invalid(path, "unknown ending; it may be .npy, .json, .png, .jpg or .bmp");
}

Status WriteNpy(const std::string& path, const Dims& dims, const float* data) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                   fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
  constexpr std::size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header.push_back('\n');
  std::ofstream file(path, std::ios::binary);
  const auto length = static_cast<std::uint16_t>(header.size());
  file.write("\x93NUMPY\x01\x00", 8);
  file.write(reinterpret_cast<const char*>(&length), 2);
  file << header;
  file.write(reinterpret_cast<const char*>(data),
             static_cast<std::streamsize>(ElementCount(dims)) * sizeof(float));
  file.flush();
  if (!file) return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' cannot be written", path));
  return {};
}

}  // namespace lagoon
