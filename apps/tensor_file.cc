#include "apps/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

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

#include "graph/budget.h"
#include "plan/bytes_tensor.h"
#include "plan/element.h"
#include "plan/strings.h"

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

using Bytes = std::vector<std::byte>;

/// A type and its name in .npy headers.
struct NpyType {
  DataType type;
  std::string_view name;
};
constexpr NpyType kNpyTypes[] = {
    {DataType::kFloat32, "<f4"}, {DataType::kFloat64, "<f8"}, {DataType::kFloat16, "<f2"},
    {DataType::kInt8, "|i1"},    {DataType::kInt16, "<i2"},   {DataType::kInt32, "<i4"},
    {DataType::kInt64, "<i8"},   {DataType::kUInt8, "|u1"},   {DataType::kUInt16, "<u2"},
    {DataType::kUInt32, "<u4"},  {DataType::kUInt64, "<u8"},  {DataType::kBool, "|b1"},
};

/// Converts elements to another type. Bytes of a bool may have any value: not 0 is true.
Bytes Convert(const Bytes& from, DataType from_type, DataType to_type) {
  if (from_type == to_type) return from;
  return WithElementType(from_type, [&]<typename From>(std::type_identity<From>) {
    return WithElementType(to_type, [&]<typename To>(std::type_identity<To>) {
      using Read = std::conditional_t<std::is_same_v<From, bool>, std::uint8_t, From>;
      const std::size_t count = from.size() / sizeof(From);
      Bytes to(count * sizeof(To));
      for (std::size_t i = 0; i < count; ++i) {
        Read element;
        std::memcpy(&element, from.data() + i * sizeof(From), sizeof(From));
        if constexpr (std::is_same_v<From, bool>) element = element != 0 ? 1 : 0;
        const To converted = ConvertElement<To>(element);
        std::memcpy(to.data() + i * sizeof(To), &converted, sizeof(To));
      }
      return to;
    });
  });
}

/// `found`, of any type, as an input of `spec`.
Result<Constant> Fitted(const std::string& path, const TensorSpec& spec, Constant found) {
  if ((found.type == DataType::kString) != (spec.type == DataType::kString)) {
    return Invalid(path, fmt::format("holds {}, input '{}' takes {}", OipName(found.type),
                                     spec.name, OipName(spec.type)));
  }
  const Dims& dims = found.dims;
  const bool open = std::ranges::find(spec.dims, -1) != spec.dims.end();
  bool fits = dims.size() == spec.dims.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) {
    fits = spec.dims[i] == -1 || spec.dims[i] == dims[i];
  }
  if (!fits && open) {
    return Invalid(path, fmt::format("has shape {}, input '{}' takes {} (-1: any size)",
                                     ToString(dims), spec.name, ToString(spec.dims)));
  }
  if (!fits && ElementCount(dims) != ElementCount(spec.dims)) {
    return Invalid(path,
                   fmt::format("has {} elements, input '{}' takes {} ({})", ElementCount(dims),
                               spec.name, ToString(spec.dims), ElementCount(spec.dims)));
  }
  if (!fits) found.dims = spec.dims;
  if (spec.type == DataType::kString) return found;
  found.bytes = std::make_shared<const Bytes>(Convert(*found.bytes, found.type, spec.type));
  found.type = spec.type;
  return found;
}

/// How a .npy file holds text: '|S5' is 5 bytes for each element, '<U5' 5 numbers of Unicode, of 4
/// bytes. Zeros fill the end of a shorter element.
struct NpyText {
  bool wide = false;
  std::size_t width = 0;
};

std::optional<NpyText> FindText(std::string_view header) {
  constexpr std::string_view kKey = "'descr': '";
  const std::size_t at = header.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  header.remove_prefix(at + kKey.size());
  const bool wide = header.starts_with("<U");
  if (!wide && !header.starts_with("|S")) return std::nullopt;
  header.remove_prefix(2);
  std::uint32_t width = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), width);
  if (error != std::errc{}) return std::nullopt;
  return NpyText{wide, width};
}

/// Appends a number of Unicode as UTF-8. False: there is no such number.
bool AppendUtf8(std::uint32_t number, std::string& text) {
  if (number > 0x10ffff || (number >= 0xd800 && number < 0xe000)) return false;
  const auto part = [number](int shift) {
    return static_cast<char>(0x80 | (number >> shift & 63));
  };
  if (number < 0x80) {
    text += static_cast<char>(number);
  } else if (number < 0x800) {
    text += {static_cast<char>(0xc0 | number >> 6), part(0)};
  } else if (number < 0x10000) {
    text += {static_cast<char>(0xe0 | number >> 12), part(6), part(0)};
  } else {
    text += {static_cast<char>(0xf0 | number >> 18), part(12), part(6), part(0)};
  }
  return true;
}

