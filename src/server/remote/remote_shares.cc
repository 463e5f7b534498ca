#include "server/remote/remote_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "server/remote/remote_codec.h"
#include "server/shares/share_json.h"

namespace lagoon {

class RemoteShares::Request final : public LinkRequest {
 public:
  /// `path`: of a resize; empty: a request for the report.
  Request(RemoteShares& owner, std::string path, const std::string& body, TimePoint ends_at)
      : owner_(owner), path_(std::move(path)) {
    head_ = path_.empty() ? "GET /v2/shares HTTP/1.1\r\nHost: member\r\n\r\n"
                          : fmt::format(
                                "POST {} HTTP/1.1\r\nHost: member\r\nContent-Type: "
                                "application/json\r\nContent-Length: {}\r\n\r\n{}",
                                path_, body.size(), body);
    ends_at_ = ends_at;
    urgent_ = true;  // small, and not to wait behind best-effort tensors
  }
  const std::string& path() const { return path_; }

 private:
  void OnEnd(LinkEnd end) override { owner_.OnEnd(end); }  // deletes this

  RemoteShares& owner_;
  const std::string path_;
};

RemoteShares::RemoteShares(std::shared_ptr<HttpLink> link, Options options)
    : link_(std::move(link)), options_(std::move(options)) {}

RemoteShares::~RemoteShares() {
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  Forget();
  MutexLock lock(mutex_);
  while (busy_) changed_.Wait(mutex_);
}

void RemoteShares::Ask() {
  {
    MutexLock lock(mutex_);
    const TimePoint now = Now();
    if (closing_ || asks_ || now - asked_ < options_.period) return;
    asks_ = true;
    asked_ = now;
    if (std::exchange(busy_, true)) return;
  }
  Advance();
}

std::optional<SharesReport> RemoteShares::Report() const {
  MutexLock lock(mutex_);
  return report_;
}

void RemoteShares::Resize(const std::string& model, const std::string& version,
                          const ShareWanted& wanted) {
  const std::string of_version = version.empty() ? "" : "/versions/" + version;
  Add({.path = fmt::format("/v2/models/{}{}/resize", model, of_version),
       .body = ResizeJson(wanted)});
}

bool RemoteShares::Resizing() const {
  MutexLock lock(mutex_);
  return Resizes();
}

void RemoteShares::Await(TimePoint until) {
  MutexLock lock(mutex_);
  while (Resizes() && Now() < until) changed_.WaitUntil(mutex_, until);
}

bool RemoteShares::Resizes() const {
  const auto resizes = [](const Step& step) { return !step.path.empty(); };
  return (request_ != nullptr && !request_->path().empty()) || std::ranges::any_of(steps_, resizes);
}

void RemoteShares::Then(std::function<void()> then) { Add({.then = std::move(then)}); }

void RemoteShares::Add(Step step) {
  {
    MutexLock lock(mutex_);
    if (!step.path.empty()) {
      std::erase_if(steps_, [&](const Step& other) { return other.path == step.path; });
      if (closing_) return;
      if (steps_.size() >= kMostWaiting) {
        spdlog::warn("{}: {} changes of shares wait for it, the limit: one is dropped",
                     options_.member, steps_.size());
        return;
      }
    }
    steps_.push_back(std::move(step));
    if (std::exchange(busy_, true)) return;
  }
  Advance();
}

void RemoteShares::Forget() {
  MutexLock lock(mutex_);
  DropResizes();
  asks_ = false;
  report_.reset();
  problems_.clear();
  if (request_ != nullptr) link_->Cut(*request_);
}

void RemoteShares::DropResizes() {
  std::erase_if(steps_, [](const Step& step) { return !step.path.empty(); });
}

void RemoteShares::Advance() {
  for (;;) {
    Step step;
    Request* request = nullptr;
    {
      MutexLock lock(mutex_);
      if (!steps_.empty()) {
        step = std::move(steps_.front());
        steps_.pop_front();
      } else if (!std::exchange(asks_, false)) {
        busy_ = false;
        changed_.NotifyAll();  // under the lock: afterwards this object may be gone
        return;
      }
      if (!step.then) {
        request_ = std::make_unique<Request>(*this, std::move(step.path), step.body,
                                             Now() + options_.timeout);
        request = request_.get();
      }
    }
    if (request != nullptr) return link_->Send(*request);  // OnEnd() goes on
    step.then();
  }
}

void RemoteShares::OnEnd(const LinkEnd& end) {
  const SharesReport before = Report().value_or(SharesReport());
  Result<SharesReport> report = Answer(end, before);
  std::unique_ptr<Request> ended;
  {
    MutexLock lock(mutex_);
    ended = std::move(request_);
    const std::string& path = ended->path();
    if (end.kind == LinkEnd::Kind::kCut) {
      // Forget() has dropped what was known.
    } else if (report) {
      report_ = *std::move(report);
      problems_.erase(path);
    } else {
      if (path.empty()) report_.reset();
      if (end.kind != LinkEnd::Kind::kAnswered) DropResizes();
      Tell(path, report.error());
    }
    changed_.NotifyAll();
  }
  ended.reset();
  Advance();
}

void RemoteShares::Tell(const std::string& path, const Error& error) {
  if (error.code == ErrorCode::kUnimplemented) return;
  if (problems_.size() > kMostWaiting) problems_.clear();
  std::string& told = problems_[path];
  if (std::exchange(told, error.message) == error.message || !told_.Due(Now())) return;
  const std::string what =
      path.empty() ? "its shares are not known" : fmt::format("{}: the share stays as it is", path);
  spdlog::warn("{}: {}: {}", options_.member, what, error.message);
}

Result<SharesReport> RemoteShares::Answer(const LinkEnd& end, const SharesReport& before) {
  if (end.kind != LinkEnd::Kind::kAnswered) {
    return Fail(ErrorCode::kUnavailable, end.why.empty() ? "it has not answered in time"
                                                         : "it has not answered: " + end.why);
  }
  const std::span<const std::byte> body(end.body.data(), end.body.size());
  if (end.status != 200) return tl::unexpected<Error>(ErrorOf(end.status, body, "it"));
  return ParseSharesReport({reinterpret_cast<const char*>(body.data()), body.size()}, before);
}

}  // namespace lagoon
