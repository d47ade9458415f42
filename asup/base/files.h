// Whole files: read at once, and written so that a reader, or a crash, never meets half of one.
// Safe from any thread, for different paths.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace asup {

// Throws BadInput with the path and the reason.
std::string read_file(const std::string& path);

// Writes the parts, one after the other, to a temporary file of its own beside `path`, syncs it and
// renames it to `path`. Throws Error with the path and the reason (a full disk, a folder that may
// not be written); what was at `path` is untouched then.
void write_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_atomically(const std::string& path, std::string_view text);

// $XDG_CACHE_HOME/asup, else ~/.cache/asup: for what may be lost. Empty where neither is set.
std::string user_cache_folder();

// Writes and syncs them to `path` itself, of which a crash may leave half. Throws Error, and leaves
// nothing there then.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);

// Beside `path`, for what is to become it.
std::string temporary_path(const std::string& path);

}  // namespace asup
