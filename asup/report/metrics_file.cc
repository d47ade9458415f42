#include "asup/report/metrics_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/fd.h"
#include "asup/base/files.h"
#include "asup/base/json.h"

namespace asup::report {
namespace {

using Json = nlohmann::ordered_json;

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

class MetricsWriter : public Observer {
 public:
  explicit MetricsWriter(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
    if (!fd_) fail(errno);
    struct flock lock = whole_file();
    // Without a lock, the run is taken for killed while it runs; nothing else.
    (void)::fcntl(fd_.get(), F_OFD_SETLK, &lock);
  }

  void logged(const StepRecord& record) override { write(to_json(record)); }
  void evaluated(const EvalRecord& record) override { write(to_json(record)); }

 private:
  void write(const Json& row) const {
    const std::string line = row.dump() + "\n";
    const ssize_t written = ::write(fd_.get(), line.data(), line.size());
    if (written < 0) fail(errno);
    if (static_cast<std::size_t>(written) < line.size()) fail(ENOSPC);
  }
  [[noreturn]] void fail(int error) const {
    throw Error(fmt::format("{}: cannot be written ({})", path_, std::strerror(error)));
  }

  const std::string path_;
  const Fd fd_;
};

}  // namespace

std::unique_ptr<Observer> make_metrics_writer(const std::string& path) {
  return std::make_unique<MetricsWriter>(path);
}

bool is_being_written(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock lock = whole_file();
  return fd && ::fcntl(fd.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::vector<Json> read_metrics(const std::string& path) {
  std::vector<Json> rows;
  if (!std::filesystem::exists(path)) return rows;
  const std::string text = read_file(path);
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    Json row = try_json<Json>(std::string_view(text).substr(begin, end - begin));
    require(row.is_object() && row.contains("step") && row["step"].is_number_integer(),
            "{}:{}: is no row of metrics (a JSON object with a step): delete the line", path,
            rows.size() + 1);
    rows.push_back(std::move(row));
  }
  return rows;
}

void keep_metrics(const std::string& from, const std::string& to, std::int64_t step) {
  std::string text;
  for (const Json& row : read_metrics(from)) {
    if (row["step"].get<std::int64_t>() <= step) text += row.dump() + "\n";
  }
  write_atomically(to, text);
}

}  // namespace asup::report
