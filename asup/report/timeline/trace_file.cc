// The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#include "asup/report/timeline/trace_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <limits>
#include <span>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/json.h"
#include "asup/report/timeline/step_picture.h"
#include "asup/report/timeline/step_view.h"

namespace asup::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kViewBegins = "{\"otherData\":", kViewEnds = ",\n";

// Text in, gzip out, a piece at a time: the text is ten times as large.
class Gzip {
 public:
  Gzip() {
    constexpr int kFast = 3, kGzip = 15 + 16, kMemory = 8;
    const int result =
        deflateInit2(&stream_, kFast, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY);
    check(result == Z_OK, "zlib cannot begin: {}", result);
  }
  ~Gzip() { deflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void add(std::string_view text) {
    text_ += text;
    if (text_.size() >= kPiece) deflate_text(Z_NO_FLUSH);
  }
  std::string finish() {
    deflate_text(Z_FINISH);
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 16;

  void deflate_text(int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(text_.data());
    stream_.avail_in = static_cast<uInt>(text_.size());
    do {
      std::array<char, kPiece> room;
      stream_.next_out = reinterpret_cast<Bytef*>(room.data());
      stream_.avail_out = room.size();
      deflate(&stream_, flush);
      out_.append(room.data(), room.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
    text_.clear();
  }

  z_stream stream_{};
  std::string text_, out_;
};

std::string json_of(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The format counts in microseconds.
std::string microseconds(std::int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

std::string arguments_of(const TimelineEvent& event) {
  std::string text;
  const auto add = [&](std::string_view name, std::int64_t value) {
    if (value >= 0) text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name, value);
  };
  add("step", event.step);
  add("stage", event.stage);
  add("micro_batch", event.micro_batch);
  add("bucket", event.bucket);
  add("bytes", event.bytes);
  if (event.detail)
    text += fmt::format("{}\"detail\":{}", text.empty() ? "" : ",", json_of(event.detail));
  return text;
}

class TraceWriter {
 public:
  TraceWriter(Gzip& out, std::int64_t origin) : out_(out), origin_(origin) {}

  void add(const TimelinePart& process, int pid) {
    tell(pid, 0, "process_name", fmt::format("\"name\":{}", json_of(process.name)));
    tell(pid, 0, "process_labels", fmt::format("\"labels\":{}", json_of(process.host)));
    tell(pid, 0, "process_sort_index", fmt::format("\"sort_index\":{}", pid));
    const auto* training = training_track(process);
    int tid = 0;
    for (const auto& track : process.tracks) {
      ++tid;
      const int place = &track == training ? 0 : tid;
      tell(pid, tid, "thread_name", fmt::format("\"name\":{}", json_of(track.name)));
      tell(pid, tid, "thread_sort_index", fmt::format("\"sort_index\":{}", place));
      for (const TimelineEvent& event : track.events) add(event, pid, tid);
    }
  }

 private:
  void add(const TimelineEvent& event, int pid, int tid) {
    const std::string_view activity = name_of(event.activity);
    const std::string name = json_of(event.name ? event.name : activity);
    const std::string begin = microseconds(event.begin - origin_);
    if (event.kind == TimelineEvent::Kind::counter)
      return line(
          fmt::format(R"({{"ph":"C","pid":{},"tid":{},"ts":{},"name":{},"args":{{"value":{}}}}})",
                      pid, tid, begin, name, event.end));
    line(fmt::format(
        R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"{}","args":{{{}}}}})",
        pid, tid, begin, microseconds(event.end - event.begin), name, activity,
        arguments_of(event)));
  }

  void tell(int pid, int tid, std::string_view what, const std::string& arguments) {
    line(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}}}})", pid, tid, what,
                     arguments));
  }

  void line(const std::string& text) {
    out_.add(first_ ? "\n" : ",\n");
    out_.add(text);
    first_ = false;
  }

  Gzip& out_;
  const std::int64_t origin_;
  bool first_ = true;
};

std::int64_t earliest(const std::vector<TimelinePart>& processes) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const TimelinePart& process : processes)
    for (const auto& track : process.tracks)
      if (!track.events.empty()) first = std::min(first, track.events.front().begin);
  return first;
}

Json describe(const TimelinePart& process) {
  std::uint64_t dropped = 0, events = 0;
  for (const auto& track : process.tracks) {
    dropped += track.dropped;
    events += track.events.size();
  }
  Json clocks = Json::array();
  for (const ClockOffset& each : process.clock)
    clocks.push_back({{"offset_us", static_cast<double>(each.offset) * 1e-3},
                      {"error_us", static_cast<double>(each.error) * 1e-3}});
  return {{"name", process.name},
          {"host", process.host},
          {"events", events},
          {"dropped", dropped},
          {"clock", clocks}};
}

Json describe(const TimeShares& shares) {
  Json seconds = Json::object();
  for (std::size_t i = 0; i < shares.seconds.size(); ++i) {
    const auto activity = static_cast<Activity>(i);
    if (shares.seconds[i] > 0)
      seconds[activity == Activity::step ? "other" : name_of(activity)] = shares.seconds[i];
  }
  return {{"name", shares.name},
          {"steps", shares.steps},
          {"step_s", shares.step_seconds},
          {"exchange_s", shares.exchange_seconds},
          {"seconds", seconds}};
}

Json view_of(const std::vector<TimelinePart>& processes) {
  Json view{{"generator", "asup"}, {"processes", Json::array()}, {"shares", Json::array()}};
  for (const TimelinePart& process : processes) view["processes"].push_back(describe(process));
  for (const TimeShares& shares : time_shares(processes))
    view["shares"].push_back(describe(shares));
  const auto window = typical_step(processes);
  if (!window) return view;
  const StepPicture picture = draw_step(processes, *window);
  Json colors = Json::array();
  for (const Activity each : picture.activities)
    colors.push_back({{"name", name_of(each)}, {"color", color_of(each)}});
  view["step"] = {{"number", window->step}, {"picture", picture.svg}, {"colors", colors}};
  return view;
}

}  // namespace

void write_timeline(const std::string& path, const JobTimeline& timeline) {
  const std::vector<TimelinePart> processes = timeline.on_one_clock();
  Gzip out;
  out.add(kViewBegins);
  out.add(view_of(processes).dump(-1, ' ', false, Json::error_handler_t::replace));
  out.add(kViewEnds);
  out.add("\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[");
  TraceWriter trace(out, earliest(processes));
  for (std::size_t i = 0; i < processes.size(); ++i) trace.add(processes[i], static_cast<int>(i));
  out.add("\n]}\n");
  write_atomically(path, out.finish());
}

std::optional<Json> read_timeline_view(const std::string& path) {
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  const std::unique_ptr<std::remove_pointer_t<gzFile>, Close> file(gzopen(path.c_str(), "rb"));
  if (!file) return std::nullopt;
  constexpr std::size_t kMost = std::size_t{64} << 20;  // bytes
  std::string line;
  std::array<char, 1 << 16> piece;
  while (line.size() < kMost && !line.ends_with('\n') &&
         gzgets(file.get(), piece.data(), static_cast<int>(piece.size())))
    line += piece.data();
  if (!line.starts_with(kViewBegins) || !line.ends_with(kViewEnds)) return std::nullopt;
  line = line.substr(kViewBegins.size(), line.size() - kViewBegins.size() - kViewEnds.size());
  Json view = try_json<Json>(line);
  return view.is_object() ? std::optional(std::move(view)) : std::nullopt;
}

}  // namespace asup::report
