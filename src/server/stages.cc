#include "server/stages.h"

namespace lagoon {

std::array<Stage, 9> Stages(const EdgeStamps& stamps, Nanoseconds plan_wait, const JobResult& job,
                            TimePoint responding) {
  return {{
      {"lagoon_read_us", ToMicroseconds(stamps.received - stamps.first_byte)},
      {"lagoon_parse_us", ToMicroseconds(stamps.submitted - stamps.received)},
      {"lagoon_admit_us", ToMicroseconds(job.posted - stamps.submitted - plan_wait)},
      {"lagoon_plan_us", ToMicroseconds(plan_wait)},
      {"lagoon_queue_us", ToMicroseconds(job.started - job.posted)},
      {"lagoon_compute_input_us", ToMicroseconds(job.inputs_copied - job.started)},
      {"lagoon_compute_infer_us", ToMicroseconds(job.computed - job.inputs_copied)},
      {"lagoon_compute_output_us", ToMicroseconds(job.finished - job.computed)},
      {"lagoon_respond_us", ToMicroseconds(responding - job.finished)},
  }};
}

}  // namespace lagoon
