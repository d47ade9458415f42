#include "asup/cli/failure_note.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "asup/base/fd.h"

namespace asup::cli {
namespace {

constexpr const char* kVariable = "ASUP_TRAIN_FAILURE_NOTE";

}  // namespace

FailureNote::FailureNote() {
  std::error_code error;
  auto pattern = (std::filesystem::temp_directory_path(error) / "asup-train-XXXXXX").string();
  // Without a place the job still says which rank failed.
  if (!error && ::mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
}

FailureNote::~FailureNote() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::string FailureNote::variable() const {
  return std::string(kVariable) + "=" + (folder_.empty() ? "" : folder_ + "/reason");
}

std::string FailureNote::read() const { return read_file("reason"); }

std::string FailureNote::read_of(int pid) const {
  return read_file("reason." + std::to_string(pid));
}

std::string FailureNote::read_file(const std::string& name) const {
  if (folder_.empty()) return "";
  std::ifstream in(folder_ + "/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool FailureNote::leave(const std::string& reason) {
  const char* path = std::getenv(kVariable);
  if (path == nullptr || *path == '\0') return false;
  const std::string own = std::string(path) + "." + std::to_string(::getpid());
  const Fd fd(::open(own.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return false;
  const bool written =
      ::write(fd.get(), reason.data(), reason.size()) == static_cast<ssize_t>(reason.size());
  // A link to an existing name fails: the first reason stays.
  return written && (::link(own.c_str(), path) == 0 || ::access(path, F_OK) == 0);
}

}  // namespace asup::cli
