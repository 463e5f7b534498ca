/* Lagoon inside a program: open a device, load ONNX models with a class, a deadline and a share, and run them. One
 * scheduler shares the device: real-time models preempt best-effort ones in the middle of a kernel.
 *
 * C11. Every struct that begins with `size` is set up by its _INIT macro; members that are added later come at the end,
 * and a member of zero means the default. A function that returns a lagoon_code says LAGOON_OK or what went wrong; where
 * it takes a lagoon_error (which may be NULL), that gets the reason too. No function throws. Handles may be used by any
 * thread, but a lagoon_run by one at a time (only lagoon_run_cancel may come from another). In a child that was forked
 * after a device was opened, the calls for that device return LAGOON_UNAVAILABLE.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. */
#ifndef LAGOON_LAGOON_H
#define LAGOON_LAGOON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LAGOON_API __attribute__((visibility("default")))
#else
#define LAGOON_API
#endif

/* ---- Errors */

typedef enum {
  LAGOON_OK = 0,
  LAGOON_INVALID_ARGUMENT = 1,   /* trying again cannot help */
  LAGOON_NOT_FOUND = 2,          /* no such file, scheduler, key */
  LAGOON_UNIMPLEMENTED = 3,      /* valid, but not in this build: an op, a device */
  LAGOON_RESOURCE_EXHAUSTED = 4, /* a limit on memory or size */
  LAGOON_DEADLINE_EXCEEDED = 5,  /* its due time came before its end */
  LAGOON_CANCELLED = 6,
  LAGOON_UNAVAILABLE = 7, /* full, closed, lost or forked */
  LAGOON_INTERNAL = 8,    /* a bug, or a device that fails */
  LAGOON_SUPERSEDED = 9,  /* a newer run took its place (newest_wins) */
  /* Under a scheduler with admit_by_deadline: refused at its start, before its due time, which it would miss behind the
   * runs that go before it. */
  LAGOON_TOO_LATE = 10
} lagoon_code;

typedef struct {
  lagoon_code code;
  char message[512]; /* names the object and the values; cut where it is longer */
} lagoon_error;

/* "1.2.3"; static storage. */
LAGOON_API const char* lagoon_version(void);
/* The number of this interface: a library with the same number has all functions of this header. */
LAGOON_API uint32_t lagoon_abi(void);
/* "ok", "invalid argument", ...; static storage. */
LAGOON_API const char* lagoon_code_name(lagoon_code code);

/* ---- A device */

typedef struct lagoon_device lagoon_device;

typedef struct {
  size_t size;
  const char* device;    /* NULL: "cpu"; or "cuda:0" */
  uint32_t workers;      /* threads of "cpu"; 0: one per core, of `cores` or of the process */
  const int* cores;      /* the cores that workers run on; NULL: those of the calling thread */
  size_t core_count;     /* how many `cores` there are */
  const char* scheduler; /* NULL: "reset"; `lagoon schedulers` lists them */
  int worker_nice;       /* added to the nice value of the calling thread; -39 to 39 */
  int worker_fifo;       /* above 0: the priority of SCHED_FIFO for workers */
  uint32_t
      spin_us; /* how long a waiting thread looks before it sleeps; 0: 20; LAGOON_NO_SPIN: not at all */
  uint32_t trace_events; /* how many events a trace keeps; 0: no trace */
  /* Called with messages of the library, on any thread; must not call the library. `level`: 0 debug, 1 information,
   * 2 warning, 3 error. NULL: none. */
  void (*log)(void* log_arg, int level, const char* message);
  void* log_arg;
} lagoon_device_options;

#define LAGOON_NO_SPIN UINT32_MAX
#define LAGOON_DEVICE_OPTIONS_INIT \
  { sizeof(lagoon_device_options), NULL, 0, NULL, 0, NULL, 0, 0, 0, 0, NULL, NULL }

/* `options` may be NULL. The caller frees the device with lagoon_device_close(). */
LAGOON_API lagoon_code lagoon_device_open(const lagoon_device_options* options,
                                          lagoon_device** device, lagoon_error* error);
