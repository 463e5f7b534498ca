// A whole server in virtual time: one world for each seed (docs/contributing.md).

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "world/log.h"
#include "world/script.h"
#include "world/world.h"

namespace lagoon::world {
namespace {

using RealClock = std::chrono::steady_clock;

constexpr int kViolated = 9;  // exit code of a child
constexpr int kSecondsPerWorld = 120;

/// The line of a sanitizer's report that says what is wrong.
std::string WhatSanitizersSay(const std::string& log) {
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    for (const char* mark : {"ERROR: ", "runtime error: ", "terminate called", "check failed"}) {
      const std::size_t at = line.find(mark);
      if (at != std::string::npos) return ": " + line.substr(at, line.find(" on ", at) - at);
    }
  }
  return "";
}

/// The first lines of a log, each on a line of its own.
std::string Begin(const std::string& log) {
  constexpr int kLines = 60;
  constexpr std::size_t kColumns = 160;
  std::istringstream lines(log);
  std::string text, line;
  for (int i = 0; i < kLines && std::getline(lines, line); ++i) {
    text += "\n" + line.substr(0, kColumns);
  }
  return text;
}

/// Threads that take turns wake one another fastest on one core.
void StayOnThisCore() {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &here);
  static_cast<void>(sched_setaffinity(0, sizeof(here), &here));
}

struct Verdict {
  std::string failure;  // empty: none
  std::uint64_t hash = 0;
  std::uint64_t points = 0, switches = 0;
  std::uint64_t requests = 0, right = 0, changes = 0;
  std::int64_t left = 0;
};

/// A world that runs in a child process, so that its end is not ours.
class Child {
 public:
  explicit Child(const Script& script)
      : said_(memfd_create("said", 0)), log_(memfd_create("log", 0)) {
    static int number = 0;
    // All names are of one length: longer ones may take more memory, which the trace would show.
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("lagoon_world_{:07}_{:07}", getpid(), number++);
    pid_ = fork();
    if (pid_ == 0) Run(script);
  }
  ~Child() {
    close(said_);
    close(log_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  Verdict Read(int status) const {
    Verdict verdict;
    const std::string said = Contents(said_);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      std::istringstream words(said);
      words >> verdict.hash >> verdict.points >> verdict.switches >> verdict.requests >>
          verdict.right >> verdict.changes >> verdict.left;
      return verdict;
    }
    verdict.failure = said;
    if (WIFSIGNALED(status)) {
      const bool slow = WTERMSIG(status) == SIGALRM;
      verdict.failure = slow
                            ? "no end after " + std::to_string(kSecondsPerWorld) + " s of real time"
                            : std::string("crash: ") + strsignal(WTERMSIG(status));
    } else if (said.empty()) {
      verdict.failure = "exit " + std::to_string(WEXITSTATUS(status));
    }
    const std::string log = Contents(log_);
    verdict.failure += WhatSanitizersSay(log);
    verdict.failure += Begin(log);
    return verdict;
  }

 private:
  [[noreturn]] void Run(const Script& script) const {
    dup2(log_, STDERR_FILENO);
    dup2(log_, STDOUT_FILENO);
    alarm(kSecondsPerWorld);
    StayOnThisCore();
    std::filesystem::create_directories(folder_);
    const auto violation = [this](const std::string& what) {
      static_cast<void>(!write(said_, what.data(), what.size()));
      _exit(kViolated);
    };
    const WorldReport report = RunWorld(script, folder_.string(), violation);
    std::ostringstream words;
    words << report.threads.hash << ' ' << report.threads.points << ' ' << report.threads.switches
          << ' ' << report.requests << ' ' << report.right << ' ' << report.changes << ' '
          << report.left_allocations;
    const std::string text = words.str();
    static_cast<void>(!write(said_, text.data(), text.size()));
    _exit(0);
  }
  static std::string Contents(int file) {
    std::string text(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
    static_cast<void>(!pread(file, text.data(), text.size(), 0));
    return text;
  }

  const int said_, log_;
  std::filesystem::path folder_;
  pid_t pid_ = 0;
};

Verdict RunOne(const Script& script) {
  const Child child(script);
  int status = 0;
  waitpid(child.pid(), &status, 0);
  return child.Read(status);
}

/// What fails, without the numbers of the case: shorter scripts must fail in the same way.
std::string KindOf(const Verdict& verdict) {
  std::string kind = verdict.failure.substr(0, verdict.failure.find('\n'));
  std::erase_if(kind, [](char letter) { return letter >= '0' && letter <= '9'; });
  return kind.substr(0, 70);
}

/// Leaves events out as long as the world fails in the same way, under some order of its threads. A
/// failure that does not come again, such as of real time, leaves the script as it is.
Script Shorten(Script script, const std::string& kind, RealClock::time_point until) {
  if (KindOf(RunOne(script)) != kind) return script;
  const auto fails = [&](Script candidate) -> bool {
    for (int order = 0; order < 3; ++order) {
      if (RealClock::now() > until) return false;
      if (KindOf(RunOne(candidate)) == kind) {
        script = std::move(candidate);
        return true;
      }
      ++candidate.threads.seed;
    }
    return false;
  };
  for (std::size_t piece = std::max<std::size_t>(script.events.size() / 2, 1); piece > 0;) {
    bool shorter = false;
    for (std::size_t at = 0; at < script.events.size();) {
      Script candidate = script;
      const auto begin = candidate.events.begin() + static_cast<std::ptrdiff_t>(at);
      const std::size_t count = std::min(piece, candidate.events.size() - at);
      candidate.events.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
      if (fails(std::move(candidate))) {
        shorter = true;
      } else {
        at += piece;
      }
    }
    if (piece == 1 && !shorter) break;
    piece = std::max<std::size_t>(piece / 2, 1);
  }
  for (std::size_t at = 0; at < script.models.size() && script.models.size() > 1;) {
    Script candidate = script;
    const std::string model = candidate.models[at];
    candidate.models.erase(candidate.models.begin() + static_cast<std::ptrdiff_t>(at));
    const bool used = std::ranges::any_of(candidate.events,
                                          [&](const Event& event) { return event.model == model; });
    if (used || !fails(std::move(candidate))) ++at;
  }
  return script;
}

struct Options {
  std::uint64_t first = 1, seeds = 0;
  double seconds = 0;
  unsigned jobs = 1;
  std::uint64_t twice = 16;  // one seed of so many runs twice
  double shorten_seconds = 60;
  std::uint64_t most_failures = 3;
  std::string script, json;
};

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options) {}

