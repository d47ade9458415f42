#include "asup/parallel/grid.h"

#include "asup/base/error.h"

namespace asup::parallel {

GridShape grid_of(int workers, int pipeline, int tensor) {
  require(pipeline >= 1 && tensor >= 1,
          "a grid of {} pipeline stages and {} tensor shards: give at least 1 of each", pipeline,
          tensor);
  require(workers % (pipeline * tensor) == 0,
          "{} workers cannot be divided into groups of {} (pipeline {} × tensor {}): give a "
          "multiple of {} workers, or another grid",
          workers, pipeline * tensor, pipeline, tensor, pipeline * tensor);
  return {workers / (pipeline * tensor), pipeline, tensor};
}

GridPlace place_of(int rank, const GridShape& shape) {
  return {rank / shape.tensor % shape.data, rank / (shape.tensor * shape.data),
          rank % shape.tensor};
}

int rank_at(const GridPlace& place, const GridShape& shape) {
  return (place.pipeline * shape.data + place.data) * shape.tensor + place.tensor;
}

Grid::Grid(Communicator& all, GridShape shape) : shape_(shape) {
  require(
      shape.data >= 1 && shape.pipeline >= 1 && shape.tensor >= 1 && shape.workers() == all.size(),
      "a grid of data {} × pipeline {} × tensor {} is of {} workers, and there are {}: change "
      "one of them so that they multiply to the workers",
      shape.data, shape.pipeline, shape.tensor, shape.workers(), all.size());
  place_ = place_of(all.rank(), shape);
  const auto group = [&](GridPlace first, int coordinate) {
    return all.split(rank_at(first, shape_), coordinate);
  };
  data_ = group({0, place_.pipeline, place_.tensor}, place_.data);
  pipeline_ = group({place_.data, 0, place_.tensor}, place_.pipeline);
  tensor_ = group({place_.data, place_.pipeline, 0}, place_.tensor);
  model_ = group({place_.data, 0, 0}, place_.pipeline * shape_.tensor + place_.tensor);
}

}  // namespace asup::parallel
