#include "serving/model/job_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/library_trial.h"

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

Result<CreateFunction> Load(const std::string& path, Nanoseconds limit) {
  if (access(path.c_str(), R_OK) != 0) {
    return Fail(ErrorCode::kNotFound, std::generic_category().message(errno));
  }
  const auto try_it = [&path]() -> Status {
    LAGOON_ASSIGN_OR_RETURN(const CreateFunction create, Open(path));
    LAGOON_RETURN_IF_ERROR(Make(create));
    return {};
  };
  LAGOON_RETURN_IF_ERROR(TryInChild(try_it, limit));
  return Open(path);
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
