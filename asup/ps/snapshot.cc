#include "asup/ps/snapshot.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"

namespace asup::ps {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

// Mixes 64 bits at a time; finds what disks and copies do to files, not what people do.
std::uint64_t checksum(std::uint64_t sum, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (; bytes > 0;) {
    std::uint64_t word = 0;
    const std::size_t count = std::min(bytes, sizeof word);
    std::memcpy(&word, at, count);
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 29;
    at += count;
    bytes -= count;
  }
  return sum;
}

json header_of(const Shard& shard, std::uint64_t version) {
  json segments = json::array();
  for (const auto& segment : shard.segments())
    segments.push_back({segment.range.begin, segment.range.end, segment.updates});
  return {{"asup_shard", kFormat},    {"begin", shard.range().begin},
          {"end", shard.range().end}, {"rule", kernels::describe(shard.rule())},
          {"version", version},       {"segments", segments}};
}

// Only system calls: this is the child of a process with many threads.
bool write_all(int fd, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

// Returns errno, or 0.
int write_file(const char* file, const char* unfinished, const std::string& header,
               const Shard& shard) {
  const int fd = ::open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  const std::size_t bytes = shard.range().size() * sizeof(float);
  std::uint64_t sum = checksum(0, header.data(), header.size());
  bool good = write_all(fd, header.data(), header.size());
  good = good && write_all(fd, shard.parameters(), bytes);
  sum = checksum(sum, shard.parameters(), bytes);
  for (const Floats& slot : shard.state()) {
    good = good && write_all(fd, slot.data(), bytes);
    sum = checksum(sum, slot.data(), bytes);
  }
  good = good && write_all(fd, &sum, sizeof sum);
  good = good && ::fsync(fd) == 0 && ::close(fd) == 0 && ::rename(unfinished, file) == 0;
  if (good) return 0;
  const int error = errno;
  ::unlink(unfinished);
  return error;
}

struct SavedShard {
  std::string file;
  json header;
  std::streamoff data = 0;  // where it begins
  Range range;
};

SavedShard open_shard(const std::filesystem::path& file) {
  SavedShard saved;
  saved.file = file.string();
  std::ifstream in(file, std::ios::binary);
  std::string line;
  std::getline(in, line);
  try {
    saved.header = json::parse(line);
    require(saved.header.at("asup_shard") == kFormat, "{}: format {} is not known here", saved.file,
            saved.header.at("asup_shard").dump());
    saved.range = {saved.header.at("begin"), saved.header.at("end")};
  } catch (const json::exception&) {
    throw BadInput(fmt::format("{}: not a shard that a server of asup saved", saved.file));
  }
  saved.data = static_cast<std::streamoff>(line.size()) + 1;
  const std::uint64_t slots =
      kernels::state_slots(kernels::parse_rule(saved.header.at("rule").get<std::string>()));
  const std::uint64_t whole = static_cast<std::uint64_t>(saved.data) +
                              saved.range.size() * sizeof(float) * (1 + slots) +
                              sizeof(std::uint64_t);
  const std::uint64_t there = std::filesystem::file_size(file);
  require(there == whole, "{}: has {} bytes, and should have {}: it was cut short or damaged",
          saved.file, there, whole);
  return saved;
}

void require_checksum(const SavedShard& saved) {
  std::ifstream in(saved.file, std::ios::binary);
  std::vector<char> block(std::size_t{1} << 20);
  std::uint64_t left = std::filesystem::file_size(saved.file) - sizeof(std::uint64_t);
  std::uint64_t sum = 0;
  const auto take = [&](std::uint64_t bytes) {
    in.read(block.data(), static_cast<std::streamsize>(bytes));
    sum = checksum(sum, block.data(), bytes);
    left -= bytes;
  };
  // In the writer's pieces: a piece's last word may be a short one.
  take(std::min<std::uint64_t>(left, static_cast<std::uint64_t>(saved.data)));
  for (std::uint64_t piece = saved.range.size() * sizeof(float); left > 0;)
    for (std::uint64_t of_piece = piece; of_piece > 0;) {
      const std::uint64_t bytes = std::min<std::uint64_t>(of_piece, block.size());
      take(bytes);
      of_piece -= bytes;
    }
  std::uint64_t stored = 0;
  in.read(reinterpret_cast<char*>(&stored), sizeof stored);
  require(in.good() && stored == sum, "{}: the checksum is wrong: the file is damaged", saved.file);
}

std::vector<SavedShard> find_shards(const std::string& path) {
  std::vector<SavedShard> found;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string prefix = std::filesystem::path(path).filename().string() + ".shard-";
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.empty() ? "." : folder, error))
    if (const auto name = entry.path().filename().string();
        name.starts_with(prefix) && !name.ends_with(".unfinished"))
      found.push_back(open_shard(entry.path()));
  require(!found.empty(), "there are no files {}.shard-… to resume the servers from", path);
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
  return found;
}

