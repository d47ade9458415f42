// The workers of a job as data × pipeline × tensor, a communicator for each axis.
//
// Ranks that differ in one coordinate alone are a group: they average gradients (data), pass
// activations on (pipeline), or share a layer (tensor). Neighbours in the order of ranks are of one
// tensor group first, since it talks most and most often, then of one data group, and the stages of
// a pipeline, which say least to each other, are furthest apart: so hosts that are named one after
// the other have whole groups on them.
//
// Used from one thread; calls of different axes may come from different threads.
#pragma once

#include <memory>

#include "asup/collective/communicator.h"

namespace asup::parallel {

struct GridShape {
  int data = 1;
  int pipeline = 1;
  int tensor = 1;

  int workers() const { return data * pipeline * tensor; }
  bool operator==(const GridShape&) const = default;
};

// Where a rank is, on each axis.
struct GridPlace {
  int data = 0;
  int pipeline = 0;
  int tensor = 0;

  bool operator==(const GridPlace&) const = default;
};

// The shape with so many stages and shards, and data parallel over the rest. Throws BadInput where
// the workers cannot be divided so.
GridShape grid_of(int workers, int pipeline, int tensor);

GridPlace place_of(int rank, const GridShape& shape);
int rank_at(const GridPlace& place, const GridShape& shape);

class Grid {
 public:
  // Collective. Throws BadInput where the shape is not of as many workers as the communicator has.
  Grid(Communicator& all, GridShape shape);

  const GridShape& shape() const { return shape_; }
  const GridPlace& place() const { return place_; }

  // Of the ranks that differ from this one on that axis alone; a rank in it is the coordinate.
  Communicator& data() { return *data_; }
  Communicator& pipeline() { return *pipeline_; }
  Communicator& tensor() { return *tensor_; }
  // Of the ranks that have parts of one model: of pipeline and tensor together, stage after stage.
  Communicator& model() { return *model_; }

 private:
  // Constant after construction.
  GridShape shape_;
  GridPlace place_;
  std::unique_ptr<Communicator> data_, pipeline_, tensor_, model_;
};

}  // namespace asup::parallel
