"""The mutants that tools/mutants.py tries, and the test programs that must catch them."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent

LIBRARY = ["src/base/check.cc", "src/base/status.cc"] + [
    f"src/device/{name}.cc"
    for name in ("cpu/cpu_device", "cpu/launch_table", "cpu/worker_device", "cpu/worker_loop", "host/host_memory",
                 "host/machine", "host/copy_range", "host/shares")]

SCHEDULING = ["src/base/check.cc", "src/base/status.cc", "src/device/host/copy_range.cc", "src/device/host/shares.cc",
              "src/plan/instance.cc", "src/plan/plan.cc",
              "src/plan/plan_binding.cc", "src/plan/tensor.cc"] + [
    f"src/sched/{name}.cc"
    for name in ("cost_table", "dispatcher", "dispatcher_plans", "dispatcher_post", "job", "job_streams",
                 "mechanism", "mechanism_events", "mechanism_observe", "mechanism_submit", "padding", "policy",
                 "queue_plan")]


def sources_of(folder):
    """The sources of a folder's library, without those of a CUDA sub-folder and the bodies' embedded text."""
    names = sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.cc"))
    others = ("_test.cc", "_bench.cc", "op_program.cc")
    return [name for name in names
            if not name.endswith(others) and f"{folder}/cuda/" not in name
            and "/testing/" not in name]


# A group is one test program: its sources, and those sources of the library that it needs.
GROUPS = {
    "model": ["src/device/block_model_test.cc"],
    "block": ["src/device/block_test.cc"],
    "table": ["src/device/cpu/launch_table_test.cc", "src/device/cpu/launch_table.cc",
              "src/device/host/copy_range.cc", "src/device/host/shares.cc",
              "src/base/check.cc", "src/base/status.cc"],
    "table-model": ["src/device/cpu/launch_table_model_test.cc", "src/device/cpu/launch_table.cc",
                    "src/device/host/copy_range.cc", "src/device/host/shares.cc", "src/base/check.cc",
                    "src/base/status.cc"],
    "listener": ["src/device/host/listener_slot_test.cc"],
    "clock": ["src/device/cpu/unit_clock_test.cc"],
    "conformance": [f"src/device/conformance/{name}_test.cc"
                    for name in ("order", "revocation", "limits", "listener", "counts", "stress", "share")] +
                   ["src/device/conformance/suite.cc", "src/device/cpu/cpu_conformance_test.cc"] + LIBRARY,
    "sched": [f"src/sched/{name}_test.cc"
              for name in ("admission", "combiner", "dispatcher", "dispatcher_outcome", "dispatcher_switch",
                           "filling", "outputs", "padding", "parts", "queue_plan")] + SCHEDULING,
    "instance": ["src/plan/instance_test.cc"] + sources_of("src/plan") + ["src/base/check.cc", "src/base/status.cc"],
    "plan-cache": ["src/serving/plans/plan_cache_test.cc", "src/serving/plans/plan_cache.cc", "src/sched/cost_table.cc",
                   "src/sched/queue_plan.cc"] +
                  sources_of("src/plan") + ["src/base/check.cc", "src/base/status.cc"],
    "parts": ["src/program/parts_test.cc", "src/program/parts.cc", "src/base/text.cc", "src/graph/constant.cc"] +
             sources_of("src/plan") + ["src/base/check.cc", "src/base/status.cc"],
    "lender": ["src/base/check.cc", "src/base/lender_test.cc"],
    "waitlist": ["src/base/check.cc", "src/sched/programs/waitlist.cc", "src/sched/programs/waitlist_test.cc"],
    "policies": [f"src/policies/{name}_test.cc" for name in ("deficit", "preempt_by_rank", "registry", "response_ratio", "rounds")] +
                sources_of("src/policies") + SCHEDULING,
    "share-schedulers": ["src/policies/share_schedulers_test.cc", "src/device/host/host_memory.cc", "src/base/text.cc"] +
                        sources_of("src/policies") + sources_of("src/device/sim") + SCHEDULING,
    "schedules": ["src/policies/random_schedules_test.cc"] + sources_of("src/policies") + SCHEDULING,
    "split": [f"src/program/split/{name}_test.cc" for name in ("apply_parts", "search", "split_model", "split_shape")] +
             sources_of("src/program/split") + ["src/base/check.cc", "src/base/status.cc", "src/base/text.cc",
                                                "src/plan/plan.cc", "src/plan/tensor.cc"],
    "budget": ["src/server/memory_budget_test.cc", "src/server/memory_budget.cc"],
    "rules": ["src/server/http/http_request_rules_test.cc", "src/server/http/http_request_rules.cc"],
    "json-lane": ["src/server/http/json_lane_test.cc", "src/server/http/json_lane.cc", "src/base/log.cc"],
    "cuda": [f"src/kernels/cuda/{name}_cuda_test.cc"
             for name in ("entry", "elementwise", "lines", "matmul", "conv", "sequence")] +
            ["src/kernels/cuda/testing/body.cc"] + sources_of("src/kernels/cuda") + sources_of("src/kernels") + sources_of("src/plan") + sources_of("src/simt") +
            ["src/base/check.cc", "src/base/status.cc"],
}

# Libraries of a group's program besides the test framework.
LIBRARIES = {"split": ["-lfmt"], "cuda": ["-lboost_context", "-lhwy"], "json-lane": ["-lspdlog"],
             "parts": ["-lxxhash"]}

BLOCK = "src/device/block.h"
TABLE = "src/device/cpu/launch_table.cc"
TABLE_H = "src/device/cpu/launch_table.h"
IN_FLIGHT = "src/device/host/in_flight.h"
DEVICE = "src/device/cpu/worker_device.cc"
LOOP = "src/device/cpu/worker_loop.cc"
CLOCK = "src/device/cpu/unit_clock.h"
SHARES = "src/device/host/shares.cc"
WATCHERS = "src/device/cpu/watchers.h"
LISTENER = "src/device/host/listener_slot.h"
MECHANISM = "src/sched/mechanism.cc"
EVENTS = "src/sched/mechanism_events.cc"
SUBMIT = "src/sched/mechanism_submit.cc"
PLANS = "src/sched/dispatcher_plans.cc"
RESPONSE_RATIO = "src/policies/response_ratio.h"
PADDING = "src/sched/padding.cc"
PADDING_H = "src/sched/padding.h"
POST = "src/sched/dispatcher_post.cc"
INSTANCE = "src/plan/instance.cc"
BINDING = "src/plan/plan_binding.cc"
PLAN_CACHE = "src/serving/plans/plan_cache.cc"
PARTS = "src/program/parts.cc"
DISPATCHER = "src/sched/dispatcher.cc"
SPLIT = "src/program/split"
WAITLIST = "src/sched/programs/waitlist.cc"
LENDER = "src/base/lender.h"
BUDGET = "src/server/memory_budget.cc"
RULES = "src/server/http/http_request_rules.cc"
JSON_LANE = "src/server/http/json_lane.cc"
ENTRY = "src/device/cuda/gpu/entry.cuh"
CONV = "src/kernels/cuda/bodies/conv.cuh"
MOVES = "src/kernels/cuda/bodies/elementwise.cuh"

# (name, what it breaks, file, before, after, groups that must each catch it, the cheapest first)
MUTANTS = [
    # The five rules that the protocol is built on.
    ("guard-check-skipped-in-bodies", "running blocks never see a guard", BLOCK,
     "if (!guard.only_before_start && guard.Raised()) return true;", "",
     ["block", "conformance"]),
    ("guard-check-skipped-between-blocks", "a revoked launch claims on", BLOCK,
     "if (Revoked(guards, /*started=*/true)) return Leave::kRevoked;", "", ["block"]),
    ("unclaim-lost", "a block that leaves keeps its tile", BLOCK,
     "      progress.Unclaim(tile);\n", "", ["model", "block", "conformance"]),
    ("done-counted-on-abort", "a block that leaves counts as done", BLOCK,
     "      progress.Unclaim(tile);\n", "      progress.Unclaim(tile);\n      progress.Commit();\n",
     ["model", "block", "conformance"]),
    ("dependency-not-checked-by-picks", "a kernel starts before its predecessor is done", TABLE,
     " && DepsMet(slot.deps);", ";", ["table", "conformance"]),
    ("dependency-not-checked-between-blocks", "a block starts before its predecessor is done", BLOCK,
     "if (!DepsMet(deps)) return Leave::kBlocked;", "", ["block"]),
    ("record-reused-early", "a launch retires while its blocks still run", TABLE,
     "return slot.claimants == 0 && slot.Over();", "return slot.Over();", ["table", "conformance"]),
    # Claims and counts.
    ("claim-not-atomic", "two units may take one tile", BLOCK,
     "const std::uint64_t before = unclaimed_[i].fetch_and(~bit, std::memory_order_acquire);",
     "const std::uint64_t before = unclaimed_[i].load(std::memory_order_acquire);\n"
     "        unclaimed_[i].store(before & ~bit, std::memory_order_relaxed);", ["model"]),
    ("claim-not-verified", "a tile is taken though somebody was faster", BLOCK,
     "if ((before & bit) != 0) {", "if ((before | bit) != 0) {", ["model"]),
    ("claim-only-in-first-word", "kernels of more than 64 tiles never finish", BLOCK,
     "return i * 64 + static_cast", "return static_cast", ["block"]),
    ("unclaim-not-atomic", "giving back a tile loses others", BLOCK,
     "unclaimed_[block / 64].fetch_or(std::uint64_t{1} << (block % 64), std::memory_order_release);",
     "unclaimed_[block / 64].store(std::uint64_t{1} << (block % 64), std::memory_order_release);",
     ["model"]),
    ("commit-not-atomic", "two commits count as one", BLOCK,
     "return done_.fetch_add(1, std::memory_order_acq_rel) + 1 == blocks_;",
     "const std::uint32_t before = done_.load(std::memory_order_acquire);\n"
     "    done_.store(before + 1, std::memory_order_release);\n"
     "    return before + 1 == blocks_;", ["model"]),
    ("commit-before-the-body", "a kernel is complete while a tile is being written", BLOCK,
     "    if (!run(tile)) {\n", "    const bool completed = progress.Commit();\n"
     "    if (completed) { run(tile); return Leave::kCompleted; }\n    if (!run(tile)) {\n", ["model"]),
    ("tile-committed-twice", "each tile counts double", BLOCK,
     "    if (progress.Commit()) return", "    progress.Commit();\n    if (progress.Commit()) return",
     ["model"]),
    ("dependency-one-short", "one tile of the predecessor is not waited for", BLOCK,
     "return on->done() >= blocks;", "return on->done() + 1 >= blocks;", ["model", "conformance"]),
    ("claimed-tile-forgotten", "the tile of a pick is never run", BLOCK,
     "if (!first || !claimed) {", "if (true) {", ["model", "block"]),
    ("reset-keeps-the-count", "a reused record is complete at once", BLOCK,
     "    done_.store(0, std::memory_order_release);\n", "", ["block"]),
    ("guard-does-not-wrap", "words that wrap around revoke nothing", BLOCK,
     "static_cast<std::int32_t>(word->load(std::memory_order_relaxed) - limit) > 0",
     "word->load(std::memory_order_relaxed) > limit", ["block", "conformance"]),
    ("started-kernel-revoked", "a guard that holds before the start stops a running kernel", BLOCK,
     "if (!(guard.only_before_start && started) && guard.Raised()) return true;",
     "if (guard.Raised()) return true;", ["model", "block", "conformance"]),
    # The table of launches.
    ("relaunch-not-settled", "a relaunch never learns that an old block completed its record", TABLE,
     "    SettleNaming(done.progress);\n", "", ["table"]),
    ("watchers-not-settled", "a launch that a worker's last commit guards stays", TABLE,
     "  if (watchers_ != 0) {", "  if (false) {", ["table", "table-model", "conformance"]),
    ("revoked-worker-settles-for-itself-alone",
     "a launch stays whose partial count was reached by a worker that left by its own guard", TABLE,
     "  if (watchers_ != 0) {", "  if (watchers_ != 0 && why == Leave::kCompleted) {",
     ["table-model", "table", "conformance"]),
    ("newest-settled-before-it-is-known", "a launch stays whose partial count is reached while it is submitted",
     WATCHERS, "    Publish(table.watchers());\n    table.SettleNewest();\n",
     "    table.SettleNewest();\n    Publish(table.watchers());\n", ["table-model"]),
    ("commit-does-not-look-for-watchers", "workers do not settle for partial counts", WATCHERS,
     "return count_.fetch_add(0, std::memory_order_acq_rel) != 0;", "return false;", ["table-model", "conformance"]),
    # The listener.
    ("listener-not-waited-for", "SetListener(nullptr) returns while the listener is called", LISTENER,
     "      calls_.wait(calls, std::memory_order_seq_cst);\n", "      break;\n", ["listener", "conformance"]),
    ("listener-read-before-it-is-counted", "a listener is called after SetListener(nullptr)", LISTENER,
     "    calls_.fetch_add(1, std::memory_order_seq_cst);\n"
     "    DeviceListener* const listener = listener_.load(std::memory_order_seq_cst);\n",
     "    DeviceListener* const listener = listener_.load(std::memory_order_seq_cst);\n"
     "    calls_.fetch_add(1, std::memory_order_seq_cst);\n", ["listener"]),
    ("end-of-a-call-not-told", "SetListener(nullptr) waits for ever", LISTENER,
     "== 1) calls_.notify_all();", "== 1) {}", ["listener"]),
    ("listener-waits-for-itself", "a listener that clears itself hangs", LISTENER,
     "      if (call->slot() == this) return true;\n", "", ["listener", "conformance"]),
    ("stream-order-ignored", "launches of a stream run at once", TABLE,
     "if (slot->stream == kUnordered || slots_.LinkStream(*slot)) MakeEligible(",
     "if (slot->stream != kUnordered) slots_.LinkStream(*slot);\n  MakeEligible(",
     ["table", "conformance"]),
    ("stream-stuck", "a stream does not move on after its first launch", TABLE,
     "  if (first != kNoIndex) MakeEligible(first);\n", "", ["table", "conformance"]),
    ("rank-ignored", "launches run in order of submission", TABLE_H,
     "return rank != other.rank ? rank < other.rank : sequence < other.sequence;",
     "return sequence < other.sequence;", ["table", "conformance"]),
    ("max-claimants-ignored", "a padding launch takes all units", TABLE,
     "(slot.max_claimants == 0 || slot.claimants < slot.max_claimants) &&", "",
     ["conformance"]),
    ("start-forgotten", "a started launch counts as queued", TABLE,
     "if (!std::exchange(slot.started, true)) Report", "if (!slot.started) Report", ["conformance"]),
    ("partial-counts-unwatched", "nobody looks again when part of a kernel is done", IN_FLIGHT,
     "return dep.blocks < dep.on->blocks() && !dep.Met();", "return false;",
     ["table", "conformance"]),
    ("credits-leak", "events that never come keep their room", IN_FLIGHT,
     "    events.Release(slot.credits);\n", "", ["table", "conformance"]),
    ("credits-not-reserved", "events overrun the ring when nobody polls", IN_FLIGHT,
     "if (free_ == kNoIndex || !events.Reserve(kEventsPerLaunch)) return nullptr;",
     "if (free_ == kNoIndex) return nullptr;\n    events.Reserve(kEventsPerLaunch);", ["table", "conformance"]),
    ("transfer-copies-one-chunk", "each chunk of a transfer is the first", TABLE,
     "const std::size_t begin = std::size_t{block} * kCopyChunkBytes;", "const std::size_t begin = 0;",
     ["conformance"]),
    ("copy-ignores-its-guard", "a copy that waits does not leave with its guard", IN_FLIGHT,
     "    slot.guards = CopyGuards(copy);\n", "", ["conformance"]),
    # The device around it.
    ("raise-does-not-settle", "queued launches stay after Raise()", DEVICE,
     "    table_.SettleAll();\n", "", ["conformance"]),
    ("guard-words-shrink", "an earlier value lowers a guard", DEVICE,
     "  if (!guards_.IsLater(guard, value)) return SubmitResult::kOk;\n", "",
     ["conformance"]),
    ("submission-unannounced", "workers are not told of a launch", DEVICE,
     "table_.TakeNews();  // whoever submits polls\n    Publish(/*may_run=*/true);",
     "table_.TakeNews();  // whoever submits polls\n    Publish(/*may_run=*/false);", ["conformance"]),
    ("activation-unannounced", "other workers sleep through what a last commit made runnable", LOOP,
     "may_run = table_.Finish(", "table_.Finish(", ["conformance"]),
    ("sleepers-not-woken", "a sleeping worker stays asleep", LOOP,
     "    if (sleepers_ != 0 && (worker.work || table_.any_bound()) && table_.HasRunnable()) {",
     "    if (false) {", ["conformance"]),
    ("share-idle-worker-wakes-none", "a worker without work leaves what only sleeping workers may take", LOOP,
     "(worker.work || table_.any_bound()) && ", "worker.work && ", ["conformance"]),
    ("share-not-read-at-claims", "a worker goes on in a launch whose share has moved away", LOOP,
     "  if (!shares_.Has(worker.work->share, worker.unit)) return true;  // the share has moved away\n", "",
     ["conformance"]),
    ("share-move-ignored", "a move changes nothing", DEVICE,
     "    shares_.Move(share, units);\n", "", ["conformance"]),
    ("share-move-wakes-none", "the new units sleep on", DEVICE,
     "    shares_.Move(share, units);\n    Publish(/*may_run=*/true);\n"
     "    if (sleepers_ != 0 && table_.HasRunnable()) wake = sleepers_;\n",
     "    shares_.Move(share, units);\n    Publish(/*may_run=*/true);\n", ["conformance"]),
    ("share-bounds-unchecked", "a share has units that the device lacks", SHARES,
     "  if (units.count > info_.units || units.first > info_.units - units.count) {", "  if (false) {", ["conformance"]),
    ("share-pick-anywhere", "a unit outside of the share picks its launch", TABLE,
     "    if (!shares_.Has(entry.share, unit)) continue;\n", "", ["table", "conformance"]),
    ("share-yields-to-others", "a unit yields to a launch that it may not run", TABLE,
     "    return shares_.Has(entry.share, unit) && MayRun(slots_[entry.slot]);", "    return MayRun(slots_[entry.slot]);",
     ["table"]),
    ("share-bound-forever", "all workers wake for every launch once there was a share", TABLE,
     "  bound_ -= slot.share != kAllUnits ? 1 : 0;\n", "", ["table"]),
    ("share-not-in-launch", "launches of a queue run outside of its share", SUBMIT,
     "  launch.share = job.queue->share;\n", "", ["sched"]),
    ("share-of-a-queue-not-moved", "the dispatcher forgets to move the device's share", PLANS,
     "    Status moved = device_.MoveShare(share, wanted);", "    Status moved;", ["sched"]),
    ("share-room-ignores-share", "padding takes units that the real-time work of its share needs", "src/sched/padding.cc",
     "  return std::min(room.units, share - std::min(share, room.taken));", "  return std::min(room.units, share);",
     ["sched"]),
    ("share-costs-stay", "kernels in a share are expected to be as fast as on all units", "src/sched/cost_table.cc",
     "    kernel.time = kernel.time * std::max<std::int64_t>(1, kernel.Rounds(units)) / rounds;\n", "",
     ["share-schedulers"]),
    ("weights-ignored", "all clients get the same unit time", "src/policies/weighted.h",
     " / job.weight;", ";", ["share-schedulers"]),
    ("weighted-saves-up", "a client that was idle gets the device for as long", "src/policies/weighted.h",
     "    if (client.jobs++ == 0) client.time = std::max(client.time, now_);", "    ++client.jobs;", ["share-schedulers"]),
    ("turn-without-end", "a client keeps the device beyond its quantum", "src/policies/time_slice.h",
     "    if (job_ == nullptr || over) BeginTurn(view);", "    if (job_ == nullptr) BeginTurn(view);",
     ["share-schedulers"]),
    ("no-yield", "a better rank waits for the end of a running kernel", LOOP,
     "  return table_.HasBetter(worker.work->rank, worker.unit);", "  return false;", ["conformance"]),
    ("news-not-delivered", "the listener is not called by an idle worker", LOOP,
     "      DeliverNews();\n      AwaitChange(worker);", "      AwaitChange(worker);", ["conformance"]),
    ("scratch-not-grown", "a body gets less scratch than its kernel asked for", LOOP,
     "        std::swap(worker.scratch, worker.next_scratch);\n", "", ["conformance"]),
    ("idle-time-doubled", "a worker that finds work stays counted as idle", CLOCK,
     "    --idle_workers_;\n", "", ["clock"]),
    ("busy-time-not-live", "time inside a running body is not counted", CLOCK,
     "return (word >> 1) + now.time_since_epoch().count();", "return total_;", ["clock", "conformance"]),
    ("busy-time-goes-back", "a stop that comes late takes back what was told", CLOCK,
     "return Nanoseconds(std::max(told, total));", "return Nanoseconds(total);", ["clock"]),
    # Scheduling.
    ("revoked-padding-lost", "padding that left with its room is never submitted again", EVENTS,
     "    GoBack(job, record.index);\n", "", ["sched", "schedules"]),
    ("padding-outlives-its-room", "padding runs on beside kernels that need all units", SUBMIT,
     "    launch.guards[0] = GuardOf(*room);\n", "", ["sched"]),
    ("padding-takes-all-units", "padding is not limited to the units that are free", SUBMIT,
     "    launch.max_claimants = UnitsIn(*room, *job.queue);\n", "", ["sched"]),
    ("rule-1-ignored", "a block longer than the room is padded", PADDING,
     " || block >= room.time) continue;", ") continue;", ["sched"]),
    ("rule-2-ignored", "padding lowers the occupancy of real-time kernels", PADDING,
     "  if (op.occupancy < room.occupancy) return std::nullopt;\n", "", ["sched"]),
    ("begun-kernel-cut-anew", "a kernel changes its version after blocks of it have run", PADDING,
     "  bool started = job.instance->progress(op).done() > 0;", "  bool started = false;", ["sched"]),
    ("kernel-cut-anew-under-a-launch", "a kernel changes its version while a launch names it", PADDING,
     "    started = job.instance->in_flight(i) > 0;", "    started = false;", ["sched"]),
    ("padding-keeps-no-records", "a guard outlives the record that it counts", PADDING_H,
     "    watched_[JobLaunches::SlotOf(launch)] = *room.records;\n", "", ["sched"]),
    ("plan-of-another-queue", "a job selects a plan that is not bound to its instance", POST,
     "spec.plan->queue() != queue.id", "false", ["sched"]),
    ("plan-points-to-the-former-arena", "a plan goes on in the arena that a larger one has replaced", INSTANCE,
     "  if (binding.arena_ != present_.base) binding.PointTo(present_.base);\n", "", ["instance"]),
    ("waiting-arena-freed-under-a-claim", "a plan finds no arena at its first job", INSTANCE,
     "claim_.use_count() > 1", "false", ["instance"]),
    ("waiting-arena-freed-and-counted", "a plan is bound to an arena that is gone", INSTANCE,
     "if (unneeded != nullptr) largest_ = replaced_;", "", ["instance"]),
    ("replaced-arena-kept", "every larger plan takes more memory for ever", INSTANCE,
     "former_.exchange(nullptr, std::memory_order_acquire)", "static_cast<Arena*>(nullptr)", ["instance"]),
    ("occupancy-ignored", "what fits is counted as one block a unit", SUBMIT,
     "                             .occupancy = job.instance->plan().ops[job.next_op].occupancy,\n", "", ["sched"]),
    ("waitlist-ignores-the-default-stream", "a blocking stream overtakes the default stream", WAITLIST,
     "    if (streams_[stream].kind == StreamKind::kBlocking) {\n", "    if (false) {\n", ["waitlist"]),
    ("default-stream-ignores-the-others", "the default stream overtakes blocking streams", WAITLIST,
     "      if (other.kind == StreamKind::kBlocking) WaitFor(other, op, entry);",
     "      if (&other == &streams_[kDefaultStream]) WaitFor(other, op, entry);", ["waitlist"]),
    ("waitlist-serialises-non-blocking-streams", "a non-blocking stream is waited for by the default stream", WAITLIST,
     "if (other.kind == StreamKind::kBlocking) WaitFor", "if (true) WaitFor", ["waitlist"]),
    ("policys-rank-ignored", "the device does not go by the ranks of the policy", SUBMIT,
     "return job.rank | of_class;", "return of_class;", ["sched"]),
    ("switch-does-not-hold-back", "jobs of after a switch run under the scheduler of before",
     DISPATCHER, "const bool holds_back = change_ != nullptr && !ending_;", "const bool holds_back = false;", ["sched"]),
    ("held-back-cancel-lost", "a job that a switch holds back cannot be cancelled", DISPATCHER,
     "if (held == held_.end()) {", "if (true) {", ["sched"]),
    ("switch-holds-back-without-limit", "newest-wins queues grow while a switch is under way", DISPATCHER,
     "  const auto oldest = std::ranges::find(held_, &queue, &Job::queue);\n"
     "  mechanism_.Refuse(Release(*oldest), Outcome::kSuperseded, finished);\n", "", ["sched"]),
    ("answers-wait-for-all-news", "the combiner works on for as long as there is news", DISPATCHER,
     "if (answers.empty() || (!at_once && ++waited < kMaxRounds)) continue;", "if (!at_once) continue;", ["sched"]),
    ("work-before-real-time-answers", "the answer of a real-time job waits for the submission of best-effort kernels",
     MECHANISM, "  if (HasRealTime(finished)) return polled_ = true;\n", "", ["sched"]),
    ("posts-wait-for-the-device", "a round goes on for as long as the device has events", MECHANISM,
     "  return polled_;\n", "  return polled_ && Step(finished);\n", ["sched"]),
    ("dropped-news-forgotten", "the combiner does not come back for the news that it left", DISPATCHER,
     "    news_.exchange(0, std::memory_order_acq_rel);\n    return true;",
     "    news_.exchange(0, std::memory_order_acq_rel);\n    return false;", ["sched"]),
    ("events-without-news-forgotten", "what a round itself has caused is not acted upon", DISPATCHER,
     "ending_ && !mechanism_.idle())) return more;", "ending_ && !mechanism_.idle())) return false;", ["sched"]),
    ("answers-nest", "a client that posts is called inside of its own call", DISPATCHER,
     "outer != nullptr) {", "false) {", ["sched"]),
    ("combiner-held-while-calling", "no thread works while a client is called", DISPATCHER,
     "    news_.exchange(0, std::memory_order_acq_rel);\n    return true;",
     "    Deliver(answers);\n    waited = 0;", ["sched"]),
    ("cancellation-overtakes-its-job", "a cancellation is looked at before its job is taken", DISPATCHER,
     "  if (has_cancels_.load(std::memory_order_relaxed)) {\n    has_cancels_.store(false);\n"
     "    const MutexLock lock(cancel_mutex_);\n"
     "    LAGOON_CHECK(cancels_.size() <= kMaxCancels && taken_cancels_.empty());\n"
     "    cancels_.swap(taken_cancels_);\n  }\n  TakePosted(finished);\n",
     "  TakePosted(finished);\n  if (has_cancels_.load(std::memory_order_relaxed)) {\n"
     "    has_cancels_.store(false);\n    const MutexLock lock(cancel_mutex_);\n"
     "    cancels_.swap(taken_cancels_);\n  }\n", ["sched"]),
    ("outputs-stay-with-a-leaving-job", "a copy waits for kernels that no one will complete", SUBMIT,
     "    copy.guards[0] = {device_.GuardWord(slot.guard), slot.revision, true};\n", "", ["sched"]),
    ("outputs-before-revoked-kernels", "a copy blocks its stream for the kernels that it waits for", SUBMIT,
     "    if (revocable) copy.guards[1] = {device_.GuardWord(group_guard_), group_limit_, true};\n", "", ["sched"]),
    ("revoked-output-lost", "a copy that left with its kernels is never submitted again", EVENTS,
     "job.next_output = std::min<std::size_t>(job.next_output, record.index);", "", ["sched"]),
    ("outputs-behind-padding", "copies wait on the device for kernels that may leave without them", SUBMIT,
     " || padding_.job() != &job;", " || true;", ["sched"]),
    ("pause-learned-as-cost", "a kernel's cost takes in the time that it was revoked", EVENTS,
     "if (record.whole && !Revoked(record)) {", "if (record.whole) {", ["sched"]),
    ("deficit-shift-wrong", "a client's kernels do not raise the deficits of the others", "src/policies/deficit.cc",
     "shift_ += static_cast<double>(kernels) / static_cast<double>(by_deficit_.size());", "", ["policies"]),
    ("tie-broken-by-address", "of equal jobs the one at the higher address goes first", "src/sched/ready_index.h",
     "return a.key != b.key ? a.key < b.key : a.id < b.id;", "return a.key != b.key ? a.key < b.key : &a > &b;",
     ["policies", "schedules"]),
    # Parts, response ratios and admission by deadline.
    ("response-ratio-reversed", "the job goes first that raises the sum of response ratios most",
     "src/sched/ready_index.h", "return scaled(job.unsubmitted) * scaled(job.total);",
     "return -scaled(job.unsubmitted) * scaled(job.total);", ["policies"]),
    ("queue-order-dropped", "a later job of a queue counts as before an earlier one", RESPONSE_RATIO,
     "return other.queue_id == job.queue_id || ReadyIndex", "return ReadyIndex", ["policies"]),
    ("queue-order-not-served", "a later job of a queue overtakes an earlier one", RESPONSE_RATIO,
     "if (first == nullptr || ready.OldestOf(first->queue_id) == first) return first;", "return first;", ["policies"]),
    ("patience-ignored", "a job may be passed without end", RESPONSE_RATIO,
     "    if (config_.patience == 0) return longest;\n", "    return longest;\n", ["policies"]),
    ("patience-of-another-job", "a job inherits how often the job before it was passed", RESPONSE_RATIO,
     "if (std::exchange(queues_[queue].oldest, job->id) != job->id) queues_[queue].passed = 0;",
     "queues_[queue].oldest = job->id;", ["policies"]),
    ("worse-rank-kept", "best-effort blocks of a worse rank do not leave for a better one", SUBMIT,
     "if (others(other) && other.rank > job.rank && ", "if (false && ", ["policies"]),
    ("better-rank-not-held", "kernels of a worse rank run between those of a better one", SUBMIT,
     "!other.ready_hook.is_linked() && other.rank < job.rank &&", "false &&", ["policies"]),
    ("held-by-old-rank", "a job keeps the device by a rank that it no longer has", SUBMIT,
     "!other.ready_hook.is_linked() && other.rank < job.rank &&", "other.rank < job.rank &&", ["schedules"]),
    ("part-off-by-one", "a part takes a kernel of the next one along", MECHANISM,
     "*end - static_cast<std::uint32_t>(op);", "*end - static_cast<std::uint32_t>(op) + 1;", ["sched"]),
    ("one-part-ignored", "the device gets a part while it has one", SUBMIT,
     "  if (config_.one_part && kernels_[kRealTime] + kernels_[kBestEffort] > 0) return false;\n", "", ["sched"]),
    ("admission-ignores-what-is-ahead", "a request is admitted that waits too long", MECHANISM,
     "const TimePoint end = device_.Now() + ahead + job.total;", "const TimePoint end = device_.Now() + job.total;",
     ["sched"]),
    ("admission-by-another-deadline", "a request is refused because another one would be late", MECHANISM,
     "return end > job.deadline;", "return end > std::min(job.deadline, NextDeadline());", ["sched"]),
    ("leaving-job-is-ahead", "a request is refused because of a job that is leaving", MECHANISM,
     "other.state == Job::State::kLeaving || &other", "&other", ["sched"]),
    ("superseded-job-is-ahead", "a request is refused because of a job that it supersedes", MECHANISM,
     " || &other == superseded) continue;", ") continue;", ["sched"]),
    ("copying-job-is-ahead", "a job counts as ahead that only copies its outputs", MECHANISM,
     "    job.remaining = Nanoseconds(0);  // the costs may have changed since the job came\n", "", ["sched"]),
    ("round-ends-early", "a round begins while a job of the round before it is unfinished", "src/policies/rounds.h",
     "    if (left_ > 0 && job.id <= end_) ++left_;", "   ", ["policies"]),
    ("unwanted-output-copied", "an output that was not asked for is copied", SUBMIT,
     "    if (job.outputs[job.next_output] == nullptr) continue;  // not wanted\n", "", ["sched"]),
    # Calls that use a device while the device is lost.
    ("lease-not-waited-for", "a device is destroyed while calls use it", LENDER,
     "    while (leases_ > 0) returned_.Wait(mutex_);\n", "", ["lender"]),
    ("lent-after-withdrawal", "a call borrows a device that is about to be destroyed", LENDER,
     "    lending_ = false;\n    return object_.get();", "    return object_.get();", ["lender"]),
    # The server's limits for its clients.
    ("charge-never-given-back", "the memory of a closed connection stays charged", BUDGET,
     "  if (listed_) budget_->Release(*this);\n", "", ["budget"]),
    ("large-charges-take-all", "large bodies leave no room to medium ones", BUDGET,
     "bytes > kLargeBytes ? shared_ - shared_ / 4 : shared_;", "shared_;", ["budget"]),
    ("fast-charges-give-way", "a client that is not slow loses its memory", BUDGET,
     "Slow(entry->second.bytes, age) && costs > cost", "costs > cost", ["budget"]),
    ("pinned-charge-revoked", "memory is taken away while work on it is under way", BUDGET,
     "!entry->second.pinned && Slow", "Slow", ["budget"]),
    ("charges-revoked-in-vain", "a charge gives way though there is no room all the same", BUDGET,
     "  if (found < bytes) return false;\n", "", ["budget"]),
    ("revoked-holder-unaware", "a connection is not closed whose memory is gone", BUDGET,
     "  for (const auto& holder : revoked) holder->OnRevoked();\n", "", ["budget"]),
    ("unknown-encoding-accepted", "a body of unknown encoding is read as if it were plain", RULES,
     "  if (auto refusal = RefuseFields(header)) return refusal;\n", "", ["rules"]),
    ("second-encoding-accepted", "one reader decodes twice, the other once", RULES,
     "std::next(first) == last && beast::iequals", "beast::iequals", ["rules"]),
    ("field-given-twice", "readers may believe different ones of two fields", RULES,
     "Count(header, name) > 1", "Count(header, name) > 2", ["rules"]),
    ("json-lane-grows", "JSON that waits has no limit", JSON_LANE,
     "stopped_ || waiting_.size() >= max_waiting_", "stopped_", ["json-lane"]),
    ("json-lane-in-order-of-arrival", "a small JSON text waits for all large ones before it", JSON_LANE,
     "since + kRankPerByte * static_cast<std::int64_t>(bytes)", "since", ["json-lane"]),
    # The CUDA bodies, on the emulator.
    ("copies-not-waited-for", "a stage is read while its copies are under way", CONV,
     "WaitCopies<kConvStages - 2>();", "WaitCopies<kConvStages - 1>();", ["cuda"]),
    ("tile-written-before-all-sums", "a block writes sums that another warp has yet to put down", CONV,
     "  sums.ForEach(put);\n  __syncthreads();\n", "  sums.ForEach(put);\n", ["cuda"]),
    ("stage-overwritten-early", "a stage is filled while a warp still reads it", CONV,
     "    if (__syncthreads_or(leave)) {", "    if (step == 0 && __syncthreads_or(leave)) {", ["cuda"]),
    ("divergent-leave", "the thread that sees the guard leaves alone", CONV,
     "    if (__syncthreads_or(leave)) {", "    __syncthreads();\n    if (leave) {", ["cuda"]),
    ("guard-torn-at-the-last-barrier", "one thread leaves, the others write", MOVES,
     "  if (__syncthreads_or(leave)) return false;", "  __syncthreads();\n  if (leave) return false;", ["cuda"]),
    ("leaving-body-says-committed", "a body that leaves says that it has written", MOVES,
     "  if (__syncthreads_or(leave)) return false;", "  if (__syncthreads_or(leave)) return true;", ["cuda"]),
    ("matmul-panel-overwritten-early", "the next panel is stored while a warp still reads", "src/kernels/cuda/bodies/matmul.cuh",
     "    MultiplyStep(a, b, sums);\n    __syncthreads();\n", "    MultiplyStep(a, b, sums);\n", ["cuda"]),
    ("keys-overwritten-early", "the next keys are loaded while a warp still reads", "src/kernels/cuda/bodies/attention.cuh",
     "    walk.Step(key0);\n    __syncthreads();\n", "    walk.Step(key0);\n", ["cuda"]),
    ("line-sum-read-early", "a line's sum is read before it is complete", "src/kernels/cuda/bodies/common.cuh",
     "  __syncthreads();\n  return shared[line.slot - line.part];", "  return shared[line.slot - line.part];", ["cuda"]),
    ("leaves-after-writing", "a body writes and leaves", "src/kernels/cuda/bodies/cell.cuh",
     "  if (control.SyncShouldLeave()) return false;\n  if (there && lane == 0) cell.Finish();\n",
     "  if (there && lane == 0) cell.Finish();\n  if (control.SyncShouldLeave()) return false;\n", ["cuda"]),
    ("cuda-done-counted-on-abort", "a block that leaves counts as done", ENTRY,
     "    if (!committed) return Unclaim(params_.record, tile);", "    if (!committed) Unclaim(params_.record, tile);", ["cuda"]),
    ("cuda-unclaim-lost", "a block that leaves keeps its tile", ENTRY,
     "    if (!committed) return Unclaim(params_.record, tile);", "    if (!committed) return;", ["cuda"]),
    ("cuda-commit-before-the-writes", "the reader commits a tile that other warps have yet to write", ENTRY,
     "    __syncthreads();  // behind all threads' last writes, and before `next` changes\n", "", ["cuda"]),
    ("engine-failure-unseen", "a request is answered though an engine failed", INSTANCE,
     "    if (status != 0) return op.opaque->error();\n", "", ["instance"]),
    # Parts of a plan.
    ("value-crosses-before-it-is-written", "a cut before an op moves what the op writes", f"{SPLIT}/split_model.cc",
     "values.Write(range, op + 1);", "values.Write(range, op);", ["split"]),
    ("joined-ops-end-late", "a run of ops has the bytes of the position behind its first op", f"{SPLIT}/split_model.cc",
     "model.boundary_bytes[begin]", "model.boundary_bytes[begin + 1]", ["split"]),
    ("part-begins-an-op-late", "the times of a part lack its first op", f"{SPLIT}/split_shape.h",
     "before_us_[end] - before_us_[begin] +", "before_us_[end] - before_us_[begin + 1] +", ["split"]),
    ("parts-end-before-the-plan", "the last part may lack the plan's last ops", f"{SPLIT}/split_shape.cc",
     "ends.back() != ops", "ends.back() > ops", ["split"]),
    ("bubble-behind-the-last-part", "a plan pays a bubble for each part", f"{SPLIT}/split_shape.cc",
     "(parts - 1) * bubble_us_", "parts * bubble_us_", ["split"]),
    ("overhead-not-shared-by-parts", "Eq. 2 with the overhead of all parts", f"{SPLIT}/split_shape.cc",
     "std::expm1(overhead / parts)", "std::expm1(overhead)", ["split"]),
    ("two-cuts-at-one-place", "a repaired candidate has an empty part", f"{SPLIT}/search.cc",
     "wanted > away && !taken(i, wanted - away)", "wanted > away", ["split"]),
    ("profile-parts-of-another-number", "a plan keeps its profile's parts whatever their number", f"{SPLIT}/apply_parts.cc",
     "return parts == kAutoParts || parts == plan.part_ends.size();", "return true;", ["split"]),
    # Plans for the shapes that requests bring.
    ("most-recent-plan-evicted", "the plans in use go, the oldest ones stay", PLAN_CACHE,
     "    Entry& entry = entries.front();\n    bytes_ -= entry.bytes;\n    gone.push_back(std::move(entry.plan));\n"
     "    known_.erase(entry.key);\n    entries.pop_front();\n",
     "    Entry& entry = entries.back();\n    bytes_ -= entry.bytes;\n    gone.push_back(std::move(entry.plan));\n"
     "    known_.erase(entry.key);\n    entries.pop_back();\n", ["plan-cache"]),
    ("use-of-a-plan-not-noted", "a plan that is used all the time goes like one that never is", PLAN_CACHE,
     "groups_[to].splice(groups_[to].end(),", "groups_[to].splice(groups_[to].begin(),", ["plan-cache"]),
    ("flood-pushes-out-plans-in-use", "a plan that was used again goes like one that was used once", PLAN_CACHE,
     "position.group == kPinned ? kPinned : kAgain;", "position.group;", ["plan-cache"]),
    ("plans-used-again-go-first", "a new shape pushes out one that is in use", PLAN_CACHE,
     "groups_[kOnce].size() > 1 || groups_[kAgain].empty() ? kOnce : kAgain", "groups_[kAgain].empty() ? kOnce : kAgain",
     ["plan-cache"]),
    ("pinned-plans-evicted", "a plan of lagoon.shapes has to be made again", PLAN_CACHE,
     "position.group = pinned ? kPinned : kOnce;", "position.group = kOnce;", ["plan-cache"]),
    ("pinned-plans-evicted-after-use", "a plan of lagoon.shapes that was used has to be made again", PLAN_CACHE,
     "position.group == kPinned ? kPinned : kAgain;", "kAgain;", ["plan-cache"]),
    ("bytes-of-plans-unbounded", "plans fill the memory", PLAN_CACHE,
     " || bytes_ > limits_.bytes", "", ["plan-cache"]),
    ("number-of-plans-unbounded", "lagoon.max_plans has no effect", PLAN_CACHE,
     "known_.size() > limits_.plans || ", "", ["plan-cache"]),
    ("bytes-of-evicted-plans-counted", "one plan too large pushes out all others, for ever", PLAN_CACHE,
     "    bytes_ -= entry.bytes;\n", "", ["plan-cache"]),
    ("bytes-of-replaced-plans-counted", "plans that were made anew push out others", PLAN_CACHE,
     "    bytes_ -= position.entry->bytes;\n", "", ["plan-cache"]),
    ("new-plan-evicted", "a request does not find the plan that was made for it", PLAN_CACHE,
     "groups_[kOnce].size() + groups_[kAgain].size() > 1) {", "groups_[kOnce].size() + groups_[kAgain].size() > 0) {",
     ["plan-cache"]),
    ("deciding-inputs-forgotten", "requests with other contents get the same plan", PLAN_CACHE,
     "if (before != nullptr) inputs.insert(before->begin(), before->end());", "", ["plan-cache"]),
    ("version-keeps-the-arguments", "an op is cut in one way and computes in another", BINDING,
     "  WriteImage(op, cut.args, image);\n", "", ["instance"]),
    ("version-loses-the-arena", "the arguments of another version point nowhere", BINDING,
     "    if (relocation.region == Region::kArena) {\n      Relocate(image", "    if (false) {\n      Relocate(image", ["instance"]),
    ("dependents-keep-the-blocks", "an op starts before the other version of one that it reads is complete", BINDING,
     "  for (Dep* dep : dependents_[index]) dep->blocks = cut.blocks;\n", "", ["instance"]),
    ("input-copies-not-waited-for", "an op reads an input that is not there yet", BINDING,
     "      if (reader == index) deps_.push_back({copy, copy->blocks()});\n", "", ["instance"]),
    # Models in parts.
    ("capacity-taken-for-dims", "the next part computes elements that are not there", PARTS,
     "  std::memcpy(tensor.dims.data(), sizes.data(), tensor.dims.size() * sizeof(std::int64_t));\n", "", ["parts"]),
    ("dims-beyond-the-capacity", "the next part reads behind an output", PARTS,
     " && tensor.dims[axis] <= spec.dims[axis]", "", ["parts"]),
    ("negative-dims-of-a-part", "a part that computes nonsense makes the next one fail", PARTS,
     "tensor.dims[axis] >= 0 && ", "", ["parts"]),
    ("elements-behind-the-dims", "the next part gets bytes behind its input", PARTS,
     "  tensor.bytes = tensor.bytes.first(elements * SizeOf(spec.type));\n", "", ["parts"]),
    ("next-part-mixes-inputs-and-outputs", "the next part reads an output for an input", PARTS,
     "if (source.from_input) {", "if (!source.from_input) {", ["parts"]),
    ("next-part-takes-inputs-in-order", "the next part reads its neighbour's input", PARTS,
     "next.push_back(inputs[source.index]);", "next.push_back(inputs[next.size() % inputs.size()]);", ["parts"]),
    ("next-part-takes-outputs-in-order", "the next part reads another output", PARTS,
     "PartOutput(links, plan, run, source.index)", "PartOutput(links, plan, run, next.size() % plan.outputs.size())",
     ["parts"]),
    ("made-type-not-checked", "an engine's numbers are read as another type", PARTS,
     " && made->type == spec.type", "", ["parts"]),
]