/// The elements of a .npy file of text; `data` is what lies behind the header.
Result<Constant> ReadTexts(const std::string& path, const NpyText& type, Dims dims,
                           std::string_view data) {
  std::size_t bytes = type.width * (type.wide ? sizeof(std::uint32_t) : 1);
  const Result<std::size_t> table = CheckedBytes(dims, DataType::kString);
  const std::size_t count = table ? *table / SizeOf(DataType::kString) : 0;
  std::size_t needed = 0;
  if (!table || __builtin_mul_overflow(count, bytes, &needed) || needed != data.size()) {
    return Invalid(path, fmt::format("has {} bytes of data, which are no {} elements of {} bytes",
                                     data.size(), count, bytes));
  }
  auto texts = std::make_shared<Bytes>();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view element = data.substr(i * bytes, bytes);
    std::string text(element.substr(0, element.find_last_not_of('\0') + 1));
    if (type.wide) text.clear();
    for (std::size_t at = 0; type.wide && at < bytes; at += sizeof(std::uint32_t)) {
      std::uint32_t number = 0;
      std::memcpy(&number, element.data() + at, sizeof(number));
      if (number == 0 && element.find_first_not_of('\0', at) == std::string_view::npos) break;
      if (!AppendUtf8(number, text)) return Invalid(path, "holds text that is no Unicode");
    }
    AppendBytesElement(text, *texts);
  }
  return Constant{DataType::kString, std::move(dims), std::move(texts)};
}

/// The strings of nested or flat arrays, in order, in the form of a Constant.
bool FlattenTexts(const Json& json, Bytes& texts, std::int64_t& count, int depth = 0) {
  if (json.is_string()) {
    AppendBytesElement(json.get_ref<const std::string&>(), texts);
    ++count;
    return true;
  }
  constexpr int kDeepest = 16;
  if (!json.is_array() || depth == kDeepest) return false;
  return std::all_of(json.begin(), json.end(),
                     [&](const Json& item) { return FlattenTexts(item, texts, count, depth + 1); });
}

/// Reads the sizes after 'shape': in a header.
Result<Dims> NpyShape(const std::string& path, std::string_view header) {
  constexpr std::string_view kKey = "'shape': (";
  const std::size_t begin = header.find(kKey);
  const std::size_t end = header.find(')', begin);
  if (begin == std::string_view::npos || end == std::string_view::npos) {
    return Invalid(path, "has no shape");
  }
  Dims dims;
  std::string_view text = header.substr(begin + kKey.size(), end - begin - kKey.size());
  while (!text.empty()) {
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc{} || size < 0 || dims.size() >= kMaxRank) {
      return Invalid(path, "has a shape that cannot be read");
    }
    dims.push_back(size);
    text.remove_prefix(static_cast<std::size_t>(next - text.data()));
    while (!text.empty() && (text.front() == ',' || text.front() == ' ')) text.remove_prefix(1);
  }
  return dims;
}

template <typename T>
bool Flatten(const Json& json, std::vector<T>& values, int depth = 0) {
  if (json.is_boolean()) {
    values.push_back(json.get<bool>() ? T{1} : T{0});
    return true;
  }
  if (json.is_number()) {
    values.push_back(json.get<T>());
    return true;
  }
  constexpr int kDeepest = 16;
  if (!json.is_array() || depth == kDeepest) return false;
  return std::all_of(json.begin(), json.end(),
                     [&](const Json& item) { return Flatten(item, values, depth + 1); });
}

/// The dims of nested arrays whose first elements are as long as all others.
Dims NestedDims(const Json& json) {
  Dims dims;
  for (const Json* level = &json; level->is_array() && dims.size() < kMaxRank;
       level = &level->front()) {
    dims.push_back(static_cast<std::int64_t>(level->size()));
    if (level->empty()) break;
  }
  return dims;
}

/// The "shape" of an input in an inference request.
Dims RequestDims(const Json& input) {
  Dims dims;
  for (const Json& size : input.value("shape", Json::array())) {
    if (size.is_number_integer() && dims.size() < kMaxRank)
      dims.push_back(size.get<std::int64_t>());
  }
  return dims;
}

