// How libjpeg's errors come back to who called it: an exception cannot leave through its frames, so
// that error_exit keeps the message and jumps to `escape`. For files that need libjpeg anyway.
#pragma once

// clang-format off
#include <cstdio>  // jpeglib.h wants FILE
#include <jpeglib.h>
// clang-format on

#include <array>
#include <csetjmp>

namespace asup::data::image {

struct JpegErrors : jpeg_error_mgr {
  JpegErrors() : jpeg_error_mgr{} {
    jpeg_std_error(this);
    error_exit = leave;
  }

  // Nothing that has a destructor may be alive between here and setjmp(escape).
  [[noreturn]] static void leave(j_common_ptr info) {
    auto* errors = static_cast<JpegErrors*>(info->err);
    errors->format_message(info, errors->message.data());
    std::longjmp(errors->escape, 1);
  }

  std::jmp_buf escape;
  std::array<char, JMSG_LENGTH_MAX> message{};
};

}  // namespace asup::data::image
