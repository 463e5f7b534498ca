#include "bench/host/admission.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "bench/host/spin_chain.h"
#include "bench/measure/statistics.h"
#include "device/cpu/cpu_device.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

constexpr std::uint32_t kRealTimeKernels = 2;
// Long jobs: most of the dispatcher's work is then inside a job, not at its beginning or end.
constexpr std::uint32_t kBestEffortKernels = 200;

struct Samples {
  std::vector<double> admit_us, answer_us, output_us, best_effort_answer_us;
  std::uint64_t best_effort_kernels = 0;
  double seconds = 0;
};

// Notes when the mechanism has a real-time job.
class AdmissionWatch final : public SchedObserver {
 public:
  AdmissionWatch(std::vector<double>& admit_us, int requests) : admit_us_(admit_us) {
    admit_us_.reserve(admit_us_.size() + static_cast<std::size_t>(requests));
  }
  // Call it before the first post.
  void Watch(QueueId queue) { queue_ = queue; }

  void OnStart(const SchedulerConfig& /*config*/, TimePoint /*at*/) override {}
  void OnSwitch(const SchedulerConfig& /*config*/, TimePoint /*at*/) override {}
  void OnQueue(QueueId /*queue*/, const QueueOptions& /*options*/) override {}
  void OnPlan(QueueId /*queue*/, std::uint32_t /*number*/, const Plan& /*plan*/) override {}
  void OnEvent(const SchedEvent& event) override {
    if (event.kind != SchedEvent::Kind::kArrived || event.queue != queue_) return;
    admit_us_.push_back(ToMicroseconds(Now() - event.at));
  }

 private:
  std::vector<double>& admit_us_;
  QueueId queue_{~std::uint32_t{0}};
};

// Posts jobs to one queue, and notes how long their answers took. With `again`, Finished() posts
// the next job.
class Client final : public JobClient {
 public:
  Client(Dispatcher& dispatcher, QueueId queue, bool again)
      : dispatcher_(dispatcher), queue_(queue), again_(again) {}

  Status Post() {
    finished_.store(false, std::memory_order_relaxed);
    const void* const inputs[] = {x_};
    void* const outputs[] = {y_};
    Result<JobId> posted = dispatcher_.Post({queue_, kNoDeadline, inputs, outputs, this});
    if (!posted) return tl::unexpected<Error>(std::move(posted).error());
    return {};
  }
  // Any thread: the job in flight becomes the last one.
  void Stop() { again_.store(false); }
  void Await() const { finished_.wait(false); }

  void Finished(const JobResult& result) override {
    answer_us.push_back(ToMicroseconds(Now() - result.finished));
    output_us.push_back(ToMicroseconds(result.finished - result.computed));
    // Post() cannot fail here: a queue with one client is never full.
    if (again_.load()) return LAGOON_CHECK(Post().has_value());
    finished_.store(true);
    finished_.notify_all();
  }

  // May be read after Await().
  std::vector<double> answer_us, output_us;

 private:
  Dispatcher& dispatcher_;
  const QueueId queue_;
  std::atomic<bool> again_;
  std::atomic<bool> finished_{true};
  std::byte x_[kSpinTensorBytes] = {}, y_[kSpinTensorBytes] = {};
};

