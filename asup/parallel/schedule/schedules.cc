// The table of schedules: a row for each. docs/adding_a_schedule.md says how to add one.
#include "asup/parallel/schedule/gpipe.h"
#include "asup/parallel/schedule/interleaved.h"
#include "asup/parallel/schedule/one_forward_one_backward.h"
#include "asup/parallel/schedule/schedule.h"
#include "asup/parallel/schedule/zb1p.h"
#include "asup/parallel/schedule/zbv.h"

namespace asup::parallel {
namespace {

constexpr int kManyChunks = 64;

}  // namespace

// clang-format off
const std::vector<PipelineSchedule>& pipeline_schedules() {
  static const std::vector<PipelineSchedule> table = {
      {"1f1b",
       "one forward and one backward in turn; bubble (p-1)/(m+p-1); rank r holds p-r activations",
       Placement::loop, 1, 1, false,
       one_forward_one_backward, one_forward_one_backward_activations},
      {"gpipe",
       "all forwards, then all backwards; bubble (p-1)/(m+p-1); each rank holds m activations",
       Placement::loop, 1, 1, false,
       gpipe, gpipe_activations},
      {"interleaved",
       "1f1b with v chunks a rank; bubble (p-1)/(vm+p-1); v times the messages",
       Placement::loop, 2, kManyChunks, false,
       interleaved, interleaved_activations},
      {"zb1p",
       "ZB-H1: 1f1b with weight gradients in its bubble, of which a third is left; each rank holds "
       "p activations",
       Placement::loop, 1, 1, true,
       zb1p, zb1p_activations},
      {"zbv",
       "two chunks a rank, placed as a V, and weight gradients in the bubble, of which a sixth "
       "is left; each rank holds 2p activations of half its layers",
       Placement::vee, 2, 2, true,
       zbv, zbv_activations},
  };
  return table;
}
// clang-format on

}  // namespace asup::parallel
