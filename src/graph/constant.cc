#include "graph/constant.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

static_assert(std::endian::native == std::endian::little, "constants are kept as ONNX stores them");

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;  // stays in a core's cache

Identity ToIdentity(const XXH128_hash_t& hash) {
  return {hash.high64 | 1, hash.low64};  // never empty
}

Identity Hash(const void* data, std::size_t bytes) { return ToIdentity(XXH3_128bits(data, bytes)); }

/// The identity of a source of a derived constant; contents that lie in memory are hashed.
Identity SourceIdentity(const Constant& source) {
  const Identity known = source.bytes.identity();
  return known ? known : IdentityOf(std::span(*source.bytes));
}

Identity DerivedIdentity(DataType type, const Dims& dims, std::string_view recipe,
                         std::span<const Constant> from) {
  std::string text = fmt::format("derived {} {} {}", recipe, OipName(type), ToString(dims));
  for (const Constant& source : from) {
    text += fmt::format(" {} {} {}", OipName(source.type), ToString(source.dims),
                        ToString(SourceIdentity(source)));
  }
  return IdentityOf(text);
}

}  // namespace

Identity IdentityOf(std::span<const std::byte> bytes) { return Hash(bytes.data(), bytes.size()); }
Identity IdentityOf(std::string_view text) { return Hash(text.data(), text.size()); }

Result<Identity> IdentityOf(
    std::size_t size, const std::function<Status(std::size_t offset, std::span<std::byte>)>& read) {
  std::vector<std::byte> piece(std::min(size, kPieceBytes));
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (std::size_t offset = 0; offset < size; offset += piece.size()) {
    const std::span<std::byte> part(piece.data(), std::min(piece.size(), size - offset));
    LAGOON_RETURN_IF_ERROR(read(offset, part));
    XXH3_128bits_update(&state, part.data(), part.size());
  }
  return ToIdentity(XXH3_128bits_digest(&state));
}

std::string ToString(const Identity& identity) {
  return fmt::format("{:016x}{:016x}", identity.high, identity.low);
}

ConstantData::ConstantData(std::shared_ptr<const Bytes> bytes) {
  if (bytes == nullptr) return;
  const std::size_t size = bytes->size();
  state_ = std::make_shared<State>(State{size, {}, nullptr, std::move(bytes)});
}

ConstantData ConstantData::Deferred(std::size_t size, Identity identity, Make make,
                                    std::shared_ptr<const Bytes> now) {
  LAGOON_CHECK(identity && make != nullptr);
  ConstantData data;
  data.state_ = std::make_shared<State>(State{size, identity, std::move(make), std::move(now)});
  return data;
}

std::size_t ConstantData::size() const {
  LAGOON_CHECK(state_ != nullptr);
  return state_->size;
}

const std::shared_ptr<const ConstantData::Bytes>& ConstantData::Shared() const {
  LAGOON_CHECK(state_ != nullptr);
  if (state_->bytes == nullptr) {
    state_->bytes = state_->make();
    LAGOON_CHECK(state_->bytes != nullptr && state_->bytes->size() == state_->size);
  }
  return state_->bytes;
}

void ConstantData::Release() const {
  if (deferred()) state_->bytes.reset();
}

std::span<const float> Constant::floats() const {
  LAGOON_CHECK(type == DataType::kFloat32);
  return {reinterpret_cast<const float*>(bytes->data()), bytes->size() / sizeof(float)};
}

namespace {

template <typename T>
std::vector<std::int64_t> Widened(const ConstantData::Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

}  // namespace

std::vector<std::int64_t> Constant::ToInt64() const {
  switch (type) {
    case DataType::kInt8:
      return Widened<std::int8_t>(*bytes);
    case DataType::kUInt8:
      return Widened<std::uint8_t>(*bytes);
    case DataType::kInt32:
      return Widened<std::int32_t>(*bytes);
    default:
      LAGOON_CHECK(type == DataType::kInt64);
      return Widened<std::int64_t>(*bytes);
  }
}

ConstantData::Bytes BytesOf(std::span<const float> values) {
  ConstantData::Bytes bytes(values.size_bytes());
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Constant DerivedConstant(DataType type, Dims dims, std::string_view recipe,
                         std::vector<Constant> from,
                         std::function<ConstantData::Bytes(std::span<const Constant>)> make) {
  const std::size_t size = static_cast<std::size_t>(ElementCount(dims)) * SizeOf(type);
  const bool deferred =
      size >= kDeferredBytes && std::ranges::all_of(from, [](const Constant& source) {
        return source.bytes.deferred() || source.bytes.size() < kDeferredBytes;
      });
  const auto compute = [make = std::move(make)](std::span<const Constant> sources) {
    auto bytes = std::make_shared<const ConstantData::Bytes>(make(sources));
    for (const Constant& source : sources) source.bytes.Release();
    return bytes;
  };
  if (!deferred) return {type, std::move(dims), compute(from)};
  const Identity identity = DerivedIdentity(type, dims, recipe, from);
  return {type, std::move(dims),
          ConstantData::Deferred(size, identity,
                                 [from = std::move(from), compute] { return compute(from); })};
}

}  // namespace lagoon
