// The library that ONNX Runtime loads: liblagoon_ort.so. It depends on the C library only, and
// loads liblagoon_ort_core.so from its own folder. Both stay loaded, because the core's threads run
// on.

#include <dlfcn.h>
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "ort/factory.h"

namespace {

constexpr const char* kCore = "liblagoon_ort_core.so";

struct Core {
  decltype(&CreateEpFactories) create = nullptr;
  decltype(&ReleaseEpFactory) release = nullptr;
  decltype(&LagoonOrtTotals) totals = nullptr;
  char error[1024] = {};
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Core core;  // written under the mutex, once its `create` is set never again

template <typename F>
bool Find(void* library, const char* name, F& to) {
  void* const found = dlsym(library, name);
  if (found == nullptr) return false;
  std::memcpy(&to, &found, sizeof to);
  return true;
}

// Whether the program has a library among its global symbols that the core has too, perhaps of
// another version. Then the core and its libraries must use one another's symbols (RTLD_DEEPBIND).
// Otherwise they must not: RTLD_DEEPBIND passes by a program's own malloc().
bool ProgramHasOurLibraries() {
  constexpr const char* kSymbols[] = {"_ZTVN6google8protobuf11MessageLiteE",
                                      "_ZTVN4onnx10ModelProtoE", "_ZN6spdlog18default_logger_rawEv",
                                      "_ZN3hwy15SupportedTargetsEv"};
  for (const char* symbol : kSymbols) {
    if (dlsym(RTLD_DEFAULT, symbol) != nullptr) return true;
  }
  return false;
}

void Load() {
  Dl_info own{};
  if (dladdr(&core, &own) == 0 || own.dli_fname == nullptr) {
    std::snprintf(core.error, sizeof core.error, "the file of this library is not known");
    return;
  }
  const char* slash = std::strrchr(own.dli_fname, '/');
  const int folder = slash == nullptr ? 0 : static_cast<int>(slash - own.dli_fname + 1);
  char path[4096];
  std::snprintf(path, sizeof path, "%.*s%s", folder, own.dli_fname, kCore);
  const int own_symbols = ProgramHasOurLibraries() ? RTLD_DEEPBIND : 0;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | own_symbols);
  Core found;
  if (library == nullptr || !Find(library, "CreateEpFactories", found.create) ||
      !Find(library, "ReleaseEpFactory", found.release) ||
      !Find(library, "LagoonOrtTotals", found.totals)) {
    const char* why = dlerror();
    std::snprintf(core.error, sizeof core.error, "%s", why == nullptr ? "unknown" : why);
    return;
  }
  core = found;
}

bool Loaded() {
  pthread_mutex_lock(&mutex);
  if (core.create == nullptr) Load();
  const bool loaded = core.create != nullptr;
  pthread_mutex_unlock(&mutex);
  return loaded;
}

// Without a library, only a function of ONNX Runtime's oldest table can say why.
lagoon::plugin::AbiStatus* Failure(const lagoon::plugin::ApiBase& base) {
  const void* const* oldest = base.get_api(1);
  if (oldest == nullptr) return nullptr;
  char text[1200];
  std::snprintf(text, sizeof text, "lagoon: cannot load %s: %s", kCore, core.error);
  return lagoon::plugin::Table(oldest).Call<lagoon::plugin::CreateStatus>(
      int{lagoon::plugin::kFail}, static_cast<const char*>(text));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) lagoon::plugin::AbiStatus* CreateEpFactories(
    const char* registered_as, const lagoon::plugin::ApiBase* base,
    const lagoon::plugin::Logger* logger, lagoon::plugin::Factory** factories, std::size_t most,
    std::size_t* made) {
  *made = 0;
  if (!Loaded()) return Failure(*base);
  return core.create(registered_as, base, logger, factories, most, made);
}

extern "C" __attribute__((visibility("default"))) lagoon::plugin::AbiStatus* ReleaseEpFactory(
    lagoon::plugin::Factory* factory) {
  return Loaded() ? core.release(factory) : nullptr;
}

extern "C" __attribute__((visibility("default"))) void LagoonOrtTotals(std::uint64_t totals[3]) {
  totals[0] = totals[1] = totals[2] = 0;
  if (Loaded()) core.totals(totals);
}
