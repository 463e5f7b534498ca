#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/random.h"
#include "server/remote/ingress_members.h"
#include "server/remote/routes.h"
#include "server/remote/suspects.h"
#include "serving/core/inference.h"
#include "serving/core/statistics.h"

namespace lagoon {

struct IngressOptions {
  RemoteOptions remote;  // without an address
  int threads = 1;       // that read the members' answers, 1 or more
  std::uint32_t seed = 1;
  /// More requests in flight are refused with kUnavailable.
  std::size_t most_in_flight = 8192;
};

/// A member, as GET /v2/fleet/routes shows it.
struct MemberState {
  std::string name, address;
  bool ready = false;
  std::size_t in_flight = 0;
  std::vector<std::string> models;  // that the member has loaded
};

/// One core in front of many: each request goes to a member that has its model. PickReplica()
/// chooses the member. A request that a member answers with kUnavailable, because it drains or is
/// full, is sent once more, to another member. So is a request whose member is lost while it runs,
/// unless requests like it have ended members before (Suspects); it runs twice then, which changes
/// nothing, as inference has no other effect than its answer. Each request is answered once.
/// A member's kNotFound counts as kUnavailable if the routes have the model: it is on its way.
///
/// Statistics() counts what clients asked for, and all of a member's time as compute_infer;
/// inference_count counts requests, because the ingress does not know their rows. Metadata and
/// Config come from a member that has the model. There are no facets: devices are seen and changed
/// at their members.
class IngressCore final : public Inference {
 public:
  explicit IngressCore(const IngressOptions& options);
  /// Cancels the requests in flight and waits for their answers.
  ~IngressCore() override;

  /// IngressMembers::Set(). Requests in flight go on where they are.
  Status SetRoutes(const Routes& routes);
  Routes routes() const { return members_.Table()->routes; }
  std::vector<MemberState> Members() const;
  /// Requests that were sent to a second member.
  std::uint64_t retries() const { return retries_.load(std::memory_order_relaxed); }

  bool Ready() const override;  // a member is ready, and the core is not draining
  std::vector<ModelStatus> Models() const override;
  Status ModelReady(const std::string& model, const std::string& version) const override;
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override;
  Result<inference::ModelConfig> Config(const std::string& model,
                                        const std::string& version) const override;
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const override;
  RequestHandle Infer(InferRequest request, InferCallback callback) override;
  void Cancel(RequestHandle handle) override;
  void Drain(TimePoint until) override;

 private:
  struct Flight;
  struct Counts {
    StatisticsRecorder recorder;
    std::atomic<std::uint64_t> in_flight{0};
  };
  using Member = std::shared_ptr<IngressMember>;

  /// A member for the request, but not `avoid` (null: any). kNotFound: no routes for the model;
  /// kUnavailable: no replica is ready.
  Result<Member> Choose(const std::string& model, const std::string& version,
                        const IngressMember* avoid) const;
  void Send(const std::shared_ptr<Flight>& flight, const Member& member);
  /// `lost`: as RemoteCore::SentCallback has it.
  void Answered(const std::shared_ptr<Flight>& flight, Result<InferResponse> result, bool lost);
  /// The member to send the flight to after kUnavailable; null: the error is the answer.
  Member Again(Flight& flight, bool lost);
  void End(const std::shared_ptr<Flight>& flight, Result<InferResponse> result);
  Status Admit(const std::shared_ptr<Flight>& flight);
  std::shared_ptr<Counts> CountsOf(const std::string& model) REQUIRES(mutex_);
  void CancelFlight(Flight& flight);

  const IngressOptions options_;
  RemoteQueue queue_;
  IngressMembers members_;  // after the queue, which it uses
  std::atomic<std::uint64_t> retries_{0};
  Suspects suspects_;

  mutable Mutex draw_mutex_;
  mutable Random random_ GUARDED_BY(draw_mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  bool draining_ GUARDED_BY(mutex_) = false;
  std::uint64_t last_handle_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<Flight>> flights_ GUARDED_BY(mutex_);
  // A count for each model whose requests have reached a member.
  std::map<std::string, std::shared_ptr<Counts>> counts_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
