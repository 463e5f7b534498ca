#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/seldom.h"
#include "base/status.h"
#include "base/time.h"
#include "server/remote/http_link.h"
#include "serving/core/share_control.h"

namespace lagoon {

/// The shares of a member's models, read and changed over HTTP (/v2/shares, docs/guide/shares.md):
/// one request at a time, in order. If one is not answered, the resizes that wait are dropped. Any
/// thread may call any method; none but Await() and the destructor blocks.
class RemoteShares {
 public:
  /// More resizes do not wait: the log says so.
  static constexpr std::size_t kMostWaiting = 4096;

  struct Options {
    std::string member;      // for messages: "member a"
    Nanoseconds period{0};   // Ask() asks again after so long
    Nanoseconds timeout{0};  // of a request
  };
  RemoteShares(std::shared_ptr<HttpLink> link, Options options);
  /// Ends what is under way, and waits for it. Not on a thread of the link's pool.
  ~RemoteShares();
  RemoteShares(const RemoteShares&) = delete;
  RemoteShares& operator=(const RemoteShares&) = delete;

  /// Asks for a report in the background.
  void Ask();
  /// The last report. Empty: there is none, as of a member without shares.
  std::optional<SharesReport> Report() const;
  /// ShareControl::ResizeShare() at the member. A resize of the same share that still waits is
  /// dropped. The log has what the member refuses.
  void Resize(const std::string& model, const std::string& version, const ShareWanted& wanted);
  /// A resize waits or is under way. After it Report() is from after the last one that the member
  /// has answered.
  bool Resizing() const;
  /// Calls `then`, which must not throw, when the resizes before have ended.
  void Then(std::function<void()> then);
  /// Returns when no resize waits or is under way, at `until` at the latest.
  void Await(TimePoint until);
  /// The member is lost, or another server answers in its place: drops the report and the resizes.
  void Forget();

 private:
  class Request;
  /// A resize, or what Then() has.
  struct Step {
    std::string path = {}, body = {};
    std::function<void()> then = {};
  };

  void Add(Step step);
  bool Resizes() const REQUIRES(mutex_);
  void DropResizes() REQUIRES(mutex_);
  /// Takes the next step, by the only thread that may: the one that has set busy_.
  void Advance();
  void OnEnd(const LinkEnd& end);
  /// The report of an answer. An error: the member has refused the request, or what it tells is no
  /// report; kUnimplemented: it has no shares. `before`: as ParseSharesReport().
  static Result<SharesReport> Answer(const LinkEnd& end, const SharesReport& before);
  /// Logs an error that the log does not have yet, one in a while.
  void Tell(const std::string& path, const Error& error) REQUIRES(mutex_);

  const std::shared_ptr<HttpLink> link_;
  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ GUARDED_BY(mutex_) = false;
  bool asks_ GUARDED_BY(mutex_) = false;  // for a report, after the steps
  bool busy_ GUARDED_BY(mutex_) = false;  // a step is under way
  std::deque<Step> steps_ GUARDED_BY(mutex_);
  std::unique_ptr<Request> request_ GUARDED_BY(mutex_);  // null: none is under way
  std::optional<SharesReport> report_ GUARDED_BY(mutex_);
  TimePoint asked_ GUARDED_BY(mutex_){};
  std::map<std::string, std::string> problems_ GUARDED_BY(mutex_);  // the last ones, by path
  Seldom told_ GUARDED_BY(mutex_){std::chrono::seconds(30)};
};

}  // namespace lagoon
