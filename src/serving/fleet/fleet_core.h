#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "cluster/interference/learned_latency.h"
#include "cluster/placement/placer.h"
#include "serving/core/fleet_control.h"
#include "serving/core/fleet_member.h"
#include "serving/core/inference.h"
#include "serving/core/scheduler_control.h"
#include "serving/core/share_control.h"
#include "serving/fleet/fleet_shares.h"
#include "serving/fleet/placement_keeper.h"
#include "serving/fleet/placer_names.h"
#include "serving/fleet/routes/fleet_routes.h"
#include "serving/fleet/routes/sequence_pins.h"
#include "serving/fleet/routes/suspects.h"
#include "serving/model/load_recorder.h"

namespace lagoon {

/// A model that the fleet may serve; every member can load it.
struct FleetModel {
  std::string name;
  std::int64_t memory_bytes = 0;  // of a replica, an estimate
};

struct FleetOptions {
  /// By name. Empty: the fleet serves what its members have.
  std::vector<FleetModel> models;
  std::string placer = "static";
  PlacementKeeper::MakePlacer make_placer = MakeFleetPlacer;
  PlacementRules rules;
  /// What a placer takes for the SLO of a model whose config has neither lagoon.slo_ms nor
  /// lagoon.deadline_ms.
  Nanoseconds default_slo{std::chrono::milliseconds(100)};
  /// Whether batches of models with an SLO keep to the rows that the placer gives them, where it
  /// decides about their shares.
  bool batch_limits = true;
  ConnectMember connect = {};  // null: no server can join
};

/// One core over several: each model has replicas on some of the members, and each request goes to
/// one of them (FleetRoutes). A PlacementKeeper decides where replicas are. A replica is loaded in
/// the background, then gets requests; one that goes answers the requests that it has, then is
/// unloaded: no request fails, but those that take longer than PlacementRules::longest_drain. A
/// model never loses its last replica. A member without a repository keeps what it has, and all of
/// that is served.
///
/// A request that a member answers with kUnavailable, because it drains or is full, is sent once
/// more, to another member. So is a request whose member is lost while it runs, unless requests
/// like it have ended members before (Suspects); it runs twice then, which changes nothing, as
/// inference has no other effect than its answer. Each request is answered once. kNotFound of a
/// server counts as kUnavailable: the model is on its way.
///
/// A request without a version goes to servers that have the highest version of the model that a
/// ready one has.
///
/// A sequence (sequence_batching) stays at the member where it began, and its requests are not sent
/// to a second one: their states are there only. If that member is lost or serves the model no
/// more, they are answered kUnavailable until the sequence begins anew.
///
/// Models of a lost member without another replica get one by the next decision. A member that
/// comes back offers what it has loaded again: models without a replica are served there, and other
/// replicas are unloaded.
///
/// Servers join and leave at run time. FleetDeviceReport::problem says why one gets no requests: it
/// has another version, or a model in other shapes than the fleet; it is a member already, under
/// another address; or requests would come back here from it. Each fleet has an id, which travels
/// with its requests, so that one that comes back nevertheless is refused.
///
/// The fleet knows a model as long as a member has it: one that is lost has what it had, and its
/// shapes hold. When the last one has told that it has the model no more, or has left, the fleet
/// forgets the model and its counts, unless FleetOptions::models has it. Models of which a member
/// has told, and that are not served, are kUnavailable, not kNotFound.
///
/// What the methods of Inference and of its facets say of a fleet:
/// - Ready(): at least one member is ready, and the fleet is not draining.
/// - Models(): one row per version, ready if a member serves it. Times are the longest of members.
/// - ModelReady(), Metadata(), Config(): of the first member that serves the version, or the
///   highest one if no version is asked for. The versions of Metadata() are those of all members.
/// - Statistics(): sums over members, including replicas that were unloaded. A request that was
///   sent to two members counts at both. `share` and `most_rows` are the largest of a member.
/// - schedulers(), shares(): of the devices of this process; null if there were none at the start.
/// - SchedulerStatistics(), Tenants(): sums. scheduler(): that of the first member, as all have the
///   same.
///   SwitchScheduler() switches all members, and reports the first error after all are through.
/// - device(): units, memory and limits are sums.
/// - ReadShares(): one row per replica; kind and rules are the first member's. SetSharesRules()
///   sets the rules of all members, ResizeShare() moves the share of every replica of the model. A
///   share that is tuned ("auto") is the placer's, if that decides about shares; also at servers,
///   where it replaces what was set there.
/// - repository(): null, as the placer decides what is loaded.
///
/// Any thread may call any method.
class FleetCore final : public Inference,
                        public SchedulerControl,
                        public ShareControl,
                        public FleetControl,
                        private PlacementHost {
 public:
  /// Models that members serve already are their replicas. kInvalidArgument: there is no member and
  /// none can join, or a device lacks a facet. Else the errors of PlacementKeeper::Start().
  static Result<std::unique_ptr<FleetCore>> Make(FleetOptions options,
                                                 std::vector<FleetMember> members);
  /// Cancels what is in flight; the placement under way ends first.
  ~FleetCore() override;

  bool Ready() const override;
  std::vector<ModelStatus> Models() const override;
  Status ModelReady(const std::string& model, const std::string& version) const override;
  Result<ModelMetadata> Metadata(const std::string& model,
                                 const std::string& version) const override;
  Result<inference::ModelConfig> Config(const std::string& model,
                                        const std::string& version) const override;
  Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                  const std::string& version) const override;
  DispatcherStats SchedulerStatistics() const override;
  std::vector<TenantStatistics> Tenants() const override;
  SchedulerConfig scheduler() const override;
  void SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) override;
  DeviceInfo device() const override;
  Result<SharesReport> ReadShares() const override;
  Status SetSharesRules(const SharesRules& rules) override;
  Status ResizeShare(const std::string& model, const std::string& version,
                     const ShareWanted& wanted) override;
  RequestHandle Infer(InferRequest request, InferCallback callback) override;
  void Cancel(RequestHandle handle) override;
  void Drain(TimePoint until) override;

  std::vector<std::string> Fronts() const override;
  FleetReport ReadFleet() const override;
  Status SetPlacer(const std::string& name) override;
  Status Join(const FleetJoin& join) override;
  Status Leave(const std::string& name) override;

  SchedulerControl* schedulers() override { return has_devices_ ? this : nullptr; }
  ShareControl* shares() override { return has_devices_ ? this : nullptr; }
  FleetControl* fleet() override { return this; }

 private:
  /// A member and what the fleet has found out about it.
  struct Member : FleetMember {
    explicit Member(FleetMember member) : FleetMember(std::move(member)) {
      room.memory_bytes = memory_bytes;
      room.name = name;
    }

    /// It gets no requests: it leaves, or `problem` is not empty.
    bool out() const { return leaves.load() || refused.load(); }
    std::string Problem() const {
      const MutexLock lock(mutex);
      return problem;
    }
    void SetProblem(const std::string& text);
    /// Notes what a server says of its models.
    void Tell(const std::vector<ModelStatus>& models);
    /// Why the model, of which the server has told, does not serve; empty: it has never told of it.
    std::optional<Error> Told(const std::string& model) const;

    GpuView room;            // what a placer may use of it
    std::uint64_t joined{};  // counted: a later one has a larger number
    std::atomic<bool> leaves{false}, refused{false};
    /// The keeper has seen what it serves since it was away last.
    std::atomic<bool> followed{false};
    /// The keeper has seen what it has, or that it does not tell, at least once, and what it serves
    /// has routes.
    std::atomic<bool> asked{false};
    std::atomic<bool> heard{false};  // it has told what it has, at least once
    mutable Mutex mutex;
    std::string problem GUARDED_BY(mutex);
    // The models of which it has told so far. kNotFound: it had the model when it told last.
    std::map<std::string, Error> told GUARDED_BY(mutex);
  };
  using Slots = std::vector<std::shared_ptr<Member>>;

  /// A model as placers see it: measured values, or values of its config.
  struct Known {
    explicit Known(FleetModel model_in) : model(std::move(model_in)) {}
    const FleetModel model;
    LoadRecorder load;
    std::atomic<std::int64_t> most_rows{0};  // of a batch; 0: the model has no batch dimension
    std::atomic<std::int64_t> slo{0}, standalone{0};  // nanoseconds; 0: not known
    std::atomic<bool> tuned{false};                   // lagoon.share is "auto"
    /// How long a sequence may have no request, in nanoseconds; 0: the model has no sequences.
    std::atomic<std::int64_t> sequence_idle{0};
    /// What ResizeShare() was told last, with the version. Under share_mutex_.
    std::optional<std::pair<std::string, ShareWanted>> resized;
    // The rest: Make(), then the keeper's thread only.
    LearnedLatency latency;
    Nanoseconds longest{0};                 // of a row alone, of the members that have it
    std::shared_ptr<const Surface> stored;  // the slowest of the members that have it
    std::string shapes;                     // of its inputs and outputs; empty: not known
    /// The members that have the model in these shapes, or had it when they were there last.
    std::set<std::size_t> holders;
    int failed_loads = 0;  // in a row
    TimePoint retry_at{};  // not placed anew before, because a load has failed
  };
  using Replica = std::pair<std::string, std::size_t>;  // model, member
  struct Flight;
  using Places = std::map<std::string, std::vector<FleetRoute>>;

  FleetCore(FleetOptions options, std::vector<FleetMember> members);

  // Requests.
  FleetRoutes::Look LookAt(const InferRequest& request) const;
  std::optional<Error> Refusal(const InferRequest& request);
  /// kInvalidArgument: the fleet has the model, and the text can be no version.
  Status CheckVersion(const std::string& model, const std::string& version) const;
  void CountArrival(const InferRequest& request);
  /// Chooses the member of a request and counts it there; `flight` gets what it needs besides.
  Result<FleetRoutes::Begun> Choose(const InferRequest& request, Flight& flight);
  /// The same for a request of a sequence.
  Result<FleetRoutes::Begun> ChooseFor(const InferRequest& request, Nanoseconds idle,
                                       Flight& flight);
  void SendTo(const std::shared_ptr<Flight>& flight, std::size_t index);
  /// `lost`: as FleetLink::SentCallback has it.
  void Answered(const std::shared_ptr<Flight>& flight, std::size_t index,
                Result<InferResponse> result, bool lost);
  /// The member to send the flight to after kUnavailable; empty: the error is the answer.
  std::optional<std::size_t> Again(const Flight& flight, std::size_t index, bool lost);

  // Members. The number of a member is its place in the slots, which another one takes when it has
  // left.
  Slots AllSlots() const;                                     // null: free
  Slots Members() const;                                      // without those that are free
  Slots Devices() const;                                      // of this process
  std::shared_ptr<Member> MemberAt(std::size_t index) const;  // null: it has left
  Status MayJoin(const FleetJoin& join) const REQUIRES(members_mutex_);
  static FleetDeviceReport DeviceReport(const Member& member);
  Slots SlotsToTell() const;
  using KnownPtr = std::shared_ptr<Known>;
  KnownPtr Find(const std::string& model) const;  // null: the fleet does not have it
  std::vector<KnownPtr> AllKnown() const;

  static void Learn(Known& known, const Inference& core, const ModelStatus& status);
  void LearnTimes(std::size_t index);
  std::optional<BatchTimesReport> BatchTimesOf(const Replica& replica) const;
  Slots RoutedTo(const std::string& model) const;
  /// The first member that serves the version; an empty one: the first that has the highest.
  Result<std::shared_ptr<Member>> Serving(const std::string& model,
                                          const std::string& version) const;
  Error NoReplica(const std::string& model) const;

  // PlacementHost: on the keeper's thread.
  PlacementView View(TimePoint now) override;
  void AddModel(Known& known, TimePoint now, PlacementView& view);
  void Apply(const Assignment& assignment) override;
  void SetShares(const Assignment& assignment, bool decided) override;
  bool PlacerDecidesShare(const Known& known) const REQUIRES(share_mutex_);
  static std::optional<SharesReport> SharesOf(const Member& member);
  std::vector<ReplicaShare> WithoutOthers(std::size_t index, const SharesReport& report,
                                          const std::vector<ReplicaShare>& wanted)
      REQUIRES(share_mutex_);
  void SetSharesOf(std::size_t index, const std::vector<ReplicaShare>& wanted)
      REQUIRES(share_mutex_);
  void ReleaseShares(const Places& wanted);
  void GiveBack(std::size_t index, const Member& member) REQUIRES(share_mutex_);
  void ResizeAgain(const Replica& replica);
  void FollowMembers(TimePoint now);
  void LetGo();
  bool Follow(std::size_t index);
  KnownPtr FindOrAdd(const std::string& model, const Member& member);
  std::string ProblemOf(std::size_t index, const std::vector<ModelStatus>& models) const;
  std::string OtherAddress(const Member& member) const;
  std::string OtherShapes(std::size_t index, const std::string& model, const Known& known) const;
  std::string HolderOf(const Known& known) const;
  void TakeShapes(std::size_t index, const std::string& model, Known& known) const;
  void HoldsOnly(std::size_t index, const std::vector<ModelStatus>& models);
  void Forget();
  void FollowRoutes(Known& known, std::set<Replica>& strays);
  Places PlacesOf(const Assignment& assignment) const;
  std::set<Replica> Load(const Places& wanted);
  std::int64_t MemoryUsed(std::size_t member, const Places& wanted);
  std::vector<FleetRoute> LoadElsewhere(const std::string& model, const Places& wanted,
                                        const std::set<Replica>& failed);
  void Note(const std::string& model, const Status& loaded);
  void Retire(const std::set<Replica>& replicas, TimePoint now);
  void UnloadIdle(TimePoint now);
  void Unload(const std::vector<Replica>& replicas);
  void KeepRoomForLeaving(PlacementView& view) const;

  const FleetOptions options_;
  const std::string id_;  // server_id.h
  FleetRoutes routes_;    // the members' callbacks use it
  Suspects suspects_;
  SequencePins sequences_;
  std::atomic<std::uint64_t> retries_{0};
  bool has_devices_ = false;  // immutable after Make
  mutable Mutex members_mutex_;
  Slots members_ GUARDED_BY(members_mutex_);
  std::uint64_t joins_ GUARDED_BY(members_mutex_) = 0;
  mutable Mutex known_mutex_;
  std::map<std::string, KnownPtr> known_ GUARDED_BY(known_mutex_);
  // The rest of this group is for the keeper's thread only. Members that have left and may still be
  // in use on another thread, on which they must not end.
  Slots gone_;
  // As FollowMembers() has seen: the slots, which of them are ready, their shares, and the replicas
  // that are there.
  Slots slots_;
  std::vector<bool> ready_;
  std::vector<SharesReport> shares_;
  std::set<Replica> there_;
  std::set<Replica> given_ GUARDED_BY(share_mutex_);  // at servers: the placer has set their shares
  std::string share_problem_;  // the last one that the log has; the keeper's thread only
  bool told_full_ = false;     // the log says that a model is ignored; the keeper's thread only
  // Replicas that have no route any more and wait for the end of their requests, and since when.
  // The keeper's thread only.
  std::map<Replica, TimePoint> leaving_;
  // The member of each GPU and the name of each model of the last View(). The keeper's thread only.
  std::vector<std::size_t> gpus_;
  std::vector<std::string> names_;
  std::atomic<bool> draining_{false};
  std::atomic<std::uint64_t> loads_{0}, unloads_{0}, failed_loads_{0};

  Mutex share_mutex_;  // held while a share is given, so that the last word holds; before mutex_
  mutable Mutex mutex_;
  /// Counts of replicas that were unloaded.
  std::vector<ModelStatistics> former_ GUARDED_BY(mutex_);
  std::set<Replica> retiring_ GUARDED_BY(mutex_);
  std::map<Replica, BatchTimesReport> times_ GUARDED_BY(mutex_);
  std::unique_ptr<PlacementKeeper> keeper_;  // last member: ends before what it uses is destroyed
};

}  // namespace lagoon
