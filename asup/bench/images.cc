#include "asup/bench/images.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/thread.h"
#include "asup/bench/plain_jpeg.h"
#include "asup/bench/table.h"
#include "asup/data/augment.h"
#include "asup/data/dataset.h"
#include "asup/data/image/files.h"
#include "asup/data/image/workspace.h"
#include "asup/data/image_files_dataset.h"

namespace asup::bench {
namespace {

using nlohmann::json;

constexpr int kMade = 256;           // pictures
constexpr std::size_t kMost = 1024;  // pictures of a round
constexpr std::size_t kBatch = 64;   // pictures of a call, after which another row has its turn
constexpr std::uint64_t kSeed = 1;

// Seconds of this thread on a core: what others do on the machine counts little.
double core_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// What is measured, and the images a second of each round.
struct Row {
  std::string name;
  std::function<void(std::span<const std::int64_t>)> work;
  std::function<double()> clock;
  std::vector<double> rates{};
  double seconds = 0;  // of the round under way

  double median() const {
    std::vector<double> sorted = rates;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

data::DatasetOptions options_of(const ImagesBench& bench, int threads) {
  data::DatasetOptions options{.seed = kSeed};
  options.image_size = bench.size;
  options.threads = threads;
  options.augment.crop = bench.crop;
  options.augment.flip = true;
  options.normalisation = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  return options;
}

// The files in memory, and the scale that the loader decodes each to.
struct Decoding {
  std::vector<std::vector<std::uint8_t>> files;
  std::vector<int> denominators;
  std::vector<std::uint8_t> pixels;

  double kilobytes() const {  // of a file
    double sum = 0;
    for (const auto& file : files) sum += static_cast<double>(file.size());
    return sum / static_cast<double>(files.size()) / 1000;
  }

  void run(std::span<const std::int64_t> indices, bool full) {
    for (const auto index : indices) {
      const auto i = static_cast<std::size_t>(index);
      decode_plain(files[i], full ? 1 : denominators[i], pixels);
    }
  }
};

// The part of the picture that the loader takes, by the same draws.
data::image::Crop crop_of(std::size_t index, data::image::Size picture, const ImagesBench& bench) {
  data::Random random(kSeed, 0, index);
  (void)draw_shift(options_of(bench, 1).augment, random);
  return sample_crop(picture, bench.crop, data::image::resized_side(bench.size),
                     {bench.size, bench.size}, random);
}

// Each is decoded once, by the loader's decoder and by libjpeg-turbo alone.
Decoding read_files(const data::ImageFilesPlace& place, std::size_t count,
                    const ImagesBench& bench) {
  const auto files = open_files(place, data::Split::train);
  Decoding decoding;
  data::image::Workspace space;
  std::vector<float> image(3 * static_cast<std::size_t>(bench.size * bench.size));
  for (std::size_t i = 0; i < count; ++i) try {
      files->read(i, space.bytes);
      const auto picture = space.open();
      const auto crop = crop_of(i, picture, bench);
      space.render(picture, crop, {}, {}, image.data());
      decode_plain(space.bytes, reduction_for(crop), decoding.pixels);
      decoding.denominators.push_back(reduction_for(crop));
      decoding.files.push_back(space.bytes);
    } catch (const data::image::BrokenImage& error) {
      throw BadInput(fmt::format(
          "{} {}. This benchmark needs whole JPEGs, in colours or grey: remove it, or give others",
          files->name(i), error.what()));
    }
  return decoding;
}

// The same images of either loader: threads change nothing.
void check_results(const data::Dataset& one, const data::Dataset& many, std::size_t count) {
  std::vector<std::int64_t> indices(std::min(count, kBatch));
  std::iota(indices.begin(), indices.end(), 0);
  const auto a = one.get(indices), b = many.get(indices);
  check(a.input.equal(b.input) && a.target.equal(b.target), "threads change the images");
  check(torch::isfinite(a.input).all().item<bool>(), "there are values that are no numbers");
}

// All rows go over the same pictures, in turns.
void measure(std::vector<Row>& rows, std::size_t count, int rounds) {
  std::vector<std::int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) row.seconds = 0;
    for (std::size_t begin = 0; begin < count; begin += kBatch) {
      const auto turn = std::span(indices).subspan(begin, std::min(kBatch, count - begin));
      for (Row& row : rows) {
        const double before = row.clock();
        row.work(turn);
        row.seconds += row.clock() - before;
      }
    }
    for (Row& row : rows) row.rates.push_back(static_cast<double>(count) / row.seconds);
  }
}

json print_rows(const std::vector<Row>& rows, double limit) {
  const Table table({{"", -44, 44}, {"images/s", 12, 9}, {"of decoding", 11, 11, 1}}, room_here());
  json all = json::array();
  fmt::print("{}", table.head());
  for (const Row& row : rows) {
    fmt::print("{}", table.row({row.name, fmt::format("{:.1f}", row.median()),
                                fmt::format("{:.2f}", row.median() / limit)}));
    all.push_back({{"name", row.name},
                   {"images_per_s", row.median()},
                   {"of_decoding", row.median() / limit},
                   {"rounds", row.rates}});
  }
  return all;
}

void run_in(const std::string& folder, const ImagesBench& bench) {
  const auto place = data::find_image_files(folder);
  require(place.has_value(), "{} is no folder of images: DIR/train/CLASS/….jpg, or shards", folder);
  const int threads = bench.threads > 0 ? bench.threads : usable_cores();
  const auto one = open_image_files(*place, data::Split::train, options_of(bench, 1));
  const auto many = open_image_files(*place, data::Split::train, options_of(bench, threads));
  const std::size_t count = std::min(one->size(), kMost);
  Decoding decoding = read_files(*place, count, bench);
  check_results(*one, *many, count);
  const auto wall = [start = Clock::now()] { return seconds_since(start); };
  std::vector<Row> rows{
      {"a core: decode alone, as small as the loader",
       [&](auto turn) { decoding.run(turn, false); }, core_seconds},
      {"a core: decode alone, at full size", [&](auto turn) { decoding.run(turn, true); },
       core_seconds},
      {"a core: asup's loader", [&](auto turn) { (void)one->get(turn, 0); }, core_seconds},
      {fmt::format("asup's loader, {} threads, by the clock", threads),
       [&](auto turn) { (void)many->get(turn, 0); }, wall}};
  measure(rows, count, bench.quick ? 3 : 9);
  print_text(fmt::format(
      "{} images of {:.0f} kB on average to {} x {}: crop {}, flip, normalise; a core is a "
      "thread's time on it; medians of {} rounds",
      count, decoding.kilobytes(), bench.size, bench.size, bench.crop, rows.front().rates.size()));
  const json all = print_rows(rows, rows.front().median());
  if (!bench.json.empty()) write_atomically(bench.json, all.dump(1) + "\n");
}

}  // namespace

int run_images_bench(const ImagesBench& bench) {
  if (!bench.data.empty()) {
    run_in(bench.data, bench);
    return 0;
  }
  const std::filesystem::path temporary =
      std::filesystem::temp_directory_path() / fmt::format("asup-bench-images-{}", ::getpid());
  const std::string folder = bench.keep.empty() ? temporary.string() : bench.keep;
  struct Remove {
    std::filesystem::path path;
    ~Remove() {
      std::error_code none;
      if (!path.empty()) std::filesystem::remove_all(path, none);
    }
  } remove{bench.keep.empty() ? temporary : std::filesystem::path()};
  make_pictures(folder, kMade);
  run_in(folder, bench);
  return 0;
}

}  // namespace asup::bench
