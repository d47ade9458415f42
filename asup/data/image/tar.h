// The members of a tar archive: what they are called and where their bytes lie. Reads headers
// alone: ustar, and the extensions of GNU and POSIX (pax) for long names and large members. Used
// from one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "asup/data/image/open_file.h"

namespace asup::data::image {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0, size = 0;  // of its bytes
};

// Calls `take` for each plain file in it, in order. Throws BadInput, with `path`, for an archive
// that is cut short, damaged or no archive.
void read_tar(const OpenFile& file, const std::filesystem::path& path,
              const std::function<void(const TarMember&)>& take);

}  // namespace asup::data::image
