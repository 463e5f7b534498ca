#include "graph/import/tensor_import.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "graph/import/file.h"
#include "graph/import/narrow_types.h"
#include "plan/bytes_tensor.h"
#include "plan/element.h"

namespace lagoon {
namespace {

using Bytes = std::vector<std::byte>;

Error Invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<std::size_t> ToSize(std::string_view key, const std::string& text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return tl::unexpected(
        Invalid(fmt::format("external data {} {} is not a size", key, Quoted(text))));
  }
  return value;
}

/// Where external data lie in TensorSource::weights, which have so many bytes there.
Result<FileRange> FindWeights(const onnx::TensorProto& proto, std::size_t bytes,
                              const TensorSource& source) {
  LAGOON_ASSIGN_OR_RETURN(ExternalRange range, ReadExternalRange(proto));
  const std::optional<std::size_t> size = source.weights->SizeOf(range.location);
  const bool fits = size && range.length.value_or(bytes) == bytes && range.offset <= *size &&
                    bytes <= *size - range.offset;
  if (!fits) {
    return tl::unexpected(
        Invalid(fmt::format("external data {} have {} bytes, {} are needed from offset {}",
                            Quoted(range.location), size.value_or(0), bytes, range.offset)));
  }
  LAGOON_RETURN_IF_ERROR(source.budget.Charge(bytes, "external data " + Quoted(range.location)));
  return FileRange{nullptr, range.offset, source.weights, std::move(range.location)};
}

/// Where the external data of `proto` lie, which have so many bytes there.
Result<FileRange> FindExternal(const onnx::TensorProto& proto, std::size_t bytes,
                               const TensorSource& source) {
  if (source.weights != nullptr) return FindWeights(proto, bytes, source);
  LAGOON_ASSIGN_OR_RETURN(ExternalRange range, ReadExternalRange(proto));
  LAGOON_ASSIGN_OR_RETURN(File opened, File::OpenExternal(source.place, range.location));
  const File& file = opened;
  if (range.length.value_or(bytes) != bytes) {
    return tl::unexpected(Invalid(fmt::format("external data {} gives {} bytes, the shape needs {}",
                                              Quoted(range.location), *range.length, bytes)));
  }
  if (range.offset > file.size() || bytes > file.size() - range.offset) {
    return tl::unexpected(
        Invalid(fmt::format("external data {} is too short: {} bytes, {} needed from offset {}",
                            Quoted(range.location), file.size(), bytes, range.offset)));
  }
  LAGOON_RETURN_IF_ERROR(source.budget.Charge(bytes, "external data " + Quoted(range.location)));
  return FileRange{std::make_shared<const File>(std::move(opened)), range.offset, nullptr,
                   std::move(range.location)};
}

/// Fills `to` with the external data from `offset` on.
Status ReadAt(const FileRange& where, std::size_t offset, std::span<std::byte> to) {
  if (where.weights != nullptr) {
    return where.weights->ReadAt(where.location, where.offset + offset, to);
  }
  const Status read = where.file->ReadAt(where.offset + offset, to);
  if (!read) return Annotate("external data " + Quoted(where.location), Error(read.error()));
  return {};
}

/// Sets `where` to the place of the data.
Result<Bytes> ReadExternal(const onnx::TensorProto& proto, std::size_t bytes,
                           const TensorSource& source, FileRange& where) {
  LAGOON_ASSIGN_OR_RETURN(where, FindExternal(proto, bytes, source));
  Bytes data(bytes);
  LAGOON_RETURN_IF_ERROR(ReadAt(where, 0, data));
  return data;
}

// Converts the numbers of a typed field to elements of T. ONNX stores small integers and the bits
// of 16-bit floats in int32_data, uint32 in uint64_data.
template <typename T, typename Field>
Result<Bytes> FromTypedField(const Field& field, std::size_t bytes) {
  if (static_cast<std::size_t>(field.size()) * sizeof(T) != bytes) {
    return tl::unexpected(Invalid(
        fmt::format("has {} elements, the shape needs {}", field.size(), bytes / sizeof(T))));
  }
  Bytes data(bytes);
  std::byte* to = data.data();
  for (const auto number : field) {
    using Number = std::decay_t<decltype(number)>;
    if constexpr (!std::is_same_v<Number, T> && std::is_integral_v<Number>) {
      if (!std::in_range<T>(number)) {
        return tl::unexpected(Invalid(fmt::format("has the element {}, out of range", number)));
      }
    }
    const auto element = static_cast<T>(number);
    std::memcpy(to, &element, sizeof(T));
    to += sizeof(T);
  }
  return data;
}

// The field in which ONNX stores elements of T.
template <typename T>
const auto& FieldFor(const onnx::TensorProto& proto) {
  if constexpr (std::is_same_v<T, float>) {
    return proto.float_data();
  } else if constexpr (std::is_same_v<T, double>) {
    return proto.double_data();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return proto.int64_data();
  } else if constexpr (std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>) {
    return proto.uint64_data();
  } else {
    return proto.int32_data();
  }
}

Result<Bytes> ReadTyped(const onnx::TensorProto& proto, DataType type, std::size_t bytes) {
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) {
    return FromTypedField<Stored<T>>(FieldFor<T>(proto), bytes);
  });
}