Result<Constant> ReadJson(const std::string& path, const TensorSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded()) return Invalid(path, "is not JSON");
  Dims dims = NestedDims(json);
  if (json.is_object()) {  // an inference request
    Json data;
    dims.clear();
    for (const Json& input : json.value("inputs", Json::array())) {
      if (!input.is_object() || input.value("name", "") != spec.name) continue;
      data = input.value("data", Json());
      dims = RequestDims(input);
    }
    if (data.is_null()) return Invalid(path, fmt::format("has no input named '{}'", spec.name));
    json = std::move(data);
  }
  if (spec.type == DataType::kString) {
    auto texts = std::make_shared<Bytes>();
    std::int64_t count = 0;
    if (!FlattenTexts(json, *texts, count)) return Invalid(path, "is not an array of strings");
    const bool regular = ElementCount(dims) == count;
    return Fitted(path, spec, {spec.type, regular ? dims : Dims{count}, std::move(texts)});
  }
  const auto read = [&]<typename T>(std::type_identity<T>, DataType type) -> Result<Constant> {
    std::vector<T> values;
    if (!Flatten(json, values)) return Invalid(path, "is not an array of numbers");
    auto bytes = std::make_shared<Bytes>(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
    const auto count = static_cast<std::int64_t>(values.size());
    const bool regular = ElementCount(dims) == count;
    return Fitted(path, spec, {type, regular ? dims : Dims{count}, std::move(bytes)});
  };
  if (IsFloat(spec.type)) return read(std::type_identity<double>{}, DataType::kFloat64);
  return read(std::type_identity<std::int64_t>{}, DataType::kInt64);
}

Result<Constant> ReadImage(const std::string& path, const TensorSpec& spec,
                           Normalization normalization) {
  Dims dims = spec.dims;
  if (dims.size() == 4 && dims[0] == -1) dims[0] = 1;
  if (dims.size() == 4 && dims[1] == -1) dims[1] = 3;
  if (spec.type != DataType::kFloat32 || dims.size() != 4 || dims[0] != 1 ||
      (dims[1] != 1 && dims[1] != 3)) {
    return Invalid(path, fmt::format("an image fits FP32 [1,1 or 3,H,W], input '{}' takes {} {}",
                                     spec.name, OipName(spec.type), ToString(dims)));
  }
  const int channels = static_cast<int>(dims[1]);
  int in_width = 0, in_height = 0, in_channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> pixels(
      stbi_load(path.c_str(), &in_width, &in_height, &in_channels, channels), &stbi_image_free);
  if (pixels == nullptr) return Invalid(path, fmt::format("no image: {}", stbi_failure_reason()));
  if (dims[2] == -1) dims[2] = in_height;
  if (dims[3] == -1) dims[3] = in_width;
  const int height = static_cast<int>(dims[2]);
  const int width = static_cast<int>(dims[3]);
  const std::size_t area = static_cast<std::size_t>(height) * width;
  std::vector<stbi_uc> resized(area * channels);
  if (in_width == width && in_height == height) {  // the filter of a resize would blur it
    std::copy_n(pixels.get(), resized.size(), resized.begin());
  } else if (stbir_resize_uint8(pixels.get(), in_width, in_height, 0, resized.data(), width, height,
                                0, channels) == 0) {
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
  auto bytes = std::make_shared<const Bytes>(BytesOf(values));
  return Constant{DataType::kFloat32, std::move(dims), std::move(bytes)};
}

}  // namespace