/* Cancels all runs, waits for their ends, and frees the device. Free its models before: the calls of a model that is
 * left return LAGOON_UNAVAILABLE, and it must still be freed. Do not call it within `done` of a run. NULL does
 * nothing. */
LAGOON_API void lagoon_device_close(lagoon_device* device);
/* Changes the scheduler: waits for the runs under way, while later ones wait. Not within `done` of a run. */
LAGOON_API lagoon_code lagoon_device_scheduler(lagoon_device* device, const char* scheduler,
                                               lagoon_error* error);

/* ---- Tensors: dense, row-major, aligned to their elements, in the caller's memory */

/* The numbers of ONNX. */
typedef enum {
  LAGOON_FLOAT32 = 1,
  LAGOON_UINT8 = 2,
  LAGOON_INT8 = 3,
  LAGOON_UINT16 = 4,
  LAGOON_INT16 = 5,
  LAGOON_INT32 = 6,
  LAGOON_INT64 = 7,
  LAGOON_STRING = 8, /* elements are lagoon_string */
  LAGOON_BOOL = 9,   /* a byte */
  LAGOON_FLOAT16 = 10,
  LAGOON_FLOAT64 = 11,
  LAGOON_UINT32 = 12,
  LAGOON_UINT64 = 13,
  LAGOON_BFLOAT16 = 16
} lagoon_type;

typedef struct {
  const char* data; /* not terminated */
  uint64_t size;
} lagoon_string;

typedef struct {
  lagoon_type type;
  uint32_t rank;
  const int64_t* dims; /* copied */
  void* data;          /* borrowed until the run has ended; of inputs only read */
  size_t bytes;        /* of `data` */
} lagoon_tensor;

typedef struct {
  size_t size;
  const char* name; /* valid as long as the model */
  lagoon_type type;
  uint32_t rank;
  const int64_t* dims; /* -1: open; valid as long as the model */
  int shape_known;     /* 0: any rank and any dims */
} lagoon_tensor_info;

#define LAGOON_TENSOR_INFO_INIT \
  { sizeof(lagoon_tensor_info), NULL, LAGOON_FLOAT32, 0, NULL, 0 }

/* ---- A model */

typedef struct lagoon_model lagoon_model;

typedef enum { LAGOON_REAL_TIME = 1, LAGOON_BEST_EFFORT = 2 } lagoon_class;

typedef struct {
  size_t size;
  const char* name;       /* for messages and traces; NULL: that of the file */
  lagoon_class job_class; /* 0: LAGOON_BEST_EFFORT */
  int64_t deadline_us;    /* of a run that has no due time of its own, after its start; 0: none */
  double weight;          /* under the scheduler "weighted"; 0: 1 */
  double share;           /* at most 1: part of the device's units; 0: all, with the other models */
  uint32_t concurrency;   /* runs at once, each with memory of its own; 0: 1 */
  uint32_t max_pending;   /* runs that wait; one more is LAGOON_UNAVAILABLE; 0: 64 */
  int newest_wins;        /* not 0: instead, the oldest one that waits ends as LAGOON_SUPERSEDED */
  const char* precision;  /* NULL: "fp32"; or "bf16" */
  int profile_runs;       /* measures each kernel in so many runs at load; 0: estimates */
  const char* engine; /* path of ONNX Runtime's library, for ops that Lagoon lacks; NULL: none */
} lagoon_model_options;

#define LAGOON_MODEL_OPTIONS_INIT \
  { sizeof(lagoon_model_options), NULL, (lagoon_class)0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL }

/* Reads an ONNX file and packs its weights. Models of one device with equal weights, precision, and openness of their
 * shapes have the weights in memory once. `options` may be NULL. */
LAGOON_API lagoon_code lagoon_model_load_file(lagoon_device* device, const char* path,
                                              const lagoon_model_options* options,
                                              lagoon_model** model, lagoon_error* error);
/* The same for `size` bytes, which are copied. `folder`: where external weights lie; NULL: there are none. */
LAGOON_API lagoon_code lagoon_model_load_bytes(lagoon_device* device, const void* bytes,
                                               size_t size, const char* folder,
                                               const lagoon_model_options* options,
                                               lagoon_model** model, lagoon_error* error);