void read_overlap(const SavedShard& saved, Range range, Shard& shard) {
  std::ifstream in(saved.file, std::ios::binary);
  const auto read_row = [&](std::uint64_t row, float* into) {
    const std::uint64_t element = row * saved.range.size() + (range.begin - saved.range.begin);
    in.seekg(saved.data + static_cast<std::streamoff>(element * sizeof(float)));
    in.read(reinterpret_cast<char*>(into + (range.begin - shard.range().begin)),
            static_cast<std::streamsize>(range.size() * sizeof(float)));
  };
  read_row(0, shard.parameters());
  for (std::size_t slot = 0; slot < shard.state().size(); ++slot)
    read_row(slot + 1, shard.state()[slot].data());
  require(in.good(), "{}: cannot be read", saved.file);
  for (const json& segment : saved.header.at("segments"))
    for (Shard::Segment& own : shard.segments())
      if (Range{segment.at(0), segment.at(1)}.contains({own.range.begin, own.range.begin + 1}))
        own.updates = segment.at(2);
}

}  // namespace

std::string shard_file(const std::string& path, int server, int servers) {
  return fmt::format("{}.shard-{}-of-{}", path, server, servers);
}

Snapshot::Snapshot(const Shard& shard, std::uint64_t version, std::string file)
    : file_(std::move(file)) {
  const std::string header = header_of(shard, version).dump() + "\n";
  const std::string unfinished = file_ + ".unfinished";
  child_ = fork();
  check(child_ >= 0, "cannot start a process that writes {}: {}", file_, std::strerror(errno));
  if (child_ == 0) _exit(write_file(file_.c_str(), unfinished.c_str(), header, shard));
}

Snapshot::~Snapshot() {
  if (child_ < 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

std::optional<std::string> Snapshot::look() {
  int status = 0;
  const pid_t ended = waitpid(child_, &status, WNOHANG);
  if (ended == 0) return std::nullopt;
  child_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  if (WIFEXITED(status)) return fmt::format("{}: {}", file_, std::strerror(WEXITSTATUS(status)));
  return fmt::format("{}: the process that wrote it was ended by signal {}", file_,
                     WTERMSIG(status));
}

std::uint64_t load_shard(Shard& shard, const std::string& path, std::uint64_t elements) {
  const std::vector<SavedShard> files = find_shards(path);
  const json& first = files.front().header;
  std::uint64_t at = 0;
  for (const SavedShard& saved : files) {
    require(saved.range.begin == at,
            "{}: begins at element {}, and the one before it ends at {}: "
            "files of several savings, or one is missing",
            saved.file, saved.range.begin, at);
    require(saved.header.at("version") == first.at("version"),
            "{}: is of version {}, {} of version {}", saved.file, saved.header.at("version").dump(),
            files.front().file, first.at("version").dump());
    require(saved.header.at("rule") == kernels::describe(shard.rule()),
            "{}: was trained by '{}', this job trains by '{}'", saved.file,
            saved.header.at("rule").get<std::string>(), kernels::describe(shard.rule()));
    at = saved.range.end;
  }
  require(at == elements, "{}…: has {} parameters, the model has {}", path, at, elements);
  for (const SavedShard& saved : files)
    if (const Range range = intersection(saved.range, shard.range()); !range.empty()) {
      require_checksum(saved);
      read_overlap(saved, range, shard);
    }
  return first.at("version");
}

}  // namespace asup::ps
