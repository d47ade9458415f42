// A Dataset that changes the samples of another, and is it in all else. Constant after
// construction.
#pragma once

#include <memory>
#include <utility>

#include "asup/data/dataset.h"

namespace asup::data {

class WrappedDataset : public Dataset {
 public:
  explicit WrappedDataset(std::unique_ptr<Dataset> dataset) : dataset_(std::move(dataset)) {}

  std::size_t size() const override { return dataset_->size(); }
  std::vector<std::int64_t> input_shape() const override { return dataset_->input_shape(); }
  int classes() const override { return dataset_->classes(); }
  std::string name() const override { return dataset_->name(); }
  Normalisation normalisation() const override { return dataset_->normalisation(); }
  const Text* text() const override { return dataset_->text(); }
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  std::vector<std::int64_t> labels() const override { return dataset_->labels(); }
  std::vector<std::int64_t> broken() const override { return dataset_->broken(); }
  std::string note() const override { return dataset_->note(); }

 protected:
  const std::unique_ptr<Dataset> dataset_;
};

}  // namespace asup::data
