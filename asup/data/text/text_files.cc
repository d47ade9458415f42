#include "asup/data/text/text_files.h"

#include <algorithm>
#include <vector>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/data/text/utf8.h"

namespace asup::data {
namespace {

namespace fs = std::filesystem;

std::string read_utf8(const fs::path& file) {
  std::string text = read_file(file.string());
  const auto bad = first_bad_character(text);
  require(!bad,
          "{}: is not UTF-8 text: its byte {} is 0x{:02x}, with which no character goes on or "
          "begins. Convert it first, for example with `iconv -f LATIN1 -t UTF-8`.",
          file.string(), bad.value_or(0), static_cast<unsigned char>(text[bad.value_or(0)]));
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

std::vector<fs::path> text_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error, none;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    if (it->is_regular_file(none) && it->path().extension() == ".txt") files.push_back(it->path());
  require(!error, "{}: cannot be read: {}", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

// In a folder that has files of its own for both; else empty.
fs::path file_of_split(const fs::path& folder, Split split) {
  const fs::path train = folder / "train.txt";
  std::error_code none;
  for (const char* name : {"test.txt", "valid.txt"})
    if (fs::exists(train, none) && fs::exists(folder / name, none))
      return split == Split::train ? train : folder / name;
  return {};
}

std::string read_folder(const fs::path& folder) {
  std::string text;
  const auto files = text_files_in(folder);
  require(!files.empty(),
          "{}: holds no text: no file in it ends in .txt. Give a file, or a folder of .txt files.",
          folder.string());
  for (const fs::path& file : files) text += read_utf8(file);
  return text;
}

void require_text(const std::string& text, const fs::path& path) {
  require(!text.empty(), "{}: is empty: there is no text to train on or to test with",
          path.string());
}

}  // namespace

std::string read_text(const fs::path& path, Split split, double test_share) {
  std::error_code none;
  require(fs::exists(path, none),
          "text:{}: there is no such file or folder. Give the path of a text, or of a folder of "
          ".txt files.",
          path.string());
  const bool is_folder = fs::is_directory(path, none);
  if (const fs::path own = is_folder ? file_of_split(path, split) : fs::path(); !own.empty()) {
    std::string text = read_utf8(own);
    require_text(text, own);
    return text;
  }
  std::string text = is_folder ? read_folder(path) : read_utf8(path);
  require_text(text, path);
  const auto share = static_cast<std::size_t>(static_cast<double>(text.size()) * test_share);
  const std::size_t cut = character_start(text, text.size() - share);
  if (split == Split::test) return text.substr(cut);
  text.resize(cut);
  return text;
}

}  // namespace asup::data
