// The files of a run folder, which `asup report` reads: any of them may be anything.
#include "asup/report/run_folder.h"

#include "asup/report/metrics_file.h"
#include "asup/report/read_run.h"
#include "asup/report/report.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  using namespace asup::report;
  static const testing::TemporaryFolder folder;
  const RunFolder run(folder.path());
  fuzz::Input input(data, size);
  const std::string files[] = {run.config_file(),     run.facts_file(),    run.metrics_file(),
                               run.summary_file(),    run.failure_file(),  run.server_file(),
                               run.evaluation_file(), run.generated_file()};
  for (const std::string& file : files) std::filesystem::remove(file);
  std::ofstream(run.config_file()) << "model = \"mlp\"\n";
  while (!input.empty()) {
    const std::string& file = files[input.below(8)];
    std::ofstream(file, std::ios::binary) << input.text_piece();
  }
  fuzz::may_refuse([&] {
    const FoundRun found = read_run(run.path());
    (void)describe_end(found);
  });
  fuzz::may_refuse([&] { write_report(run.path()); });
  fuzz::may_refuse([&] { (void)run_as_json(run.path()); });
  fuzz::may_refuse([&] { keep_metrics(run.metrics_file(), folder.file("kept"), 3); });
  return 0;
}