std::size_t TypedElements(const onnx::TensorProto& proto) {
  return static_cast<std::size_t>(proto.float_data_size()) + proto.double_data_size() +
         proto.int32_data_size() + proto.int64_data_size() + proto.uint64_data_size() +
         proto.string_data_size();
}

Result<Bytes> ReadRaw(const std::string& raw, std::size_t bytes) {
  if (raw.size() != bytes) {
    return tl::unexpected(
        Invalid(fmt::format("raw_data has {} bytes, the shape needs {}", raw.size(), bytes)));
  }
  Bytes data(bytes);
  if (bytes > 0) std::memcpy(data.data(), raw.data(), bytes);
  return data;
}

/// Sets `where` to the place of external data; to none for a typed field.
Result<Bytes> ReadData(const onnx::TensorProto& proto, DataType type, std::size_t bytes,
                       const TensorSource& source, FileRange& where) {
  const bool external = proto.data_location() == onnx::TensorProto::EXTERNAL;
  const bool raw = proto.has_raw_data();
  if (static_cast<int>(external) + static_cast<int>(raw) + (TypedElements(proto) > 0 ? 1 : 0) > 1) {
    return tl::unexpected(Invalid("has data in more than one place"));
  }
  if (external) return ReadExternal(proto, bytes, source, where);
  if (!raw) where = {};
  LAGOON_RETURN_IF_ERROR(source.budget.Charge(bytes, "its data"));
  return raw ? ReadRaw(proto.raw_data(), bytes) : ReadTyped(proto, type, bytes);
}

void ClearData(onnx::TensorProto& proto) {
  // swap() releases the memory; clear_raw_data() would keep the capacity.
  if (proto.has_raw_data()) std::string().swap(*proto.mutable_raw_data());
  google::protobuf::RepeatedField<float>().Swap(proto.mutable_float_data());
  google::protobuf::RepeatedField<double>().Swap(proto.mutable_double_data());
  google::protobuf::RepeatedField<std::int32_t>().Swap(proto.mutable_int32_data());
  google::protobuf::RepeatedField<std::int64_t>().Swap(proto.mutable_int64_data());
  google::protobuf::RepeatedField<std::uint64_t>().Swap(proto.mutable_uint64_data());
  google::protobuf::RepeatedPtrField<std::string>().Swap(proto.mutable_string_data());
}

/// The hash of external data, `bytes` of them. Takes no memory for them.
Result<Identity> IdentityThere(const FileRange& there, std::size_t bytes) {
  return IdentityOf(bytes, [&](std::size_t offset, std::span<std::byte> to) {
    return ReadAt(there, offset, to);
  });
}

/// The data of `constant`, which are read from `where` when they are used. The type and the dims of
/// `constant` are set. `data_hash`: the hash of the data. `now`: the data, if they are in memory.
ConstantData ReadLater(FileRange where, const Constant& constant, const Identity& data_hash,
                       std::string_view name, std::size_t bytes, std::shared_ptr<const Bytes> now) {
  const auto read = [where = std::move(where), bytes, name = std::string(name)] {
    auto data = std::make_shared<Bytes>(bytes);
    const Status status = ReadAt(where, 0, *data);
    if (where.file != nullptr && (!status || !where.file->Unchanged())) {
      throw ConstantError(fmt::format(
          "weights {}: the model's file has changed since it was loaded; load the model again",
          Quoted(name)));
    }
    if (!status) throw ConstantError(status.error().message);
    return std::shared_ptr<const Bytes>(std::move(data));
  };
  const Identity identity = IdentityOf(fmt::format("weights {} {} {}", OipName(constant.type),
                                                   ToString(constant.dims), ToString(data_hash)));
  return ConstantData::Deferred(bytes, identity, read, std::move(now));
}

}  // namespace

Result<ExternalRange> ReadExternalRange(const onnx::TensorProto& proto) {
  ExternalRange range;
  for (const onnx::StringStringEntryProto& entry : proto.external_data()) {
    if (entry.key() == "location") range.location = entry.value();
    if (entry.key() == "offset") {
      LAGOON_ASSIGN_OR_RETURN(range.offset, ToSize("offset", entry.value()));
    }
    if (entry.key() == "length") {
      LAGOON_ASSIGN_OR_RETURN(range.length, ToSize("length", entry.value()));
    }
  }
  return range;
}

std::optional<DataType> ToDataType(int onnx_type) {
  switch (onnx_type) {
    case onnx::TensorProto::FLOAT:
      return DataType::kFloat32;
    case onnx::TensorProto::FLOAT16:
      return DataType::kFloat16;
    case onnx::TensorProto::BFLOAT16:
      return DataType::kBFloat16;
    case onnx::TensorProto::DOUBLE:
      return DataType::kFloat64;
    case onnx::TensorProto::INT8:
      return DataType::kInt8;
    case onnx::TensorProto::INT16:
      return DataType::kInt16;
    case onnx::TensorProto::INT32:
      return DataType::kInt32;
    case onnx::TensorProto::INT64:
      return DataType::kInt64;
    case onnx::TensorProto::UINT8:
      return DataType::kUInt8;
    case onnx::TensorProto::UINT16:
      return DataType::kUInt16;
    case onnx::TensorProto::UINT32:
      return DataType::kUInt32;
    case onnx::TensorProto::UINT64:
      return DataType::kUInt64;
    case onnx::TensorProto::BOOL:
      return DataType::kBool;
    case onnx::TensorProto::STRING:
      return DataType::kString;
    default:
      return std::nullopt;
  }
}

