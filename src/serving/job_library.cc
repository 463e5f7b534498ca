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

Result<CreateFunction> Open(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc's dlerror is per thread
    const char* const problem = dlerror();
    return Fail(ErrorCode::kInvalidArgument, fmt::format("cannot be loaded: {}", problem));
  }
  const auto abi = reinterpret_cast<AbiFunction>(dlsym(library, "lagoon_job_program_abi"));
  const auto create = reinterpret_cast<CreateFunction>(dlsym(library, "lagoon_job_program_create"));
  if (abi == nullptr || create == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                "is no job program: it has no LAGOON_JOB_PROGRAM(...)");
  }
  if (const std::uint32_t version = abi(); version != kJobProgramAbi) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "is for version {} of sched/programs/job_program.h, this server has {}: compile "
            "it again",
            version, kJobProgramAbi));
  }
  return create;
}

constexpr int kThrough = 77;  // exit code of a child in which the library did no harm

// Runs in a forked child. Only crashing, exiting and hanging matter here: the parent loads the
// library again and reports other errors.
[[noreturn]] void Try(const std::string& path) {
  const rlimit no_core{};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, SIG_DFL);
  const Result<CreateFunction> create = Open(path);
  if (create) {
    try {
      delete (*create)();
    } catch (...) {  // the parent will see and report the same exception
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
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // there is no event to wait for
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

Result<CreateFunction> Load(const std::string& path, Nanoseconds limit) {
  if (access(path.c_str(), R_OK) != 0) {
    return Fail(ErrorCode::kNotFound, std::generic_category().message(errno));
  }
  LAGOON_RETURN_IF_ERROR(TryInChild(path, limit));
  return Open(path);
}

Result<std::unique_ptr<JobProgram>> Make(CreateFunction create) {
  std::unique_ptr<JobProgram> program;
  try {
    program.reset(create());
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the program's constructor threw: {}", error.what()));
  } catch (...) {
    return Fail(ErrorCode::kInternal, "the program's constructor threw");
  }
  if (program == nullptr) return Fail(ErrorCode::kInternal, "made no program");
  return program;
}

std::string Name(const std::string& path) { return fmt::format("job program {}", path); }

}  // namespace

Result<JobLibrary> JobLibrary::Load(const std::string& path, Nanoseconds limit) {
  Result<CreateFunction> create = lagoon::Load(path, limit);
  if (!create) return Annotate(Name(path), std::move(create).error());
  return JobLibrary(path, *create);
}

Result<std::unique_ptr<JobProgram>> JobLibrary::MakeProgram() const {
  Result<std::unique_ptr<JobProgram>> program = Make(create_);
  if (!program) return Annotate(Name(path_), std::move(program).error());
  return program;
}

}  // namespace lagoon
