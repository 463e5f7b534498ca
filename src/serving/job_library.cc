#include "serving/job_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

namespace lagoon {
namespace {

using AbiFunction = std::uint32_t (*)();
using CreateFunction = JobProgram* (*)();

struct Symbols {
  AbiFunction abi = nullptr;
  CreateFunction create = nullptr;
};

Result<Symbols> Open(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc's is of the calling thread
    const char* const problem = dlerror();
    return Fail(ErrorCode::kInvalidArgument, fmt::format("cannot be loaded: {}", problem));
  }
  Symbols symbols;
  symbols.abi = reinterpret_cast<AbiFunction>(dlsym(library, "lagoon_job_program_abi"));
  symbols.create = reinterpret_cast<CreateFunction>(dlsym(library, "lagoon_job_program_create"));
  if (symbols.abi == nullptr || symbols.create == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                "is no job program: it has no LAGOON_JOB_PROGRAM(...)");
  }
  if (const std::uint32_t abi = symbols.abi(); abi != kJobProgramAbi) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("is for version {} of sched/job_program.h, this server has {}: compile "
                            "it again",
                            abi, kJobProgramAbi));
  }
  return symbols;
}

constexpr int kThrough = 77;  // what the child exits with: not by the library's doing

// In a forked child: whether it comes through is all that counts, errors are told by the parent.
[[noreturn]] void Try(const std::string& path) {
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, SIG_DFL);
  const Result<Symbols> symbols = Open(path);
  if (symbols) {
    try {
      delete symbols->create();
    } catch (...) {  // so will it be for the parent
      _exit(kThrough);
    }
  }
  _exit(kThrough);
}

Status TryInChild(const std::string& path, Nanoseconds limit) {
  const pid_t child = fork();
  if (child < 0) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no process to try it in: {}", std::generic_category().message(errno)));
  }
  if (child == 0) Try(path);
  const TimePoint until = Now() + limit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Now() >= until) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("is not loaded after {:.0f} ms", ToMilliseconds(limit)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // of its own: no event to wait for
  }
  if (WIFSIGNALED(status)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("crashes when it is loaded: {}", sigdescr_np(WTERMSIG(status))));
  }
  if (WEXITSTATUS(status) != kThrough) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("exits with {} when it is loaded", WEXITSTATUS(status)));
  }
  return {};
}

Result<std::unique_ptr<JobProgram>> Load(const std::string& path, Nanoseconds limit) {
  if (access(path.c_str(), R_OK) != 0) {
    return Fail(ErrorCode::kNotFound, std::generic_category().message(errno));
  }
  LAGOON_RETURN_IF_ERROR(TryInChild(path, limit));
  LAGOON_ASSIGN_OR_RETURN(const Symbols symbols, Open(path));
  std::unique_ptr<JobProgram> program;
  try {
    program.reset(symbols.create());
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the program's constructor threw: {}", error.what()));
  } catch (...) {
    return Fail(ErrorCode::kInternal, "the program's constructor threw");
  }
  if (program == nullptr) return Fail(ErrorCode::kInternal, "made no program");
  return program;
}

}  // namespace

Result<std::unique_ptr<JobProgram>> LoadJobProgram(const std::string& path, Nanoseconds limit) {
  Result<std::unique_ptr<JobProgram>> program = Load(path, limit);
  if (!program) return Annotate(fmt::format("job program {}", path), std::move(program).error());
  return program;
}

}  // namespace lagoon
