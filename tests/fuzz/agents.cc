// What `asup run` and its agents on other hosts write to each other, line by line, and the job that
// an agent is told.
#include "asup/launch/agent_protocol.h"
#include "asup/launch/host_job.h"
#include "asup/launch/lines.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  using namespace asup::launch;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Lines lines;
  for (const std::string& line : lines.feed(text)) {
    (void)parse_signal_line(line);
    const auto message = parse_agent_message(line);
    if (!message) continue;
    // A rank's output arrives as it was written.
    const bool is_output = message->kind == AgentMessage::Kind::output;
    if (!is_output) continue;
    const auto again =
        parse_agent_message(output_line(message->rank, message->stream, message->text));
    check(again && again->text == message->text, "output changes on its way");
  }
  lines.finish();
  fuzz::may_refuse([&] {
    const HostJob job = parse_host_job(std::string(text));
    check(parse_host_job(to_json(job)).program == job.program, "a job is another one again");
  });
  return 0;
}
