#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "base/unfilled.h"
#include "server/io_pool.h"

namespace lagoon {

class LinkConnection;

/// How a request over a link has ended.
struct LinkEnd {
  enum class Kind : std::uint8_t {
    kAnswered,
    kNotSent,   // no connection came about: the server has not seen the request
    kLost,      // the connection has ended, or has become silent, while it had the request
    kDeadline,  // LinkRequest::ends_at
    kCut,       // HttpLink::Cut()
  };
  Kind kind = Kind::kNotSent;
  std::string why = {};                                  // kNotSent and kLost: one clause
  bool begun = false;                                    // the server may have seen the request
  unsigned status = 0;                                   // the rest: of the answer
  std::optional<std::size_t> json_bytes = std::nullopt;  // Inference-Header-Content-Length
  UnfilledBytes body = {};
};

/// A request to another server. Its sender keeps it until OnEnd().
class LinkRequest {
 public:
  virtual ~LinkRequest() = default;

 protected:
  /// Called once, on a thread of the pool, without a lock. The link uses the request no more.
  virtual void OnEnd(LinkEnd end) = 0;

  std::string head_;                                 // header and JSON
  std::vector<std::span<const std::byte>> tensors_;  // behind it; borrowed until OnEnd()
  TimePoint ends_at_ = kNoDeadline;                  // an answer is not waited for any longer
  bool urgent_ = false;                              // see HttpLink::Options::for_urgent

 private:
  friend class HttpLink;
  friend class LinkConnection;
  // With the link's lock:
  std::uint64_t number_ = 0;                    // among the link's requests; 0: not sent yet
  bool cut_ = false;                            // before it was sent
  std::shared_ptr<LinkConnection> connection_;  // null: it waits for one, or has ended
  int ended_before_ = 0;  // connections that have ended before they took a byte; of connection_
};

/// Kept connections to the HTTP port of another server, each with one request at a time. A request
/// is written by the thread that sends it, as far as the system takes it at once, and its answer is
/// given by the thread that reads it, so that a request waits for no other thread. Any thread may
/// call any method.
///
/// A connection is used when the server has answered GET /v2 on it with its id: another server may
/// have the port. While the server works on a request it says so once a second (kBeatField), so
/// that a connection that has become silent is found.
class HttpLink : public std::enable_shared_from_this<HttpLink> {
 public:
  struct Options {
    std::string host;  // a name or an address
    /// Until a connection has come about.
    Nanoseconds connect_timeout = std::chrono::seconds(2);
    /// A connection on which nothing moves for so long while it has a request is closed.
    Nanoseconds silence = std::chrono::seconds(3);
    /// More requests wait for a connection, the urgent ones first, else as they came.
    std::size_t most_connections = 256;
    /// So many of these, a quarter at most, take only urgent requests. Where the server takes fewer
    /// connections: the same part of them.
    std::size_t for_urgent = 64;
    /// A server that has refused a connection beside others is not asked for more so long.
    Nanoseconds full_for = std::chrono::seconds(5);
  };
  struct Target {
    std::uint16_t port = 0;  // of HTTP; 0: not known
    std::string server;      // its id; empty: any

    bool operator==(const Target&) const = default;
  };

  /// `pool` must outlive the link's connections, which end after Close().
  static std::shared_ptr<HttpLink> Make(IoPool& pool, Options options);
  ~HttpLink();

  /// Where the server is from now on. Idle connections to another target end.
  void SetTarget(Target target);
  /// Opens a connection unless there is one, or one comes about.
  void Prepare();
  /// Whether there is a connection on which the server has answered.
  bool Connected() const;
  /// Why the last connection has not come about; empty: it has, or there was none.
  std::string WhyNot() const;
  std::string Text() const;  // "HTTP of 10.0.0.7:8000"

  /// OnEnd() follows.
  void Send(LinkRequest& request);
  /// Ends the request early: OnEnd() follows soon, on a thread of the pool. The request is still
  /// there, or has not been sent yet.
  void Cut(LinkRequest& request);
  /// Closes all connections; requests end as lost. Not waited for.
  void Close();

 private:
  friend class LinkConnection;
  using Connection = std::shared_ptr<LinkConnection>;

  HttpLink(IoPool& pool, Options options);

  // What connections tell, on their strands, without a lock.
  void CameAbout(const Connection& connection);
  void Idle(const Connection& connection);
  /// `why`: empty if nothing went wrong; else idle connections are closed too, as whatever ended
  /// this one may have ended them.
  void Closed(const Connection& connection, bool proven, const std::string& why);
  /// The connection has not come about, and had `request` or none. Where there are others, the
  /// server has no room for more: the request waits for one of them.
  void Refused(const Connection& connection, LinkRequest* request, const std::string& why);
  /// A request is of the connection no more.
  void Release(LinkRequest& request);

  /// Gives the request to a connection, or lets it wait for one.
  void Place(LinkRequest& request);
  /// Does so with those that wait, as long as there is room.
  void PlaceWaiting();
  /// Whether such a request may have a connection now; those that wait go before it.
  bool MayGo(bool urgent) const REQUIRES(mutex_);
  void Assign(LinkRequest& request, const Connection& connection) REQUIRES(mutex_);
  void Unassign(LinkRequest& request) REQUIRES(mutex_);
  /// The next one that may go; null: none.
  LinkRequest* TakeWaiting() REQUIRES(mutex_);
  std::vector<LinkRequest*> TakeAllWaiting() REQUIRES(mutex_);
  Connection OpenOne() REQUIRES(mutex_);
  void EndSoon(LinkRequest& request, LinkEnd end);
  void Tick();
  bool CheckAll();

  IoPool& pool_;
  const Options options_;
  const Strand strand_;
  boost::asio::steady_timer timer_;  // on strand_

  mutable Mutex mutex_;
  Target target_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  std::string why_not_ GUARDED_BY(mutex_);
  std::uint64_t last_number_ GUARDED_BY(mutex_) = 0;
  std::set<Connection> connections_ GUARDED_BY(mutex_);
  std::vector<Connection> idle_ GUARDED_BY(mutex_);  // the last used at the end
  std::size_t proven_ GUARDED_BY(mutex_) = 0;        // those on which the server has answered
  std::size_t most_ GUARDED_BY(mutex_);              // connections that the server takes
  std::optional<TimePoint> full_since_ GUARDED_BY(mutex_);  // why most_ is not most_connections
  std::size_t not_urgent_ GUARDED_BY(mutex_) = 0;           // connections with such a request
  std::deque<LinkRequest*> waiting_[2] GUARDED_BY(mutex_);  // by urgent_
};

}  // namespace lagoon