/* Waits for the runs under way, and frees the model. Free its runs before: the calls of a run that is left return
 * LAGOON_UNAVAILABLE, and it must still be freed. Do not call it within `done` of a run. NULL does nothing. */
LAGOON_API void lagoon_model_free(lagoon_model* model);

LAGOON_API size_t lagoon_model_input_count(const lagoon_model* model);
LAGOON_API size_t lagoon_model_output_count(const lagoon_model* model);
LAGOON_API lagoon_code lagoon_model_input(const lagoon_model* model, size_t index,
                                          lagoon_tensor_info* info);
LAGOON_API lagoon_code lagoon_model_output(const lagoon_model* model, size_t index,
                                           lagoon_tensor_info* info);
/* Changes a setting for runs that start from now on: "class" ("real-time", "best-effort"), "deadline_us", "weight",
 * "share". LAGOON_NOT_FOUND: there is no such key. */
LAGOON_API lagoon_code lagoon_model_set(lagoon_model* model, const char* key, const char* value,
                                        lagoon_error* error);

/* ---- Runs: tensors are bound once, and run again and again */

typedef struct lagoon_run lagoon_run;

LAGOON_API lagoon_code lagoon_run_create(lagoon_model* model, lagoon_run** run,
                                         lagoon_error* error);
/* Binds a tensor. Other memory of the same shape may be bound before each run. An output that is not bound, or bound
 * with data NULL, gets memory of the run's own. A code that is not LAGOON_OK: lagoon_run_error() has the reason. */
LAGOON_API lagoon_code lagoon_run_input(lagoon_run* run, size_t index, const lagoon_tensor* tensor);
LAGOON_API lagoon_code lagoon_run_output(lagoon_run* run, size_t index,
                                         const lagoon_tensor* tensor);
/* Makes the plan for the shapes that are bound (milliseconds) and memory for outputs that are not. Afterwards, runs of
 * these shapes allocate nothing and make no system call but futex. Without this call the first run does it. */
LAGOON_API lagoon_code lagoon_run_prepare(lagoon_run* run, lagoon_error* error);

/* Runs and waits. `due_ns`: when the run must have ended; 0: the model's deadline from now on; LAGOON_NEVER. An error
 * within `done` of any run. */
LAGOON_API lagoon_code lagoon_run_sync(lagoon_run* run, int64_t due_ns);
/* The same without waiting for the end. `done` (may be NULL) is called once, when the run has ended, on any thread: also
 * by this function before it returns, and by calls that other threads make for other runs. So it must be short and must
 * not wait for a lock that such a caller may hold. It may start this run again, or others; a run that it has started may
 * end, and `done` be called for that end, before it returns. Elsewhere, calls that bind, prepare or start a run wait
 * until its last `done` has returned; within `done` of another run, that is an error instead. `done` must not free this
 * run, its model or its device. It is not called where this function returns an error. */
LAGOON_API lagoon_code lagoon_run_start(lagoon_run* run, int64_t due_ns,
                                        void (*done)(void* arg, lagoon_run* run), void* arg);
/* Waits for the end of a started run, `done` included, and returns its code. LAGOON_DEADLINE_EXCEEDED and a result
 * with `under_way`: the run is not over at `until_ns`. 0: waits for ever. An error within `done` of any run. */
LAGOON_API lagoon_code lagoon_run_wait(lagoon_run* run, int64_t until_ns);
/* Any thread. The run ends as LAGOON_CANCELLED soon, unless it ends otherwise before. Not for signal handlers. */
LAGOON_API void lagoon_run_cancel(lagoon_run* run);

#define LAGOON_NEVER INT64_MAX

