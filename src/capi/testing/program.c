/* A program in C11 that uses liblagoon as its users do: program MODEL. Exits with 0 if all is right. */

#include <lagoon/lagoon.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void log_line(void* count, int level, const char* message) {
  (void)level;
  (void)message;
  ++*(int*)count;
}

static void count_down(void* left, lagoon_run* run) {
  int* const runs = left;
  if (--*runs > 0) lagoon_run_start(run, 0, count_down, left);
}

struct waits {
  lagoon_device* device;
  lagoon_run* other;
  lagoon_code codes[4];
};

/* All of these would wait for the thread that they are called by. */
static void wait_within(void* arg, lagoon_run* run) {
  struct waits* const w = arg;
  w->codes[0] = lagoon_run_sync(w->other, 0);
  w->codes[1] = lagoon_run_wait(w->other, 0);
  w->codes[2] = lagoon_run_wait(run, 0);
  w->codes[3] = lagoon_device_scheduler(w->device, "reset", NULL);
}

static void use_run(lagoon_device* device, lagoon_model* model) {
  lagoon_error error;
  lagoon_run* run = NULL;
  CHECK(lagoon_run_create(model, &run, &error) == LAGOON_OK);

  float image[64] = {0}, scores[10];
  const int64_t dims[4] = {1, 1, 8, 8};
  lagoon_tensor in = {LAGOON_FLOAT32, 4, dims, image, sizeof(image)};
  CHECK(lagoon_run_sync(run, 0) == LAGOON_INVALID_ARGUMENT); /* nothing is bound */
  lagoon_run_error(run, &error);
  CHECK(strstr(error.message, "is not bound") != NULL);
  in.rank = 3;
  CHECK(lagoon_run_input(run, 0, &in) == LAGOON_INVALID_ARGUMENT);
  in.rank = 100000000; /* an uninitialised struct */
  CHECK(lagoon_run_input(run, 0, &in) == LAGOON_INVALID_ARGUMENT);
  CHECK(lagoon_run_output(run, 0, &in) == LAGOON_INVALID_ARGUMENT);
  lagoon_run_error(run, &error);
  CHECK(strstr(error.message, "100000000 dimensions") != NULL);
  in.rank = 4;
  in.type = (lagoon_type)99;
  CHECK(lagoon_run_input(run, 0, &in) == LAGOON_INVALID_ARGUMENT);
  in.type = LAGOON_FLOAT32;
  CHECK(lagoon_run_input(run, 7, &in) == LAGOON_INVALID_ARGUMENT);
  CHECK(lagoon_run_input(run, 0, NULL) == LAGOON_INVALID_ARGUMENT);
  CHECK(lagoon_run_input(run, 0, &in) == LAGOON_OK);
  CHECK(lagoon_run_prepare(run, &error) == LAGOON_OK);
  uint32_t rank = 0;
  const int64_t* const out_dims = lagoon_run_output_dims(run, 0, &rank);
  CHECK(rank == 2 && out_dims[0] == 1 && out_dims[1] == 10);
  CHECK(lagoon_run_output_dims(run, 1, &rank) == NULL && rank == 0);
  lagoon_tensor out = {LAGOON_FLOAT32, 0, NULL, scores, sizeof(scores)};
  CHECK(lagoon_run_output(run, 0, &out) == LAGOON_OK);
  CHECK(lagoon_run_sync(run, LAGOON_NEVER) == LAGOON_OK);
  size_t bytes = 0;
  CHECK(lagoon_run_made_output(run, 0, &bytes) == scores && bytes == sizeof(scores));

  lagoon_result result = LAGOON_RESULT_INIT;
  CHECK(lagoon_run_result(run, &result) == LAGOON_OK);
  CHECK(result.code == LAGOON_OK && !result.under_way && result.parts == 1);
  CHECK(result.called_ns <= result.posted_ns && result.computed_ns <= result.finished_ns);
  CHECK(result.due_ns == LAGOON_NEVER && strcmp(result.why_name, "not late") == 0);
  CHECK(result.behind == 0 && result.behind_model[0] == '\0' && result.behind_ns == 0);
  CHECK(result.stolen_ns >= 0);
  CHECK(lagoon_run_sync(run, now_ns() - 1) == LAGOON_DEADLINE_EXCEEDED);
  CHECK(lagoon_run_result(run, &result) == LAGOON_OK && result.why == LAGOON_LATE_CALLER);

  int left = 10;
  CHECK(lagoon_run_start(run, 0, count_down, &left) == LAGOON_OK);
  while (left > 0) lagoon_run_wait(run, 0);
  CHECK(lagoon_run_wait(run, 0) == LAGOON_OK);
  lagoon_run_cancel(run); /* of nothing */
  CHECK(lagoon_run_sync(run, 0) == LAGOON_OK);

  lagoon_stats stats = LAGOON_STATS_INIT;
  CHECK(lagoon_statistics(device, model, &stats) == LAGOON_OK);
  CHECK(stats.done == 12 && stats.expired == 1 && stats.workers == 2);

  struct waits waits = {device, NULL, {0}};
  CHECK(lagoon_run_create(model, &waits.other, &error) == LAGOON_OK);
  CHECK(lagoon_run_input(waits.other, 0, &in) == LAGOON_OK);
  CHECK(lagoon_run_start(run, 0, wait_within, &waits) == LAGOON_OK);
  CHECK(lagoon_run_wait(run, 0) == LAGOON_OK);
  for (int i = 0; i < 4; ++i) CHECK(waits.codes[i] == LAGOON_INVALID_ARGUMENT);
  CHECK(lagoon_run_sync(waits.other, 0) == LAGOON_OK);
  lagoon_run_free(waits.other);
  lagoon_run_free(run);
}

