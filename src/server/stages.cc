#include "server/stages.h"

namespace lagoon {

std::array<Stage, 10> Stages(const EdgeStamps& stamps, const InferResponse& response,
                             TimePoint responding) {
  const JobResult& job = response.job;
  const Nanoseconds before = response.plan_wait - response.plan_wait_between;
  return {{
      {"lagoon_read_us", ToMicroseconds(stamps.received - stamps.first_byte)},
      {"lagoon_parse_us", ToMicroseconds(stamps.submitted - stamps.received)},
      {"lagoon_admit_us", ToMicroseconds(job.posted - stamps.submitted - before)},
      {"lagoon_plan_us", ToMicroseconds(response.plan_wait)},
      {"lagoon_queue_us", ToMicroseconds(job.started - job.posted)},
      {"lagoon_compute_input_us", ToMicroseconds(job.inputs_copied - job.started)},
      {"lagoon_compute_infer_us",
       ToMicroseconds(job.computed - job.inputs_copied - response.plan_wait_between)},
      {"lagoon_compute_output_us", ToMicroseconds(job.finished - job.computed)},
      {"lagoon_respond_us", ToMicroseconds(responding - job.finished)},
      {"lagoon_off_core_us", ToMicroseconds(stamps.off_core)},
  }};
}

}  // namespace lagoon
