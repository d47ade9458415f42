// The part of files.h about tar archives.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "asup/base/error.h"
#include "asup/data/image/decoder.h"
#include "asup/data/image/files.h"
#include "asup/data/image/formats.h"
#include "asup/data/image/tar.h"

namespace asup::data::image {
namespace {

namespace fs = std::filesystem;

constexpr int kMostClasses = 65536;

// split-….tar, in the order of their names.
std::vector<fs::path> shards_in(const fs::path& folder, const std::string& split) {
  std::vector<fs::path> shards;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(split + "-") && name.ends_with(".tar")) shards.push_back(at->path());
  }
  require(!error, "{} cannot be looked into: {}", folder.string(), error.message());
  std::sort(shards.begin(), shards.end());
  return shards;
}

struct Image {
  std::uint64_t offset = 0, size = 0;
  std::uint32_t shard = 0, label = 0;
};

// Puts the members of one shard together: those of a sample follow each other.
class ShardIndex {
 public:
  ShardIndex(const OpenFile& file, fs::path path, std::uint32_t shard, std::vector<Image>& images)
      : file_(file), path_(std::move(path)), shard_(shard), images_(images) {
    read_tar(file, path_, [this](const TarMember& member) { take(member); });
    end_sample();
  }

 private:
  // WebDataset: the key goes to the first dot of the name, folders included, and what follows says
  // what a member is: a.jpg is the image of a, and a.seg.png is something else. Hidden files are
  // left out.
  void take(const TarMember& member) {
    const std::string_view name = member.name;
    const auto slash = name.rfind('/');
    const auto begin = slash == std::string_view::npos ? 0 : slash + 1;
    const auto dot = name.find('.', begin);
    if (dot == std::string_view::npos || dot == begin) return;
    const std::string_view key = name.substr(0, dot), ending = name.substr(dot + 1);
    if (key != key_) {
      end_sample();
      key_ = key;
    }
    if (ending == "cls") label_ = read_label(member);
    if (!is_image_ending(ending)) return;
    decoders_.check_reads(name);
    image_ = {member.offset, member.size, shard_, 0};
  }

  void end_sample() {
    require(!image_ || label_,
            "{}: {} has an image and no class: put the class's number into {}.cls", path_.string(),
            key_, key_);
    require(image_ || !label_, "{}: {}.cls has no image beside it (.jpg, .jpeg or .png)",
            path_.string(), key_);
    if (image_) {
      image_->label = *label_;
      images_.push_back(*image_);
    }
    image_.reset();
    label_.reset();
  }

  std::uint32_t read_label(const TarMember& member) const {
    std::string text(std::min<std::uint64_t>(member.size, 32), '\0');
    file_.read(member.offset, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
      text.pop_back();
    std::uint32_t label = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
    require(error == std::errc() && end == text.data() + text.size() && label < kMostClasses,
            "{}: {} holds '{}', and not the number of a class, 0 … {}", path_.string(), member.name,
            text, kMostClasses - 1);
    return label;
  }

  const OpenFile& file_;
  const fs::path path_;
  const std::uint32_t shard_;
  std::vector<Image>& images_;
  const Decoders decoders_;
  // The sample that its members are being met of.
  std::string key_;
  std::optional<Image> image_;
  std::optional<std::uint32_t> label_;
};

class ShardFiles : public Files {
 public:
  explicit ShardFiles(std::vector<fs::path> shards) : paths_(std::move(shards)) {
    for (std::size_t shard = 0; shard < paths_.size(); ++shard) add(shard);
    images_.shrink_to_fit();
    require(!images_.empty(), "{} and the shards beside it hold no images",
            paths_.front().string());
  }

  int most() const {
    const auto below = [](const Image& a, const Image& b) { return a.label < b.label; };
    return static_cast<int>(std::max_element(images_.begin(), images_.end(), below)->label);
  }
  void set_classes(int count) {
    classes_.clear();
    for (int i = 0; i < count; ++i) classes_.push_back(fmt::format("{}", i));
  }

  std::size_t size() const override { return images_.size(); }
  int label(std::size_t index) const override { return static_cast<int>(images_[index].label); }
  std::string name(std::size_t index) const override {
    const Image& image = images_[index];
    return fmt::format("{} (the image at byte {})", paths_[image.shard].string(), image.offset);
  }
  const std::vector<std::string>& classes() const override { return classes_; }

  void read(std::size_t index, std::vector<std::uint8_t>& bytes) const override try {
    const Image& image = images_[index];
    if (image.size > kLargestFile) throw BrokenImage("is larger than a gigabyte");
    const OpenFile file(paths_[image.shard]);
    bytes.resize(image.size);
    if (file.read(image.offset, bytes) < image.size)
      throw BrokenImage("is cut short: the archive has changed");
  } catch (const std::system_error& error) {
    throw BrokenImage(fmt::format("cannot be read: {}", error.code().message()));
  }

 private:
  void add(std::size_t shard) try {
    const OpenFile file(paths_[shard]);
    ShardIndex(file, paths_[shard], static_cast<std::uint32_t>(shard), images_);
  } catch (const std::system_error& error) {
    throw BadInput(
        fmt::format("{} cannot be read: {}", paths_[shard].string(), error.code().message()));
  }

  // By shard. None stays open: there may be more than a process may have open at once.
  const std::vector<fs::path> paths_;
  std::vector<Image> images_;
  std::vector<std::string> classes_;
};

// val-….tar, or else test-….tar.
std::vector<fs::path> test_shards(const fs::path& folder) {
  for (const char* split : {"val", "test"})
    if (auto shards = shards_in(folder, split); !shards.empty()) return shards;
  throw BadInput(fmt::format(
      "{} has training images in train-….tar, but neither val-….tar nor test-….tar to test on",
      folder.string()));
}

}  // namespace

bool is_shard_folder(const fs::path& folder) {
  std::error_code none;
  return fs::is_directory(folder, none) && !shards_in(folder, "train").empty();
}

// The training images say how many classes there are.
std::unique_ptr<Files> open_shards(const fs::path& folder, Split split) {
  std::error_code none;
  require(fs::is_directory(folder, none), "{}: there is no such folder", folder.string());
  const auto shards = shards_in(folder, "train"), tests = test_shards(folder);
  require(!shards.empty(), "{} has no train-….tar, like train-000000.tar", folder.string());
  auto train = std::make_unique<ShardFiles>(shards);
  const int classes = train->most() + 1;
  if (split == Split::train) {
    train->set_classes(classes);
    return train;
  }
  auto test = std::make_unique<ShardFiles>(tests);
  require(test->most() < classes,
          "{} has images of class {} to test on, and training images have classes 0 … {} only",
          folder.string(), test->most(), classes - 1);
  test->set_classes(classes);
  return test;
}

}  // namespace asup::data::image
