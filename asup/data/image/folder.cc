// The part of files.h about folders.
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include "asup/base/error.h"
#include "asup/data/image/files.h"
#include "asup/data/image/formats.h"
#include "asup/data/image/open_file.h"

namespace asup::data::image {
namespace {

namespace fs = std::filesystem;

// Sorted by name; hidden ones left out.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) try {
  std::vector<fs::directory_entry> entries;
  for (const auto& entry : fs::directory_iterator(folder))
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry);
  std::sort(entries.begin(), entries.end());
  return entries;
} catch (const fs::filesystem_error& error) {
  throw BadInput(
      fmt::format("{} cannot be looked into: {}", folder.string(), error.code().message()));
}

std::vector<std::string> classes_in(const fs::path& folder) {
  std::vector<std::string> classes;
  std::error_code none;
  for (const auto& entry : entries_of(folder))
    if (entry.is_directory(none)) classes.push_back(entry.path().filename().string());
  require(!classes.empty(),
          "{} holds no folders: put the images of each class into a folder that is named after it, "
          "as in {}/CLASS/picture.jpg",
          folder.string(), folder.string());
  return classes;
}

// Images in a class's folder and the folders in it, in the order of their paths.
class Walk {
 public:
  explicit Walk(fs::path root) : root_(std::move(root)) { enter(root_); }

  std::vector<std::string> found;  // paths, from the class's folder on
  std::string other;               // the last file that is no image, by its name
  std::size_t others = 0;

 private:
  // Links are followed, as long as they do not lead back to where they come from.
  void enter(const fs::path& folder) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    require(!error, "{} cannot be looked into: {}", folder.string(), error.message());
    require(std::find(above_.begin(), above_.end(), real) == above_.end(),
            "{} is a link that leads back to {}, so that there is no end to the images in it: "
            "remove the link",
            folder.string(), real.string());
    above_.push_back(real);
    for (const auto& entry : entries_of(folder)) take(entry);
    above_.pop_back();
  }

  void take(const fs::directory_entry& entry) {
    std::error_code none;
    const std::string file = entry.path().filename().string();
    if (entry.is_directory(none)) return enter(entry.path());
    if (has_image_name(file)) {
      decoders_.check_reads(file);
      found.push_back(entry.path().lexically_relative(root_).string());
    } else {
      other = file;
      ++others;
    }
  }

  const fs::path root_;
  const Decoders decoders_;
  std::vector<fs::path> above_;  // the folders it is in
};

class FolderFiles : public Files {
 public:
  FolderFiles(fs::path folder, std::vector<std::string> classes)
      : folder_(std::move(folder)), classes_(std::move(classes)) {
    for (const std::string& name : classes_) {
      add(Walk(folder_ / name), name);
      ends_.push_back(offsets_.size());
    }
    offsets_.push_back(names_.size());
  }

  std::size_t size() const override { return ends_.back(); }
  int label(std::size_t index) const override {
    return static_cast<int>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  }
  std::string name(std::size_t index) const override {
    const auto& in_class = classes_[static_cast<std::size_t>(label(index))];
    const auto file = names_.substr(offsets_[index], offsets_[index + 1] - offsets_[index]);
    return fmt::format("{}/{}/{}", folder_.string(), in_class, file);
  }
  const std::vector<std::string>& classes() const override { return classes_; }

  void read(std::size_t index, std::vector<std::uint8_t>& bytes) const override try {
    const OpenFile file(name(index));
    if (file.size() > kLargestFile) throw BrokenImage("is larger than a gigabyte");
    bytes.resize(file.size());
    bytes.resize(file.read(0, bytes));
  } catch (const std::system_error& error) {
    throw BrokenImage(fmt::format("cannot be read: {}", error.code().message()));
  }

 private:
  void add(const Walk& walk, const std::string& name) {
    require(!walk.found.empty(),
            "{} holds no images (.jpg, .jpeg or .png){}: put those of the class '{}' there, or "
            "remove the folder",
            (folder_ / name).string(),
            walk.others > 0 ? fmt::format(", but {} other files, like {}", walk.others, walk.other)
                            : "",
            name);
    for (const std::string& file : walk.found) {
      offsets_.push_back(names_.size());
      names_ += file;
    }
  }

  const fs::path folder_;
  const std::vector<std::string> classes_;
  // A million names in one text take a tenth of the memory of a million texts.
  std::string names_;
  std::vector<std::size_t> offsets_;  // of each name
  std::vector<std::size_t> ends_;     // of each class, counted in files
};

std::vector<std::string> missing_of(const std::vector<std::string>& wanted,
                                    const std::vector<std::string>& there) {
  std::vector<std::string> missing;
  std::set_difference(wanted.begin(), wanted.end(), there.begin(), there.end(),
                      std::back_inserter(missing));
  if (missing.size() > 5) {
    const auto more = missing.size() - 5;
    missing.resize(5);
    missing.push_back(fmt::format("{} more", more));
  }
  return missing;
}

// A class means the same number in both.
void check_same(const fs::path& train, const std::vector<std::string>& train_classes,
                const fs::path& test, const std::vector<std::string>& test_classes) {
  const auto unknown = missing_of(test_classes, train_classes);
  require(unknown.empty(), "{} has classes that {} does not have: {}. Both need the same folders",
          test.string(), train.string(), fmt::join(unknown, ", "));
  const auto missing = missing_of(train_classes, test_classes);
  require(missing.empty(), "{} lacks classes that {} has: {}. Both need the same folders",
          test.string(), train.string(), fmt::join(missing, ", "));
}

// val, or else test.
fs::path test_folder(const fs::path& folder) {
  std::error_code none;
  for (const char* name : {"val", "test"})
    if (fs::is_directory(folder / name, none)) return folder / name;
  throw BadInput(fmt::format(
      "{} has training images in train/, but neither val/ nor test/ to test on: put a part of each "
      "class's images into {}/val/CLASS",
      folder.string(), folder.string()));
}

void check_has_train(const fs::path& folder) {
  std::error_code none;
  require(fs::is_directory(folder, none), "{}: there is no such folder", folder.string());
  require(fs::is_directory(folder / "train", none),
          "{} has no folder train/: put the training images into {}/train/CLASS, and those to test "
          "on into {}/val/CLASS",
          folder.string(), folder.string(), folder.string());
}

}  // namespace

bool is_image_folder(const fs::path& folder) {
  std::error_code none;
  return fs::is_directory(folder / "train", none);
}

std::unique_ptr<Files> open_image_folder(const fs::path& folder, Split split) {
  check_has_train(folder);
  const fs::path train = folder / "train", test = test_folder(folder);
  auto classes = classes_in(train);
  check_same(train, classes, test, classes_in(test));
  return std::make_unique<FolderFiles>(split == Split::train ? train : test, std::move(classes));
}

}  // namespace asup::data::image
