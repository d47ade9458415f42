#include "asup/data/plugin_dataset.h"

#include <fmt/ranges.h>

#include "asup/base/error.h"
#include "asup/data/load_plugin.h"

namespace asup::data {
namespace {

using Open = void (*)(Split, const DatasetOptions*, std::unique_ptr<Dataset>*);

void check_first_sample(const Dataset& dataset) {
  if (dataset.size() == 0) return;  // said by whoever opens it
  std::vector<std::int64_t> shape = dataset.input_shape();
  shape.insert(shape.begin(), 1);
  const std::int64_t first = 0;
  const Batch batch = dataset.get({&first, 1});
  require(batch.input.sizes() == shape && batch.input.scalar_type() == torch::kFloat32,
          "its first sample is {} of shape [{}], where its input_shape() wants Float of [{}]",
          c10::toString(batch.input.scalar_type()), fmt::join(batch.input.sizes(), ", "),
          fmt::join(shape, ", "));
  require(batch.target.numel() == 1 && batch.target.scalar_type() == torch::kInt64,
          "its targets must be a Long for each sample, not {} of shape [{}]",
          c10::toString(batch.target.scalar_type()), fmt::join(batch.target.sizes(), ", "));
  const auto target = batch.target.item<std::int64_t>();
  require(target >= 0 && target < dataset.classes(), "its first target is {}, of {} classes",
          target, dataset.classes());
}

}  // namespace

std::unique_ptr<Dataset> open_plugin_dataset(const std::string& path, Split split,
                                             const DatasetOptions& options) {
  const auto open = reinterpret_cast<Open>(find_in_plugin(path, "dataset"));
  std::unique_ptr<Dataset> dataset;
  run_plugin(path, [&] {
    open(split, &options, &dataset);
    require(dataset != nullptr, "opened no data set");
    check_first_sample(*dataset);
  });
  return dataset;
}

}  // namespace asup::data
