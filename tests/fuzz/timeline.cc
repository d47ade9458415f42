// The parts of a timeline that ranks send the first, and a trace file that `asup report` reads.
#include <nlohmann/json.hpp>

#include "asup/report/timeline/job_timeline.h"
#include "asup/report/timeline/trace_file.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/memory_file.h"
#include "tests/support/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  using namespace asup::report;
  fuzz::Input input(data, size);
  if (input.below(2) == 0) {
    const fuzz::MemoryFile file(input.text());
    (void)read_timeline_view(file.path());
    return 0;
  }
  static const testing::TemporaryFolder folder;
  JobTimeline timeline(100);
  while (!input.empty()) fuzz::may_refuse([&] { timeline.add(input.text_piece()); });
  if (timeline.empty()) return 0;
  write_timeline(folder.file("trace.json.gz"), timeline);
  check(read_timeline_view(folder.file("trace.json.gz")).has_value(),
        "its own trace makes no sense");
  return 0;
}