// One round of one case, on a device of its own.
class Round {
 public:
  static Result<std::unique_ptr<Round>> Open(const AdmissionOptions& options, int clients,
                                             int requests, Samples& samples) {
    std::unique_ptr<Round> round(new Round(samples, requests));
    LAGOON_ASSIGN_OR_RETURN(round->device_, CreateCpuDevice({.workers = options.workers}));
    LAGOON_ASSIGN_OR_RETURN(const KernelHandle kernel, LoadSpin(*round->device_));
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(options.scheduler));
    round->dispatcher_ = std::make_unique<Dispatcher>(*round->device_, scheduler.config,
                                                      std::move(scheduler.policy), &round->watch_);
    const auto time = Nanoseconds(static_cast<std::int64_t>(options.kernel_us * 1e3));
    const auto real_time = SpinChain(kernel, kRealTimeKernels, time);
    LAGOON_RETURN_IF_ERROR(round->Add(JobClass::kRealTime, real_time));
    const auto best_effort = SpinChain(kernel, kBestEffortKernels, time);
    for (int i = 0; i < clients; ++i) {
      LAGOON_RETURN_IF_ERROR(round->Add(JobClass::kBestEffort, best_effort));
    }
    return round;
  }

  Status Run(std::mt19937_64& random) {
    for (std::size_t i = 1; i < clients_.size(); ++i) LAGOON_RETURN_IF_ERROR(clients_[i]->Post());
    std::uniform_int_distribution<int> pause_us(100, 400);
    Client& real_time = *clients_.front();
    const TimePoint begin = Now();
    for (int i = 0; i < requests_; ++i) {
      std::this_thread::sleep_until(Now() + std::chrono::microseconds(pause_us(random)));
      LAGOON_RETURN_IF_ERROR(real_time.Post());
      real_time.Await();
    }
    samples_.seconds += std::chrono::duration<double>(Now() - begin).count();
    for (std::size_t i = 1; i < clients_.size(); ++i) {
      clients_[i]->Stop();
      clients_[i]->Await();
    }
    Collect();
    return {};
  }

 private:
  Round(Samples& samples, int requests)
      : samples_(samples), requests_(requests), watch_(samples.admit_us, requests) {}

  Status Add(JobClass job_class, const std::shared_ptr<const LoadedPlan>& plan) {
    const bool real_time = job_class == JobClass::kRealTime;
    LAGOON_ASSIGN_OR_RETURN(auto instance, Instance::Create(plan, *device_));
    QueueOptions options;
    options.name = real_time ? "real-time" : "best-effort";
    options.job_class = job_class;
    options.instances = {instances_.emplace_back(std::move(instance)).get()};
    LAGOON_ASSIGN_OR_RETURN(const QueueId queue, dispatcher_->AddQueue(std::move(options)));
    if (real_time) watch_.Watch(queue);
    clients_.push_back(std::make_unique<Client>(*dispatcher_, queue, /*again=*/!real_time));
    return {};
  }

  void Collect() {
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(samples_.answer_us, clients_.front()->answer_us);
    append(samples_.output_us, clients_.front()->output_us);
    for (std::size_t i = 1; i < clients_.size(); ++i) {
      append(samples_.best_effort_answer_us, clients_[i]->answer_us);
      samples_.best_effort_kernels += clients_[i]->answer_us.size() * kBestEffortKernels;
    }
  }

  Samples& samples_;
  const int requests_;
  AdmissionWatch watch_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<std::unique_ptr<Client>> clients_;  // the real-time one first
  std::unique_ptr<Dispatcher> dispatcher_;        // last member: is destroyed first
};

void ReportTimes(const std::string& name, const std::string& of, const std::vector<double>& us,
                 Report& report) {
  report.Metric(fmt::format("{}_us_p50.{}", name, of), Median(us));
  report.Metric(fmt::format("{}_us_p99.{}", name, of), Percentile(us, 99));
}

}  // namespace

Status RunAdmission(const AdmissionOptions& options, Report& report) {
  struct Case {
    std::string name;
    int clients;
    Samples samples = {};
  };
  Case cases[] = {{"alone", 0}, {"beside", options.clients}};
  std::mt19937_64 random(options.seed);
  ProgressBar progress("bench admission", 2 * options.rounds);
  for (int round = 0; round < options.rounds; ++round) {
    // Splits options.requests evenly over the rounds, without losing a remainder.
    const int requests =
        options.requests * (round + 1) / options.rounds - options.requests * round / options.rounds;
    for (Case& measured : cases) {
      LAGOON_ASSIGN_OR_RETURN(const auto run,
                              Round::Open(options, measured.clients, requests, measured.samples));
      LAGOON_RETURN_IF_ERROR(run->Run(random));
      progress.Step(measured.name);
    }
  }
  for (const auto& [name, clients, samples] : cases) {
    ReportTimes("post_to_admit", name, samples.admit_us, report);
    report.Metric("post_to_admit_us_max." + name, Percentile(samples.admit_us, 100));
    ReportTimes("finish_to_answer", name, samples.answer_us, report);
    ReportTimes("computed_to_finished", name, samples.output_us, report);
    if (clients == 0) continue;
    ReportTimes("best_effort_answer", name, samples.best_effort_answer_us, report);
    report.Metric("best_effort_kernels_per_second." + name,
                  static_cast<double>(samples.best_effort_kernels) / samples.seconds);
  }
  return {};
}

}  // namespace lagoon::bench
