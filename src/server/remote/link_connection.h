#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/remote/http_link.h"

namespace lagoon {

/// A connection of an HttpLink. It runs on its strand unless said otherwise.
class LinkConnection final : public std::enable_shared_from_this<LinkConnection> {
 public:
  LinkConnection(std::shared_ptr<HttpLink> link, HttpLink::Target target);

  // Any thread:
  const HttpLink::Target& target() const { return target_; }
  /// Resolves, connects and asks who is there. Then CameAbout() of the link; Write() if it has a
  /// request, else Idle(). On a failure Closed().
  void Open();
  /// The request is this connection's. False: it is closed. With the link's lock.
  bool Take(LinkRequest& request);
  /// Writes the request, unless it has ended meanwhile.
  void Write(std::uint64_t number);
  /// Ends the request, if it has not ended.
  void Cut(std::uint64_t number);
  /// Closes it if a time has passed.
  void Check(TimePoint now);
  void Shut();

 private:
  using ResponseParser = boost::beast::http::response_parser<boost::beast::http::empty_body>;
  using ErrorCodeIo = boost::system::error_code;
  enum class Phase : std::uint8_t { kConnecting, kProbing, kOpen, kClosed };

  void Connect(const boost::asio::ip::tcp::resolver::results_type& found);
  void Probe();
  void OnProbed();
  void Read();
  void OnRead(ErrorCodeIo error, std::size_t bytes);
  void AwaitHeader();
  bool ParseHeader();  // false: more bytes are needed, or it is closed
  void OnAnswer();
  void WriteRest();
  void OnWritten(ErrorCodeIo error);
  std::vector<boost::asio::const_buffer> Rest() const REQUIRES(mutex_);
  /// The connection ends, and the request that it has.
  void Fail(LinkEnd::Kind kind, const std::string& why);
  /// The request ends. Its tensors may be in use by a write, which ends first.
  void Finish(LinkEnd end);
  void OnCheck(TimePoint now);

  const std::shared_ptr<HttpLink> link_;
  const HttpLink::Target target_;
  const Strand strand_;
  boost::asio::ip::basic_resolver<boost::asio::ip::tcp, Strand> resolver_;
  Phase phase_ = Phase::kConnecting;
  bool proven_ = false, keep_ = true;
  const TimePoint opened_;
  TimePoint heard_;  // bytes came in or went out
  int unsent_ = 0;   // bytes that the system holds, at the last check
  boost::beast::flat_buffer input_;
  std::optional<ResponseParser> header_;
  LinkEnd answer_;
  std::size_t body_read_ = 0;
  bool in_body_ = false;

  Mutex mutex_;    // after the link's
  Socket socket_;  // written and closed with mutex_
  bool closed_ GUARDED_BY(mutex_) = false;
  LinkRequest* request_ GUARDED_BY(mutex_) = nullptr;
  std::uint64_t number_ GUARDED_BY(mutex_) = 0;  // of request_
  TimePoint ends_at_ GUARDED_BY(mutex_) = kNoDeadline;
  TimePoint taken_at_ GUARDED_BY(mutex_){};
  std::size_t written_ GUARDED_BY(mutex_) = 0;         // of request_
  bool begun_ GUARDED_BY(mutex_) = false;              // the writing of request_
  bool writing_ GUARDED_BY(mutex_) = false;            // an asynchronous write uses its bytes
  std::optional<LinkEnd> pending_ GUARDED_BY(mutex_);  // of request_, when the write has ended
};

}  // namespace lagoon