  int RunSeeds();
  int RunScript();

 private:
  struct Running {
    std::uint64_t seed = 0;
    std::unique_ptr<Child> child;
    bool second = false;
    std::uint64_t hash = 0;
  };
  void Start(std::uint64_t seed, bool second, std::uint64_t hash);
  void AwaitOne();
  void Judge(const Running& ran, const Verdict& verdict);
  void Report(std::uint64_t seed, const Script& script, const Verdict& verdict);
  void Write() const;

  const Options& options_;
  std::map<pid_t, Running> running_;
  std::uint64_t seeds_ = 0, failures_ = 0, twice_ = 0, requests_ = 0, right_ = 0, changes_ = 0;
  std::uint64_t points_ = 0, switches_ = 0;
  std::map<std::string, std::uint64_t> kinds_;
};

void Runner::Start(std::uint64_t seed, bool second, std::uint64_t hash) {
  Running running{seed, std::make_unique<Child>(DrawScript(seed)), second, hash};
  const pid_t pid = running.child->pid();
  running_.emplace(pid, std::move(running));
}

void Runner::AwaitOne() {
  int status = 0;
  const pid_t pid = waitpid(-1, &status, 0);
  const auto found = running_.find(pid);
  if (found == running_.end()) return;
  const Running ran = std::move(found->second);
  running_.erase(found);
  Judge(ran, ran.child->Read(status));
}

void Runner::Judge(const Running& ran, const Verdict& verdict) {
  if (!verdict.failure.empty()) return Report(ran.seed, DrawScript(ran.seed), verdict);
  if (ran.second) {
    ++twice_;
    if (verdict.hash == ran.hash) return;
    Verdict differs;
    differs.failure = "the same seed gives two traces";
    return Report(ran.seed, DrawScript(ran.seed), differs);
  }
  ++seeds_;
  requests_ += verdict.requests;
  right_ += verdict.right;
  changes_ += verdict.changes;
  points_ += verdict.points;
  switches_ += verdict.switches;
  if (ran.seed % options_.twice == 0) Start(ran.seed, true, verdict.hash);
}