// The .npy format: magic, version, header length, a Python dict as text, data.
Result<Constant> ReadNpy(const std::string& path) {
  LAGOON_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (file.size() < 12 || file.compare(0, kMagic.size(), kMagic) != 0) {
    return Invalid(path, "is not a .npy file");
  }
  const bool wide = file[6] >= 2;
  std::uint32_t length = 0;
  std::memcpy(&length, file.data() + 8, wide ? 4 : 2);
  const std::size_t begin = (wide ? 12 : 10) + std::size_t{length};
  if (begin > file.size()) return Invalid(path, "is truncated");
  const std::string_view header(file.data() + (wide ? 12 : 10), length);
  const auto* const type =
      std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes), [&](const NpyType& known) {
        return header.find(fmt::format("'{}'", known.name)) != std::string_view::npos;
      });
  const std::optional<NpyText> text = FindText(header);
  if (!text && type == std::end(kNpyTypes)) {
    return Invalid(path, fmt::format("holds neither numbers nor bools nor text: {}", header));
  }
  Constant constant;
  constant.type = text ? DataType::kString : type->type;
  LAGOON_ASSIGN_OR_RETURN(constant.dims, NpyShape(path, header));
  // With at most one dim above 1 both orders are the same.
  if (header.find("'fortran_order': False") == std::string_view::npos &&
      std::count_if(constant.dims.begin(), constant.dims.end(), [](auto n) { return n > 1; }) > 1) {
    return Invalid(path, "is not in C order; save it with numpy.ascontiguousarray");
  }
  if (text) return ReadTexts(path, *text, constant.dims, std::string_view(file).substr(begin));
  const Result<std::size_t> size = CheckedBytes(constant.dims, constant.type);
  if (!size || *size != file.size() - begin) {
    return Invalid(path,
                   fmt::format("has {} bytes of data, {} {} is something else", file.size() - begin,
                               OipName(constant.type), ToString(constant.dims)));
  }
  const auto* const data = reinterpret_cast<const std::byte*>(file.data());
  Bytes bytes(data + begin, data + file.size());
  if (constant.type == DataType::kBool) {  // a C++ bool must be 0 or 1
    for (std::byte& value : bytes) value = std::byte{value != std::byte{0}};
  }
  constant.bytes = std::make_shared<const Bytes>(std::move(bytes));
  return constant;
}

Result<Constant> ReadTensor(const std::string& path, const TensorSpec& spec,
                            Normalization normalization) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".npy") {
    LAGOON_ASSIGN_OR_RETURN(Constant constant, ReadNpy(path));
    return Fitted(path, spec, std::move(constant));
  }
  if (ending == ".json") return ReadJson(path, spec);
  if (ending == ".png" || ending == ".jpg" || ending == ".jpeg" || ending == ".bmp") {
    return ReadImage(path, spec, normalization);
  }
  return Invalid(path, "unknown ending; it may be .npy, .json, .png, .jpg or .bmp");
}

Result<Constant> ReadInput(const std::string& path, const DeclaredTensor& input,
                           Normalization normalization) {
  TensorSpec spec{input.name, input.type, input.dims};
  if (input.shape_known) return ReadTensor(path, spec, normalization);
  LAGOON_ASSIGN_OR_RETURN(Constant constant, ReadNpy(path));
  spec.dims = constant.dims;
  return Fitted(path, spec, std::move(constant));
}

std::string FileNameFor(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name + ".npy";
}

namespace {

/// The elements of a tensor of strings, each filled up with zeros to the length of the longest.
/// `name`: gets the type in a header.
std::string PaddedTexts(std::span<const std::byte> table, std::string& name) {
  const std::size_t count = table.size() / sizeof(StringElement);
  std::size_t width = 1;
  for (std::size_t i = 0; i < count; ++i) {
    width = std::max(width, StringAt(table.data(), i).text().size());
  }
  std::string texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts += StringAt(table.data(), i).text();
    texts.resize((i + 1) * width, '\0');
  }
  name = fmt::format("|S{}", width);
  return texts;
}

}  // namespace

Status WriteNpy(const std::string& path, const TensorSpec& spec, const std::byte* data) {
  if (spec.type == DataType::kBFloat16) {
    const Bytes wide = Convert(Bytes(data, data + spec.bytes()), spec.type, DataType::kFloat32);
    return WriteNpy(path, {spec.name, DataType::kFloat32, spec.dims}, wide.data());
  }
  const auto* const type =
      std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                   [&](const NpyType& known) { return known.type == spec.type; });
  std::string name, texts;
  if (spec.type == DataType::kString) {
    texts = PaddedTexts({data, spec.bytes()}, name);
  } else {
    name = type->name;
  }
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", name,
                  fmt::join(spec.dims, ", "), spec.dims.size() == 1 ? "," : "");
  constexpr std::size_t kPrefix = 10;
  header.append(63 - (kPrefix + header.size()) % 64, ' ');
  header.push_back('\n');
  std::ofstream file(path, std::ios::binary);
  const auto length = static_cast<std::uint16_t>(header.size());
  file.write("\x93NUMPY\x01\x00", 8);
  file.write(reinterpret_cast<const char*>(&length), 2);
  file << header;
  const bool text = spec.type == DataType::kString;
  const char* const from = text ? texts.data() : reinterpret_cast<const char*>(data);
  file.write(from, static_cast<std::streamsize>(text ? texts.size() : spec.bytes()));
  file.flush();
  if (!file) return Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' cannot be written", path));
  return {};
}

}  // namespace lagoon
