#include "learn/weights.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

namespace lagoon::learn {
namespace {

constexpr std::string_view kMagic("LGNETS\0", 7);
constexpr char kVersion = 1;
constexpr std::uint64_t kMostNetworks = 64, kMostSizes = 16, kMostWidth = 65536;

void Put(std::uint64_t number, std::string* bytes) {
  for (int i = 0; i < 8; ++i) bytes->push_back(static_cast<char>((number >> (8 * i)) & 0xff));
}

std::uint64_t Get(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return number;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  Result<std::uint64_t> Number() {
    if (left_.size() < 8) return Fail(ErrorCode::kInvalidArgument, "is cut off");
    const std::uint64_t number = Get(left_);
    left_.remove_prefix(8);
    return number;
  }
  Status Floats(std::span<float> floats) {
    if (left_.size() < floats.size_bytes()) return Fail(ErrorCode::kInvalidArgument, "is cut off");
    std::memcpy(floats.data(), left_.data(), floats.size_bytes());
    left_.remove_prefix(floats.size_bytes());
    for (const float value : floats) {
      if (!std::isfinite(value)) {
        return Fail(ErrorCode::kInvalidArgument, "has a weight that is not finite");
      }
    }
    return {};
  }
  bool AtEnd() const { return left_.empty(); }

 private:
  std::string_view left_;
};

Result<Mlp> ReadNetwork(Reader& reader) {
  LAGOON_ASSIGN_OR_RETURN(const std::uint64_t count, reader.Number());
  if (count < 2 || count > kMostSizes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("has a network of {} sizes, must be 2 to {}", count, kMostSizes));
  }
  std::vector<int> sizes;
  for (std::uint64_t i = 0; i < count; ++i) {
    LAGOON_ASSIGN_OR_RETURN(const std::uint64_t size, reader.Number());
    if (size < 1 || size > kMostWidth) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("has a layer of {} neurons, must be 1 to {}", size, kMostWidth));
    }
    sizes.push_back(static_cast<int>(size));
  }
  Mlp network(std::move(sizes));
  LAGOON_RETURN_IF_ERROR(reader.Floats(network.parameters()));
  return network;
}

Result<std::vector<Mlp>> Decode(std::string_view bytes, std::uint64_t meaning) {
  if (bytes.size() < kMagic.size() + 1 || bytes.substr(0, kMagic.size()) != kMagic) {
    return Fail(ErrorCode::kInvalidArgument, "is not a file of weights");
  }
  if (bytes[kMagic.size()] != kVersion) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("has version {} of the format, must be {}",
                            static_cast<int>(bytes[kMagic.size()]), static_cast<int>(kVersion)));
  }
  if (bytes.size() < 32) return Fail(ErrorCode::kInvalidArgument, "is cut off");
  const std::string_view body = bytes.substr(0, bytes.size() - 8);
  if (Get(bytes.substr(body.size())) != HashOf(body)) {
    return Fail(ErrorCode::kInvalidArgument, "is cut off or damaged: its hash differs");
  }
  Reader reader(body.substr(8));
  LAGOON_ASSIGN_OR_RETURN(const std::uint64_t has, reader.Number());
  if (has != meaning) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("was trained for other features or sizes (hash {:016x}, this program "
                            "has {:016x}): train it again",
                            has, meaning));
  }
  LAGOON_ASSIGN_OR_RETURN(const std::uint64_t count, reader.Number());
  if (count > kMostNetworks) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("has {} networks, must be at most {}", count, kMostNetworks));
  }
  std::vector<Mlp> networks;
  for (std::uint64_t i = 0; i < count; ++i) {
    LAGOON_ASSIGN_OR_RETURN(Mlp network, ReadNetwork(reader));
    networks.push_back(std::move(network));
  }
  if (!reader.AtEnd()) return Fail(ErrorCode::kInvalidArgument, "goes on behind its networks");
  return networks;
}

}  // namespace

std::uint64_t HashOf(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return hash;
}

std::string EncodeWeights(std::uint64_t meaning, const std::vector<const Mlp*>& networks) {
  std::string bytes(kMagic);
  bytes.push_back(kVersion);
  Put(meaning, &bytes);
  Put(networks.size(), &bytes);
  for (const Mlp* network : networks) {
    Put(network->sizes().size(), &bytes);
    for (const int size : network->sizes()) Put(static_cast<std::uint64_t>(size), &bytes);
    const std::span<const float> parameters = network->parameters();
    bytes.append(reinterpret_cast<const char*>(parameters.data()), parameters.size_bytes());
  }
  Put(HashOf(bytes), &bytes);
  return bytes;
}

Result<std::vector<Mlp>> DecodeWeights(const std::string& name, std::string_view bytes,
                                       std::uint64_t meaning) {
  auto networks = Decode(bytes, meaning);
  if (!networks) return Annotate(fmt::format("weights '{}'", name), networks.error());
  return networks;
}

Status WriteFileWhole(const std::string& path, std::string_view bytes) {
  const std::string beside = path + ".new";
  std::ofstream file(beside, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file || std::rename(beside.c_str(), path.c_str()) != 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot write '{}': is there such a folder, and space?", path));
  }
  return {};
}

Result<std::string> ReadFileWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(ErrorCode::kNotFound, fmt::format("cannot read '{}'", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace lagoon::learn