void Runner::Report(std::uint64_t seed, const Script& script, const Verdict& verdict) {
  ++failures_;
  const std::string kind = KindOf(verdict);
  if (++kinds_[kind] > 1) return;
  std::printf("seed %llu fails: %s\n", static_cast<unsigned long long>(seed),
              verdict.failure.c_str());
  std::fflush(stdout);
  const auto until =
      RealClock::now() + std::chrono::duration_cast<RealClock::duration>(
                             std::chrono::duration<double>(options_.shorten_seconds));
  const Script shorter = options_.shorten_seconds > 0 ? Shorten(script, kind, until) : script;
  std::printf("---- a script that fails in this way; replay it with --script FILE\n%s----\n",
              ToText(shorter).c_str());
  std::fflush(stdout);
}

int Runner::RunSeeds() {
  const auto begin = RealClock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(RealClock::now() - begin).count();
  };
  const auto more = [&](std::uint64_t started) {
    if (kinds_.size() >= options_.most_failures) return false;
    return options_.seeds > 0 ? started < options_.seeds : passed() < options_.seconds;
  };
  for (std::uint64_t started = 0; more(started); ++started) {
    while (running_.size() >= options_.jobs) AwaitOne();
    Start(options_.first + started, false, 0);
  }
  while (!running_.empty()) AwaitOne();
  std::printf(
      "%llu seeds in %.0f s: %llu requests, %llu answered right, the others refused for a true "
      "reason; %llu changes; %llu scheduling points, %llu switches of threads; %llu seeds again "
      "with the same trace; %llu failures of %zu kinds\n",
      static_cast<unsigned long long>(seeds_), passed(), static_cast<unsigned long long>(requests_),
      static_cast<unsigned long long>(right_), static_cast<unsigned long long>(changes_),
      static_cast<unsigned long long>(points_), static_cast<unsigned long long>(switches_),
      static_cast<unsigned long long>(twice_), static_cast<unsigned long long>(failures_),
      kinds_.size());
  for (const auto& [kind, count] : kinds_) {
    std::printf("%6llu x %s\n", static_cast<unsigned long long>(count), kind.c_str());
  }
  Write();
  return failures_ > 0 ? 1 : 0;
}

void Runner::Write() const {
  if (options_.json.empty()) return;
  const nlohmann::json json = {{"whole_server_seeds", seeds_ + failures_},
                               {"whole_server_failures", failures_},
                               {"whole_server_requests", requests_},
                               {"whole_server_changes", changes_}};
  std::ofstream(options_.json) << json.dump(2) << '\n';
}

int Runner::RunScript() {
  std::ifstream file(options_.script);
  std::stringstream text;
  text << file.rdbuf();
  const Result<Script> script = ParseScript(text.str());
  if (!script) {
    std::fprintf(stderr, "%s: %s\n", options_.script.c_str(), script.error().message.c_str());
    return 2;
  }
  const Verdict verdict = RunOne(*script);
  std::printf("%s\n", verdict.failure.empty() ? "holds" : verdict.failure.c_str());
  return verdict.failure.empty() ? 0 : 1;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("A whole server in virtual time: one world for each seed.");
  app.add_option("--first", options.first, "The first seed");
  app.add_option("--seeds", options.seeds, "How many; 0: as many as --seconds allow");
  app.add_option("--seconds", options.seconds, "Of real time");
  app.add_option("--jobs", options.jobs, "Worlds at a time")->check(CLI::PositiveNumber);
  app.add_option("--twice", options.twice, "One seed of so many runs twice")
      ->check(CLI::PositiveNumber);
  app.add_option("--shorten", options.shorten_seconds, "Most seconds to shorten a script");
  app.add_option("--kinds", options.most_failures, "Ends after so many kinds of failures");
  app.add_option("--script", options.script, "Runs this script only");
  app.add_option("--json", options.json, "Writes the numbers there");
  CLI11_PARSE(app, argc, argv);
  ListenToLog();
  if (options.seeds == 0 && options.seconds <= 0) options.seeds = 100;
  Runner runner(options);
  return options.script.empty() ? runner.RunSeeds() : runner.RunScript();
}

}  // namespace
}  // namespace lagoon::world

int main(int argc, char** argv) { return lagoon::world::Main(argc, argv); }
