#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/time.h"
#include "server/grpc/grpc_conduct.h"

namespace lagoon {

/// Watches the connections that gRPC serves, and shuts down those whose frames outrun their calls
/// (GrpcConduct). Asks the kernel for a connection's bytes and gRPC (channelz) for its streams. A
/// connection that is shut down frees what gRPC holds for it, and its address gets no new
/// connection for a second. One thread at a time.
class GrpcGuard {
 public:
  explicit GrpcGuard(const GrpcConduct::Limits& limits) : limits_(limits) {}

  /// Watches a connected socket that gRPC will own. False: its address was shut out a moment ago;
  /// close the socket.
  bool Admit(int descriptor, TimePoint now);
  /// Call it every kPeriod. `where`: the port, for the log.
  void Check(TimePoint now, const std::string& where);

  static constexpr std::chrono::milliseconds kPeriod{100};

 private:
  struct Connection {
    int descriptor = -1;       // gRPC's: may be closed, or another socket's by now
    std::uint64_t cookie = 0;  // the kernel's identity of the socket
    std::string address;       // of the client, without the port
    GrpcConduct conduct;
    std::intptr_t socket = 0;   // channelz' number; 0: not known yet
    std::uint64_t checked = 0;  // bytes received at the last judgement
    TimePoint judged;
  };
  using Connections = std::map<std::string, Connection>;  // by the client's address and port

  /// Why a connection that has sent more since the last call must be cut; empty: nothing is wrong.
  std::string_view Judge(Connection& connection, GrpcTraffic traffic, TimePoint now);
  static void ShutDown(const Connection& connection);
  void FindSockets();
  void FindSocketsOf(std::intptr_t server);
  void ShutOut(const std::string& address, TimePoint now);

  const GrpcConduct::Limits limits_;
  Connections connections_;
  std::map<std::intptr_t, std::intptr_t> next_socket_;  // of each of the process's servers
  std::map<std::string, TimePoint> shut_out_;           // addresses, and until when
  TimePoint next_warning_;
  TimePoint trim_ = kNoDeadline;  // when to give freed memory back to the system
};

}  // namespace lagoon
