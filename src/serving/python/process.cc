#include "serving/python/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/time.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace lagoon {
namespace {

constexpr int kSocket = 3, kProgram = 4;  // descriptors of the program
constexpr int kAbove = 16;                // descriptors that the moves to those do not meet
constexpr Nanoseconds kGentle = std::chrono::seconds(2);

/// Reads the program's files from descriptor kProgram and runs worker.py.
constexpr const char* kBootstrap =
    "import json,os\n"
    "with os.fdopen(4) as source: files = json.load(source)\n"
    "exec(compile(files['worker.py'], 'lagoon/backend/worker.py', 'exec'), "
    "{'__name__': 'lagoon_worker', 'FILES': files})\n";

std::string ProblemText(int problem) { return std::generic_category().message(problem); }

/// Waits until the process has ended, which is not reaped. False: it has not at `until`.
bool HasEnded(pid_t pid, TimePoint until) {
  while (true) {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == pid) return true;
    if (Now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // there is no event to wait for
  }
}

class PythonProcess final : public ProgramProcess {
 public:
  explicit PythonProcess(pid_t pid)
      : pid_(pid), ended_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  ~PythonProcess() override {
    if (pid_ > 0) (void)End(/*gently=*/false);
  }

  std::string End(bool gently) override {
    const pid_t pid = std::exchange(pid_, -1);
    const TimePoint until = Now() + (gently ? kGentle : std::chrono::milliseconds(50));
    const bool by_itself = HasEnded(pid, until);
    // Its process group: what it has started. Before the process is reaped, which frees the number.
    ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (!by_itself) return "was ended by the server";
    if (WIFSIGNALED(status)) {
      return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                         sigdescr_np(WTERMSIG(status)));
    }
    return fmt::format("has exited with {}", WEXITSTATUS(status));
  }

  int ended() const override { return ended_.number(); }

 private:
  pid_t pid_;
  const OwnedDescriptor ended_;
};

/// An anonymous file with the program, read from its beginning.
Result<OwnedDescriptor> ProgramFile() {
  nlohmann::json files = nlohmann::json::object();
  for (const PythonFile& file : EmbeddedPythonFiles()) {
    files[file.name.substr(file.name.rfind('/') + 1)] = file.text;
  }
  const std::string text = DumpJson(files);
  OwnedDescriptor file(::memfd_create("lagoon-backend", MFD_CLOEXEC));
  if (!file ||
      ::pwrite(file.number(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no memory for a Python program: {}", ProblemText(errno)));
  }
  return file;
}

/// posix_spawn() with everything set that the process must not inherit.
class Spawn {
 public:
  Spawn() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    // A group of its own: a terminal's Ctrl-C is for the server, which drains first.
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  Result<pid_t> Run(const std::string& interpreter, const std::string& title, int socket,
                    int program) {
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, 2, 1);
    posix_spawn_file_actions_adddup2(&actions_, socket, kSocket);
    posix_spawn_file_actions_adddup2(&actions_, program, kProgram);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kProgram + 1);
    std::string name = interpreter, unbuffered = "-u", code = "-c", source = kBootstrap,
                parent = std::to_string(::getpid()), shown = title;
    char* words[] = {name.data(),   unbuffered.data(), code.data(), source.data(),
                     parent.data(), shown.data(),      nullptr};
    pid_t pid = 0;
    const int problem =
        ::posix_spawnp(&pid, interpreter.c_str(), &actions_, &attributes_, words, environ);
    if (problem == 0) return pid;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("needs Python: '{}' cannot be started: {} (--python names another "
                            "interpreter)",
                            interpreter, ProblemText(problem)));
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<std::unique_ptr<ProgramProcess>> StartPython(const std::string& interpreter,
                                                    const std::string& title,
                                                    OwnedDescriptor socket) {
  LAGOON_ASSIGN_OR_RETURN(const OwnedDescriptor program, ProgramFile());
  const OwnedDescriptor to_socket(::fcntl(socket.number(), F_DUPFD_CLOEXEC, kAbove));
  const OwnedDescriptor to_program(::fcntl(program.number(), F_DUPFD_CLOEXEC, kAbove));
  if (!to_socket || !to_program) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no descriptors for a Python program: {}", ProblemText(errno)));
  }
  LAGOON_ASSIGN_OR_RETURN(const pid_t pid,
                          Spawn().Run(interpreter, title, to_socket.number(), to_program.number()));
  return std::make_unique<PythonProcess>(pid);
}

}  // namespace lagoon
