// How a training run ended, as one worker sees it. A value.
#pragma once

#include "asup/report/records.h"

namespace asup::train {

struct TrainEnd {
  report::Summary summary;    // where the folder is kept
  bool stopped = false;       // before the run's last step, as asked
  bool keeps_folder = false;  // rank 0 does, or the first of those who are left
  bool was_finished = false;  // before this call, which has changed nothing
};

}  // namespace asup::train
