// A program in C++11 that uses liblagoon: program MODEL HOW. HOW: "threads": many threads load,
// run and free models; "exit": the process exits while runs are under way; "throw": `done` throws.
// Exits with 0 if all is right.

#include <lagoon/lagoon.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void Check(lagoon_code code, const lagoon_error& error, int line) {
  if (code == LAGOON_OK) return;
  std::fprintf(stderr, "line %d: %s: %s\n", line, lagoon_code_name(code), error.message);
  std::_Exit(1);
}
#define OK(call) Check(call, error, __LINE__)

struct Digits {
  explicit Digits(lagoon_device* device, const char* path) {
    lagoon_error error = {};
    OK(lagoon_model_load_file(device, path, nullptr, &model, &error));
    OK(lagoon_run_create(model, &run, &error));
    const int64_t dims[] = {1, 1, 8, 8};
    const lagoon_tensor in = {LAGOON_FLOAT32, 4, dims, image.data(), image.size() * sizeof(float)};
    OK(lagoon_run_input(run, 0, &in));
  }
  ~Digits() {
    lagoon_run_free(run);
    lagoon_model_free(model);
  }
  Digits(const Digits&) = delete;
  Digits& operator=(const Digits&) = delete;

  std::vector<float> image = std::vector<float>(64);
  lagoon_model* model = nullptr;
  lagoon_run* run = nullptr;
};

void RunForEver(void*, lagoon_run* run) { lagoon_run_start(run, 0, &RunForEver, nullptr); }
void Throw(void*, lagoon_run*) { throw std::runtime_error("of a program"); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const char* const path = argv[1];
  const std::string how = argv[2];
  lagoon_error error = {};
  lagoon_device* device = nullptr;
  lagoon_device_options options = LAGOON_DEVICE_OPTIONS_INIT;
  options.workers = 2;
  OK(lagoon_device_open(&options, &device, &error));
  if (how == "threads") {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int times = 0; times < 5; ++times) {
          lagoon_error error = {};
          Digits digits(device, path);
          OK(lagoon_run_sync(digits.run, 0));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  } else if (how == "throw") {
    Digits digits(device, path);
    OK(lagoon_run_start(digits.run, 0, &Throw, nullptr));
    OK(lagoon_run_wait(digits.run, 0));
    OK(lagoon_run_sync(digits.run, 0));
  } else {
    for (int i = 0; i < 4; ++i) {
      auto* const digits = new Digits(device, path);  // never freed: the process exits meanwhile
      OK(lagoon_run_start(digits->run, 0, &RunForEver, nullptr));
    }
    // So that the exit comes in the middle of runs.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::exit(0);
  }
  lagoon_device_close(device);
  return 0;
}
