#include "asup/data/image_files_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "asup/base/error.h"
#include "asup/data/augment.h"
#include "asup/data/broken_samples.h"
#include "asup/data/image/files.h"
#include "asup/data/image/survey.h"
#include "asup/data/image/workspace.h"
#include "asup/data/parallel_for.h"

namespace asup::data {
namespace {

using image::Crop;
using image::Size;

constexpr std::size_t kMostInARow = 1000;  // broken files, before the data set is given up
constexpr std::string_view kFolderName = "imagefolder:", kShardsName = "shards:";

class ImageFilesDataset : public Dataset {
 public:
  ImageFilesDataset(const ImageFilesPlace& place, Split split, const DatasetOptions& options)
      : place_(place),
        split_(split),
        files_(open_files(place, split)),
        augment_(split == Split::train ? options.augment : AugmentOptions{}),
        seed_(options.seed),
        given_(options.normalisation),
        parallel_for_(options.threads) {
    output_ = options.image_size > 0 ? Size{options.image_size, options.image_size}
                                     : image::find_size(train_files(), place.folder);
    resized_ = options.image_size > 0 ? image::resized_side(options.image_size)
                                      : std::min(output_.width, output_.height);
    check_shift(augment_.shift, output_.height, output_.width);
    (void)changer_for(given_.value_or(Normalisation{{0, 0, 0}, {1, 1, 1}}));
  }

  std::size_t size() const override { return files_->size(); }
  std::vector<std::int64_t> input_shape() const override {
    return {3, output_.height, output_.width};
  }
  int classes() const override { return static_cast<int>(files_->classes().size()); }
  std::string name() const override { return place_.folder; }
  Normalisation normalisation() const override { return levels().normalisation; }
  std::vector<std::string> class_names() const override { return files_->classes(); }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> labels(size());
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = files_->label(i);
    return labels;
  }
  std::vector<std::int64_t> broken() const override { return broken_.all(); }
  std::string note() const override { return levels().note; }

 private:
  // How pixels are taken. It may have to be measured, which who only looks at the folder is spared.
  struct LevelsOfImages {
    Normalisation normalisation;
    image::Levels of_bytes;
    std::optional<ImageChanger> changer;
    std::string note;
  };

  Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Batch batch{blank({count, 3, output_.height, output_.width}), blank({count}, torch::kInt64)};
    if (indices.empty()) return batch;
    float* const images = batch.input.mutable_data_ptr<float>();
    auto* const labels = batch.target.mutable_data_ptr<std::int64_t>();
    const auto image_size = static_cast<std::size_t>(batch.input[0].numel());
    const LevelsOfImages& taken_by = levels();
    parallel_for_(indices.size(), [&](std::size_t i) {
      labels[i] = make_sample(static_cast<std::size_t>(indices[i]), epoch, taken_by,
                              images + i * image_size);
    });
    return batch;
  }

  // Returns its label. What is drawn for a sample depends on its own index, whichever file is
  // taken.
  int make_sample(std::size_t index, std::uint64_t epoch, const LevelsOfImages& taken_by,
                  float* out) const {
    const auto space = workspaces_.take();
    const std::size_t most = std::min(kMostInARow, size());
    for (std::size_t file = index, tried = 1;; file = (file + 1) % size(), ++tried) try {
        make_image(file, Random(seed_, epoch, index), taken_by, *space, out);
        return files_->label(file);
      } catch (const image::BrokenImage& error) {
        broken_.add(file, files_->name(file), error.what());
        require(tried < most, "{}: {} images in a row are broken; the last: {} {}", place_.folder,
                tried, files_->name(file), error.what());
      }
  }

  void make_image(std::size_t file, Random random, const LevelsOfImages& taken_by,
                  image::Workspace& space, float* out) const {
    files_->read(file, space.bytes);
    const Size picture = space.open();
    const Shift shift = draw_shift(augment_, random);
    const Crop crop = sample_crop(picture, augment_.crop, resized_, output_, random);
    space.render(picture, crop, {shift.down, shift.right, shift.mirror, augment_.black},
                 taken_by.of_bytes, out);
    taken_by.changer->change(out, random);
  }

  // Opened with the first call where these are others. needs: the constructor, or levels_once_.
  const image::Files& train_files() const {
    if (split_ == Split::train) return *files_;
    if (!train_) train_ = open_files(place_, Split::train);
    return *train_;
  }

  ImageChanger changer_for(const Normalisation& normalisation) const {
    return {augment_, input_shape(), normalisation, name()};
  }

  const LevelsOfImages& levels() const {
    std::call_once(levels_once_, [this] { levels_.emplace(find_levels()); });
    return *levels_;
  }

  LevelsOfImages find_levels() const {
    LevelsOfImages found;
    if (given_) {
      found.normalisation = *given_;
    } else {
      const auto measured = image::measure_levels(
          train_files(), place_.folder, output_,
          [this](Size size) { return fixed_crop(size, resized_, output_); }, workspaces_,
          parallel_for_);
      found.normalisation = measured.normalisation;
      found.note = fmt::format(
          "images are normalised by mean {:.4f} and deviation {:.4f}, measured on {} of {} "
          "training images",
          fmt::join(measured.normalisation.mean, " "),
          fmt::join(measured.normalisation.deviation, " "), measured.samples, train_files().size());
    }
    for (std::size_t c = 0; c < 3; ++c) {
      const double mean = found.normalisation.mean[c], deviation = found.normalisation.deviation[c];
      found.of_bytes.gain[c] = static_cast<float>(1 / (255 * deviation));
      found.of_bytes.offset[c] = static_cast<float>(-mean / deviation);
    }
    found.changer.emplace(changer_for(found.normalisation));
    return found;
  }

  // Constant after construction.
  const ImageFilesPlace place_;
  const Split split_;
  const std::unique_ptr<image::Files> files_;
  const AugmentOptions augment_;
  const std::uint64_t seed_;
  const std::optional<Normalisation> given_;
  Size output_;
  int resized_ = 0;  // the shorter side, before the middle is cut out

  // Safe from any thread.
  mutable ParallelFor parallel_for_;
  mutable image::Workspaces workspaces_;
  mutable BrokenSamples broken_;

  mutable std::once_flag levels_once_;
  mutable std::unique_ptr<image::Files> train_;   // by train_files()
  mutable std::optional<LevelsOfImages> levels_;  // set once
};

}  // namespace

std::optional<ImageFilesPlace> find_image_files(const std::string& name) {
  if (name.starts_with(kFolderName)) return ImageFilesPlace{name.substr(kFolderName.size()), false};
  if (name.starts_with(kShardsName)) return ImageFilesPlace{name.substr(kShardsName.size()), true};
  if (image::is_shard_folder(name)) return ImageFilesPlace{name, true};
  if (image::is_image_folder(name)) return ImageFilesPlace{name, false};
  return std::nullopt;
}

std::unique_ptr<image::Files> open_files(const ImageFilesPlace& place, Split split) {
  return place.shards ? image::open_shards(place.folder, split)
                      : image::open_image_folder(place.folder, split);
}

std::unique_ptr<Dataset> open_image_files(const ImageFilesPlace& place, Split split,
                                          const DatasetOptions& options) {
  require(!options.normalisation || (options.normalisation->mean.size() == 3 &&
                                     options.normalisation->deviation.size() == 3),
          "{} has images of 3 channels, which cannot be normalised as images of {}", place.folder,
          options.normalisation ? options.normalisation->mean.size() : 0);
  return std::make_unique<ImageFilesDataset>(place, split, options);
}

}  // namespace asup::data