std::int64_t ToOnnxType(DataType type) {
  int onnx = 1;
  while (onnx < onnx::TensorProto::DataType_MAX && ToDataType(onnx) != type) ++onnx;
  return onnx;
}

namespace {

// Elements of a type that is known as storage only.
Result<Constant> ImportNarrow(onnx::TensorProto& proto, const NarrowType& type,
                              const TensorSource& source) {
  Constant constant;
  constant.type = type.wide;
  constant.narrow = type.onnx;
  constant.dims.assign(proto.dims().begin(), proto.dims().end());
  LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, CheckedBytes(constant.dims, type.wide));
  FileRange ignored;
  const std::size_t packed_bytes = PackedBytes(type, bytes / SizeOf(type.wide));
  LAGOON_ASSIGN_OR_RETURN(const Bytes packed,
                          ReadData(proto, DataType::kUInt8, packed_bytes, source, ignored));
  ClearData(proto);
  LAGOON_RETURN_IF_ERROR(source.budget.Charge(bytes, "its elements"));
  Bytes data(bytes);
  Widen(type, packed, data);
  constant.bytes = std::make_shared<const Bytes>(std::move(data));
  return constant;
}

/// Strings, which only string_data holds.
Result<Constant> ImportStrings(onnx::TensorProto& proto, const TensorSource& source) {
  const Dims dims(proto.dims().begin(), proto.dims().end());
  LAGOON_RETURN_IF_ERROR(CheckedBytes(dims, DataType::kString));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL || proto.has_raw_data() ||
      TypedElements(proto) > static_cast<std::size_t>(proto.string_data_size())) {
    return tl::unexpected(Invalid("holds strings elsewhere than in string_data"));
  }
  if (proto.string_data_size() != ElementCount(dims)) {
    return tl::unexpected(Invalid(fmt::format("has {} elements, the shape needs {}",
                                              proto.string_data_size(), ElementCount(dims))));
  }
  std::size_t bytes = 0;
  for (const std::string& text : proto.string_data()) bytes += kBytesLengthSize + text.size();
  LAGOON_RETURN_IF_ERROR(source.budget.Charge(bytes, "its data"));
  auto data = std::make_shared<Bytes>();
  data->reserve(bytes);
  for (const std::string& text : proto.string_data()) AppendBytesElement(text, *data);
  ClearData(proto);
  return Constant{DataType::kString, dims, std::move(data)};
}

}  // namespace

Result<Constant> ImportTensor(onnx::TensorProto& proto, const TensorSource& source, FileRange raw,
                              std::string_view name) {
  if (proto.has_segment()) return Fail(ErrorCode::kUnimplemented, "is stored in segments");
  if (const std::optional<NarrowType> narrow = FindNarrowType(proto.data_type())) {
    return ImportNarrow(proto, *narrow, source);
  }
  const std::optional<DataType> type = ToDataType(proto.data_type());
  if (!type) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("has ONNX element type {}, which is not supported", proto.data_type()));
  }
  if (*type == DataType::kString) return ImportStrings(proto, source);
  Constant constant;
  constant.type = *type;
  constant.dims.assign(proto.dims().begin(), proto.dims().end());
  LAGOON_ASSIGN_OR_RETURN(const std::size_t bytes, CheckedBytes(constant.dims, *type));
  const bool large = !name.empty() && bytes >= kDeferredBytes && *type != DataType::kBool;
  const bool external = proto.data_location() == onnx::TensorProto::EXTERNAL;
  if (large && external && !proto.has_raw_data() && TypedElements(proto) == 0) {
    LAGOON_ASSIGN_OR_RETURN(FileRange there, FindExternal(proto, bytes, source));
    LAGOON_ASSIGN_OR_RETURN(const Identity data, IdentityThere(there, bytes));
    constant.bytes = ReadLater(std::move(there), constant, data, name, bytes, nullptr);
    return constant;
  }
  FileRange where = std::move(raw);
  LAGOON_ASSIGN_OR_RETURN(Bytes data, ReadData(proto, *type, bytes, source, where));
  ClearData(proto);
  if (*type == DataType::kBool) {  // a C++ bool must be 0 or 1
    for (std::byte& value : data) value = std::byte{value != std::byte{0}};
  }
  auto contents = std::make_shared<const Bytes>(std::move(data));
  if (!large || where.file == nullptr) {
    constant.bytes = ConstantData(std::move(contents));
    return constant;
  }
  const Identity hash = IdentityOf(std::span(*contents));
  constant.bytes = ReadLater(std::move(where), constant, hash, name, bytes, std::move(contents));
  return constant;
}

}  // namespace lagoon
