#pragma once

// For tests: a client of gRPC that sends the frames of HTTP/2 one by one.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lagoon {

enum FrameType : int {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindow = 8
};
inline constexpr int kEndStream = 1;
inline constexpr int kEndHeaders = 4;

inline std::string FrameOf(int type, int flags, std::uint32_t stream, const std::string& payload) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame + payload;
}

/// A field without Huffman codes and without the table of HPACK.
inline std::string FieldOf(const std::string& name, const std::string& value) {
  return '\0' + std::string(1, static_cast<char>(name.size())) + name +
         static_cast<char>(value.size()) + value;
}

/// The header of a call of the inference service.
inline std::string CallHeader(const std::string& method) {
  return FieldOf(":method", "POST") + FieldOf(":scheme", "http") +
         FieldOf(":path", "/inference.GRPCInferenceService/" + method) +
         FieldOf(":authority", "a") + FieldOf("te", "trailers") +
         FieldOf("content-type", "application/grpc");
}

/// The length of `bytes` and the first `sent` of them, as a message begins.
inline std::string MessageOf(const std::string& bytes, std::size_t sent) {
  std::string text(1, '\0');
  for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(bytes.size() >> shift);
  return text + bytes.substr(0, sent);
}

class FrameClient {
 public:
  struct Frame {
    int type = -1;  // the connection has ended, or nothing came within ten seconds
    int flags = 0;
    std::uint32_t stream = 0;
    std::string payload;
  };

  explicit FrameClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval timeout{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0, ""));
  }
  ~FrameClient() { ::close(socket_); }
  FrameClient(const FrameClient&) = delete;
  FrameClient& operator=(const FrameClient&) = delete;

  /// Returns false if the server has closed the connection.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  Frame Receive() {
    const auto has = [&](std::size_t bytes) {
      while (received_.size() < bytes) {
        char piece[4096];
        const ssize_t got = ::recv(socket_, piece, sizeof(piece), 0);
        if (got <= 0) return false;
        received_.append(piece, static_cast<std::size_t>(got));
      }
      return true;
    };
    const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(received_[at]); };
    if (!has(9)) return {};
    const std::size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    Frame frame{byte(3),
                byte(4),
                static_cast<std::uint32_t>(byte(5) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8)),
                {}};
    if (!has(9 + size)) return {};
    frame.payload = received_.substr(9, size);
    received_.erase(0, 9 + size);
    return frame;
  }

  /// The first frame for which `wanted` is true; the settings are acknowledged meanwhile.
  Frame Until(const std::function<bool(const Frame&)>& wanted) {
    for (;;) {
      Frame frame = Receive();
      if (frame.type == kSettings && frame.flags == 0) Send(FrameOf(kSettings, 1, 0, ""));
      if (frame.type < 0 || wanted(frame)) return frame;
    }
  }
  /// The first frame of a type on a stream.
  Frame Until(int type, std::uint32_t stream) {
    return Until([&](const Frame& f) { return f.type == type && f.stream == stream; });
  }

 private:
  const int socket_;
  std::string received_;
};

}  // namespace lagoon
