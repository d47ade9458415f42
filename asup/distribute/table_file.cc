#include "asup/distribute/table_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/json.h"
#include "asup/base/numbers.h"

namespace asup {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kMostHeader = 1 << 20;  // bytes

std::vector<const char*> names_of_tensors(const ps::table::TableSetup& setup) {
  if (setup.rule.kind == kernels::Rule::Kind::adam) return {"weight", "exp_avg", "exp_avg_sq"};
  if (setup.rule.kind == kernels::Rule::Kind::adagrad) return {"weight", "sum"};
  return {"weight"};
}

std::uint64_t tensor_bytes(const ps::table::TableSetup& setup) {
  return setup.rows * setup.width * sizeof(float);
}

std::string front_of(const ps::table::TableSetup& setup, double steps) {
  ordered_json header;
  header["__metadata__"] = {{"asup", "embedding table"},
                            {"name", setup.name},
                            {"rule", kernels::describe(setup.rule)},
                            {"steps", fmt::format("{}", steps)}};
  std::uint64_t begin = 0;
  for (const char* name : names_of_tensors(setup)) {
    const std::uint64_t end = begin + tensor_bytes(setup);
    header[name] = {
        {"dtype", "F32"}, {"shape", {setup.rows, setup.width}}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = text.size();
  std::string front(sizeof size, '\0');
  std::memcpy(front.data(), &size, sizeof size);
  return front + text;
}

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(fmt::format("{}: cannot {} the table: {}", path, what, std::strerror(errno)));
}

void write_at(int fd, const std::string& path, const void* data, std::size_t bytes,
              std::uint64_t at) {
  for (const char* from = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t done = ::pwrite(fd, from, bytes, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail(path, "write");
    from += done;
    at += static_cast<std::uint64_t>(done);
    bytes -= static_cast<std::size_t>(done);
  }
}

void read_at(int fd, const std::string& path, void* data, std::size_t bytes, std::uint64_t at) {
  for (char* to = static_cast<char*>(data); bytes > 0;) {
    const ssize_t done = ::pread(fd, to, bytes, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    require(done >= 0, "{}: cannot read the table: {}", path, std::strerror(errno));
    require(done > 0, "{} is cut short: copy it again", path);
    to += done;
    at += static_cast<std::uint64_t>(done);
    bytes -= static_cast<std::size_t>(done);
  }
}

}  // namespace

TableFile::TableFile(std::string path, const ps::table::TableSetup& setup)
    : path_(std::move(path)), setup_(setup) {}

TableFile::TableFile(TableFile&& other) noexcept
    : path_(other.path_),
      setup_(other.setup_),
      steps_(other.steps_),
      fd_(std::exchange(other.fd_, -1)),
      is_new_(std::exchange(other.is_new_, false)),
      begins_(std::move(other.begins_)) {}

TableFile::~TableFile() {
  if (fd_ >= 0) ::close(fd_);
  if (is_new_) ::unlink(temporary_path(path_).c_str());
}

TableFile TableFile::create(const std::string& path, const ps::table::TableSetup& setup,
                            double steps) {
  TableFile file(path, setup);
  file.fd_ = ::open(temporary_path(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file.fd_ < 0) fail(path, "write");
  file.is_new_ = true;
  const std::string front = front_of(setup, steps);
  write_at(file.fd_, path, front.data(), front.size(), 0);
  for (std::size_t i = 0; i < names_of_tensors(setup).size(); ++i)
    file.begins_.push_back(front.size() + i * tensor_bytes(setup));
  return file;
}

TableFile TableFile::open(const std::string& path, const ps::table::TableSetup& setup) {
  TableFile file(path, setup);
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(file.fd_ >= 0, "{}: cannot read the table {}: {}", path, setup.name,
          std::strerror(errno));
  file.read_header();
  return file;
}

void TableFile::read_header() try {
  std::uint64_t size = 0;
  read_at(fd_, path_, &size, sizeof size, 0);
  require(size <= kMostHeader, "{} is no safetensors file", path_);
  std::string text(size, '\0');
  read_at(fd_, path_, text.data(), size, sizeof size);
  const ordered_json header = try_json<ordered_json>(text);
  const std::string rule = header.at("__metadata__").at("rule");
  require(rule == kernels::describe(setup_.rule),
          "{} was trained by '{}', and table {} is trained by '{}'", path_, rule, setup_.name,
          kernels::describe(setup_.rule));
  const auto steps = number_in<double>(header.at("__metadata__").at("steps").get<std::string>());
  require(steps && *steps >= 0, "{} does not say how many steps it has had", path_);
  steps_ = *steps;
  const ordered_json shape = {setup_.rows, setup_.width};
  struct stat about {};
  require(::fstat(fd_, &about) == 0, "{}: {}", path_, std::strerror(errno));
  const std::uint64_t data = static_cast<std::uint64_t>(about.st_size) - sizeof size - text.size();
  for (const char* name : names_of_tensors(setup_)) {
    const ordered_json& tensor = header.at(name);
    require(tensor.at("dtype") == "F32" && tensor.at("shape") == shape,
            "{} has {} as {} of {}, and table {} is of {}", path_, name, tensor.at("shape").dump(),
            tensor.at("dtype").dump(), setup_.name, shape.dump());
    const std::uint64_t begin = tensor.at("data_offsets").at(0);
    require(tensor_bytes(setup_) <= data && begin <= data - tensor_bytes(setup_),
            "{} is cut short: copy it again", path_);
    begins_.push_back(sizeof size + text.size() + begin);
  }
} catch (const ordered_json::exception& error) {
  throw BadInput(
      fmt::format("{} is no embedding table that asup has saved: {}", path_, error.what()));
}

std::uint64_t TableFile::place_of(std::size_t tensor, std::uint64_t row) const {
  return begins_[tensor] + row * setup_.width * sizeof(float);
}

void TableFile::write(layout::Range rows, const float* records) {
  const std::size_t width = setup_.width, record = width * begins_.size();
  plain_.resize(rows.size() * width);
  for (std::size_t tensor = 0; tensor < begins_.size(); ++tensor) {
    for (std::size_t row = 0; row < rows.size(); ++row)
      std::memcpy(plain_.data() + row * width, records + row * record + tensor * width,
                  width * sizeof(float));
    write_at(fd_, path_, plain_.data(), plain_.size() * sizeof(float),
             place_of(tensor, rows.begin));
  }
}

void TableFile::read(layout::Range rows, float* records) {
  const std::size_t width = setup_.width, record = width * begins_.size();
  plain_.resize(rows.size() * width);
  for (std::size_t tensor = 0; tensor < begins_.size(); ++tensor) {
    read_at(fd_, path_, plain_.data(), plain_.size() * sizeof(float), place_of(tensor, rows.begin));
    for (std::size_t row = 0; row < rows.size(); ++row)
      std::memcpy(records + row * record + tensor * width, plain_.data() + row * width,
                  width * sizeof(float));
  }
}

void TableFile::finish() {
  if (::fsync(fd_) != 0) fail(path_, "write");
  if (::rename(temporary_path(path_).c_str(), path_.c_str()) != 0) fail(path_, "write");
  is_new_ = false;
}

}  // namespace asup