/* Why a run was late: the largest part of its time. */
typedef enum {
  LAGOON_NOT_LATE = 0,
  LAGOON_LATE_CALLER = 1,    /* it was started behind its due time */
  LAGOON_LATE_COMPILING = 2, /* a plan was made for its shapes */
  LAGOON_LATE_QUEUED = 3,    /* it waited for its turn */
  LAGOON_LATE_REVOKING = 4,  /* better work took the device from it */
  LAGOON_LATE_COMPUTING = 5, /* its kernels took that long */
  LAGOON_LATE_HOST = 6       /* cores taken away, copies, wake-ups, the work between two parts */
} lagoon_why;

/* Of the last run. Stages that were never reached have the time of `finished_ns`. */
typedef struct {
  size_t size;
  lagoon_code code;
  int under_way; /* not 0: the run is not over, and the other members say nothing */
  int64_t called_ns, posted_ns, started_ns, first_block_ns, inputs_copied_ns, computed_ns,
      finished_ns;
  int64_t due_ns; /* LAGOON_NEVER: none */
  uint32_t revocations;
  uint32_t parts;          /* how many jobs the run took: 1, unless shapes depend on data */
  uint64_t resumed_blocks; /* done before a revocation, and not again */
  int64_t compiling_ns;
  lagoon_why why;
  const char* why_name; /* "queued"; static storage */
  /* The other runs of its class, or of a better one, that had the device while this run waited (under a scheduler
   * that does not preempt, of all classes): how many of the last 256, the longest such time of one of them, and
   * the name of that one's model, cut, which ends with a zero. */
  uint32_t behind;
  char behind_model[48];
  int64_t behind_ns;
  /* Time for which the operating system gave workers' cores to others, summed over workers: of blocks that took more
   * than 3 times as long as expected, and 50 us more. */
  int64_t stolen_ns;
} lagoon_result;

#define LAGOON_RESULT_INIT                                                                    \
  {                                                                                           \
    sizeof(lagoon_result), LAGOON_OK, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, LAGOON_NOT_LATE, \
        NULL, 0, {0}, 0, 0                                                                    \
  }

LAGOON_API lagoon_code lagoon_run_result(const lagoon_run* run, lagoon_result* result);
/* Why the last call for this run, or the run itself, failed. */
LAGOON_API void lagoon_run_error(const lagoon_run* run, lagoon_error* error);
/* The output's dims: once prepared, or from the end of a run to the next call that prepares or starts where they depend on
 * data. NULL: not known. Valid until the next call for this run that binds, prepares or starts. */
LAGOON_API const int64_t* lagoon_run_output_dims(const lagoon_run* run, size_t index,
                                                 uint32_t* rank);
/* The output after a run, in the caller's memory or the run's own. NULL: no elements, or the run failed. `bytes` may be
 * NULL. Valid as the dims. */
LAGOON_API const void* lagoon_run_made_output(const lagoon_run* run, size_t index, size_t* bytes);
/* Cancels and waits. Not within `done` of this run; within that of another one, only where this run is over. NULL does
 * nothing. */
LAGOON_API void lagoon_run_free(lagoon_run* run);

/* ---- What happened */

typedef struct {
  size_t size;
  /* Of the model, or of all of the device's models that there are. */
  uint64_t done, expired, cancelled, superseded, too_late, failed;
  uint64_t late; /* of all: were due before they ended, or were given up for that */
  uint64_t revocations;
  uint64_t compiled; /* plans that were made */
  int64_t queued_ns,
      computed_ns;  /* sums over the runs that are done: before their first block, and from there */
  uint64_t pending; /* wait now */
  /* Of the device. */
  uint64_t device_revocations, launches;
  uint64_t under_way; /* runs now */
  uint32_t workers;
} lagoon_stats;

#define LAGOON_STATS_INIT \
  { sizeof(lagoon_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

LAGOON_API lagoon_code lagoon_statistics(lagoon_device* device, lagoon_model* model_or_null,
                                         lagoon_stats* stats);
/* Writes what the device did lately, for https://ui.perfetto.dev. Waits for the runs under way,
 * while later ones wait. Not within `done` of a run. */
LAGOON_API lagoon_code lagoon_trace_write(lagoon_device* device, const char* path,
                                          lagoon_error* error);

#ifdef __cplusplus
}
#endif

#endif
