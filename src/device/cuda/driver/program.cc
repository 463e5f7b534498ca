#include "device/cuda/driver/program.h"

#include <fmt/format.h>

#include "device/cuda/driver/session.h"

namespace lagoon::cuda {
namespace {

Status FindEntries(const GpuSession& session, const Program& program, LoadedProgram& loaded) {
  const Driver& driver = session.driver();
  const std::size_t shared_bytes = session.gpu().shared_bytes;
  for (const EntryName& entry : program.entries()) {
    Function function = nullptr;
    LAGOON_RETURN_IF_ERROR(
        driver.Check(driver.find_function(&function, loaded.module, entry.name.c_str()),
                     fmt::format("cuModuleGetFunction('{}')", entry.name)));
    LAGOON_RETURN_IF_ERROR(driver.Check(
        driver.set_function_attribute(function,
                                      static_cast<int>(FunctionAttribute::kMaxDynamicShared),
                                      static_cast<int>(shared_bytes)),
        fmt::format("cuFuncSetAttribute('{}', {} bytes of shared memory)", entry.name,
                    shared_bytes)));
    loaded.functions.push_back(function);
  }
  return {};
}

}  // namespace

Result<LoadedProgram> LoadProgram(const GpuSession& session, const Program& program) {
  LAGOON_ASSIGN_OR_RETURN(const std::string image, program.ImageFor(session.gpu()));
  LAGOON_RETURN_IF_ERROR(session.Enter());
  const Driver& driver = session.driver();
  LoadedProgram loaded;
  LAGOON_RETURN_IF_ERROR(
      driver.Check(driver.load_module(&loaded.module, image.data()), "cuModuleLoadData"));
  if (Status found = FindEntries(session, program, loaded); !found) {
    driver.unload_module(loaded.module);
    return Annotate(fmt::format("program '{}'", program.name()), std::move(found).error());
  }
  return loaded;
}

}  // namespace lagoon::cuda