static void give_bad_input(lagoon_device* device, const char* path) {
  lagoon_error error;
  lagoon_device* none = NULL;
  lagoon_device_options options = LAGOON_DEVICE_OPTIONS_INIT;
  options.scheduler = "best";
  CHECK(lagoon_device_open(&options, &none, &error) == LAGOON_NOT_FOUND && none == NULL);
  CHECK(strstr(error.message, "reset") != NULL);
  options.scheduler = NULL;
  options.worker_nice = 40;
  CHECK(lagoon_device_open(&options, &none, &error) == LAGOON_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "worker_nice is 40") != NULL);
  options.worker_nice = 0;
  const int core = 0;
  options.cores = &core;
  CHECK(lagoon_device_open(&options, &none, &error) == LAGOON_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "core_count is 0") != NULL);
  options.size = 0;
  CHECK(lagoon_device_open(&options, &none, &error) == LAGOON_INVALID_ARGUMENT);
  CHECK(lagoon_device_open(NULL, NULL, NULL) == LAGOON_INVALID_ARGUMENT);
  struct {
    lagoon_device_options known;
    int64_t unknown;
  } newer = {LAGOON_DEVICE_OPTIONS_INIT, 1};
  newer.known.size = sizeof(newer);
  CHECK(lagoon_device_open(&newer.known, &none, &error) == LAGOON_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "newer lagoon.h") != NULL);

  lagoon_model* model = NULL;
  CHECK(lagoon_model_load_file(device, "/nowhere.onnx", NULL, &model, &error) == LAGOON_NOT_FOUND);
  CHECK(lagoon_model_load_file(device, NULL, NULL, &model, &error) == LAGOON_INVALID_ARGUMENT);
  CHECK(lagoon_model_load_file(NULL, path, NULL, &model, &error) == LAGOON_INVALID_ARGUMENT);
  CHECK(lagoon_model_load_bytes(device, "rubbish", 7, NULL, NULL, &model, &error) != LAGOON_OK);
  lagoon_model_options wrong = LAGOON_MODEL_OPTIONS_INIT;
  wrong.job_class = (lagoon_class)7;
  CHECK(lagoon_model_load_file(device, path, &wrong, &model, &error) == LAGOON_INVALID_ARGUMENT);
  wrong.job_class = LAGOON_BEST_EFFORT;
  wrong.weight = HUGE_VAL;
  CHECK(lagoon_model_load_file(device, path, &wrong, &model, &error) == LAGOON_INVALID_ARGUMENT);
  CHECK(model == NULL);
  lagoon_model_free(NULL);
  lagoon_run_free(NULL);
  lagoon_run_cancel(NULL);
  lagoon_device_close(NULL);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  CHECK(lagoon_abi() == 1 && strchr(lagoon_version(), '.') != NULL);
  CHECK(strcmp(lagoon_code_name(LAGOON_TOO_LATE), "too late") == 0);
  int lines = 0;
  lagoon_error error;
  lagoon_device* device = NULL;
  lagoon_device_options options = LAGOON_DEVICE_OPTIONS_INIT;
  options.workers = 2;
  options.log = log_line;
  options.log_arg = &lines;
  CHECK(lagoon_device_open(&options, &device, &error) == LAGOON_OK);
  give_bad_input(device, argv[1]);

  lagoon_model* model = NULL;
  lagoon_model_options loads = LAGOON_MODEL_OPTIONS_INIT;
  loads.name = "digits";
  loads.job_class = LAGOON_REAL_TIME;
  CHECK(lagoon_model_load_file(device, argv[1], &loads, &model, &error) == LAGOON_OK);
  CHECK(lagoon_model_input_count(model) == 1 && lagoon_model_output_count(model) == 1);
  lagoon_tensor_info info = LAGOON_TENSOR_INFO_INIT;
  CHECK(lagoon_model_input(model, 0, &info) == LAGOON_OK);
  CHECK(strcmp(info.name, "image") == 0 && info.type == LAGOON_FLOAT32 && info.rank == 4);
  CHECK(lagoon_model_output(model, 1, &info) == LAGOON_INVALID_ARGUMENT);
  CHECK(lagoon_model_set(model, "color", "red", &error) == LAGOON_NOT_FOUND);
  CHECK(lagoon_model_set(model, "weight", "heavy", &error) == LAGOON_INVALID_ARGUMENT);
  CHECK(lagoon_model_set(model, "weight", "2", &error) == LAGOON_OK);
  use_run(device, model);
  CHECK(lagoon_device_scheduler(device, "weighted", &error) == LAGOON_OK);
  CHECK(lagoon_device_scheduler(device, "best", &error) == LAGOON_NOT_FOUND);
  CHECK(lagoon_trace_write(device, "/tmp/never.json", &error) == LAGOON_INVALID_ARGUMENT);

  /* In the wrong order: handles stay, and their calls say so. */
  lagoon_run* run = NULL;
  CHECK(lagoon_run_create(model, &run, &error) == LAGOON_OK);
  lagoon_device_close(device);
  CHECK(lines > 0);
  CHECK(lagoon_run_sync(run, 0) == LAGOON_UNAVAILABLE);
  lagoon_run_error(run, &error);
  CHECK(error.code == LAGOON_UNAVAILABLE && error.message[0] != '\0');
  lagoon_model_free(model);
  CHECK(lagoon_run_start(run, 0, NULL, NULL) == LAGOON_UNAVAILABLE);
  lagoon_run_free(run);
  puts("right");
  return 0;
}
