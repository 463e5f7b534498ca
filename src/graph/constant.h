#pragma once

// Constants of a graph. The contents of a large one need not be in memory: they are read from the
// model's file, or computed from other constants, whenever a kernel packs them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon {

/// Names the contents of a constant: equal identities mean equal bytes, in all models.
struct Identity {
  std::uint64_t high = 0, low = 0;

  explicit operator bool() const { return (high | low) != 0; }
  friend bool operator==(const Identity&, const Identity&) = default;
  // clang-tidy sees a null pointer in the comparison that the compiler writes.
  friend auto operator<=>(const Identity&,
                          const Identity&) = default;  // NOLINT(modernize-use-nullptr)
};

/// The 128-bit hash of `bytes`; never the empty Identity.
Identity IdentityOf(std::span<const std::byte> bytes);
Identity IdentityOf(std::string_view text);
/// The same of `size` bytes that are not in memory: `read` fills a span with the bytes from an
/// offset on. Reads each byte once, in ascending order. Fails as `read` does.
Result<Identity> IdentityOf(
    std::size_t size, const std::function<Status(std::size_t offset, std::span<std::byte>)>& read);
/// "0123...": 32 digits, for texts that are hashed in turn.
std::string ToString(const Identity& identity);

/// The contents of a constant, used like a pointer to them. Copies share the contents. Contents
/// that are deferred are made at the first use and kept until Release(). Not thread-safe.
class ConstantData {
 public:
  using Bytes = std::vector<std::byte>;
  /// Throws ConstantError where the contents cannot be had.
  using Make = std::function<std::shared_ptr<const Bytes>()>;

  ConstantData() = default;
  ConstantData(std::shared_ptr<const Bytes> bytes);  // NOLINT: as a pointer
  ConstantData(std::shared_ptr<Bytes> bytes)         // NOLINT: as a pointer
      : ConstantData(std::shared_ptr<const Bytes>(std::move(bytes))) {}

  /// `size`: of the contents in bytes. `identity` must not be empty. `now`: the contents if they
  /// are in memory already.
  static ConstantData Deferred(std::size_t size, Identity identity, Make make,
                               std::shared_ptr<const Bytes> now = nullptr);

  explicit operator bool() const { return state_ != nullptr; }
  /// In bytes. Does not make the contents.
  std::size_t size() const;
  bool deferred() const { return state_ != nullptr && state_->make != nullptr; }
  /// Empty for contents that lie in memory.
  Identity identity() const { return state_ == nullptr ? Identity{} : state_->identity; }

  const Bytes& operator*() const { return *Shared(); }
  const Bytes* operator->() const { return Shared().get(); }
  const std::shared_ptr<const Bytes>& Shared() const;

  /// Frees deferred contents; the next use makes them again. References to them end.
  void Release() const;

  /// Whether both are copies of the same constant.
  friend bool operator==(const ConstantData& a, const ConstantData& b) {
    return a.state_ == b.state_;
  }

 private:
  struct State {
    std::size_t size = 0;
    Identity identity;
    Make make;  // empty: the contents stay in memory
    std::shared_ptr<const Bytes> bytes;
  };
  std::shared_ptr<State> state_;
};

/// A constant: dense row-major, little-endian; strings as in plan/bytes_tensor.h. The bytes are
/// shared and never change.
struct Constant {
  DataType type = DataType::kFloat32;
  Dims dims;
  ConstantData bytes;
  /// ONNX's element type in the file, where Lagoon keeps the elements in a wider one: 4-bit
  /// integers as INT8 or UINT8, floats of 4 and 8 bits as FP16. Otherwise 0.
  int narrow = 0;

  std::span<const float> floats() const;      // CHECKs the type
  std::vector<std::int64_t> ToInt64() const;  // from 8, 32 or 64 bits; CHECKs the type
};

/// The bytes of fp32 numbers.
ConstantData::Bytes BytesOf(std::span<const float> values);

/// Constants of at least so many bytes are deferred where that is possible.
inline constexpr std::size_t kDeferredBytes = 1 << 16;

/// The constant that `make` computes from the constants `from`. It is deferred if it is large and
/// every large one of `from` is deferred; otherwise it is computed now. `recipe` says what `make`
/// does: equal recipes of equal constants have equal results.
Constant DerivedConstant(DataType type, Dims dims, std::string_view recipe,
                         std::vector<Constant> from,
                         std::function<ConstantData::Bytes(std::span<const Constant>)> make);

/// Thrown when a constant is read lazily and the model's file has changed since.
/// WithoutExceptions (base/guard.h) turns it into an error.
class ConstantError : public std::exception {
 public:
  explicit ConstantError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

}  // namespace lagoon
