// A file of events that TensorBoard reads. Used from one thread.
//
// A file is records: 8 bytes of length, a checksum of these, the bytes of an Event, a checksum of
// those; numbers are little-endian. An Event is a message of protocol buffers, of which the few
// fields that a curve and a picture need are written here:
// https://github.com/tensorflow/tensorboard/tree/master/tensorboard/compat/proto (event, summary).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "asup/base/fd.h"
#include "asup/report/png.h"

namespace asup::report {

class EventFile {
 public:
  struct Scalar {
    std::string_view tag;
    double value = 0;
  };

  // Makes a file in `folder` that is read after those that are there, and takes back what they tell
  // of `first_step` and later steps. Throws Error with the path, as the others do, where it cannot
  // be written.
  EventFile(const std::string& folder, std::int64_t first_step);

  void add(std::int64_t step, std::span<const Scalar> scalars);
  void add(std::int64_t step, std::string_view tag, const Picture& picture);

 private:
  void write_event(std::int64_t step, std::string_view fields);
  void write_record(std::string_view event);
  [[noreturn]] void fail(int error) const;

  std::string path_;
  Fd fd_;
};

// Copies the event files of a run folder to another one. Throws Error where they cannot be copied.
void copy_event_files(const std::string& from, const std::string& to);

// CRC-32C (Castagnoli), by which records are checked:
// https://www.rfc-editor.org/rfc/rfc3720#section-12.1
std::uint32_t crc32c(std::string_view bytes);

}  // namespace asup::report
