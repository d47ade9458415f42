// MPI_Allreduce of floats in place, as a peer of asup's all-reduce (bench/turn.h).
//
//   mpirun -n 4 mpi_allreduce SECONDS BYTES...
#include <mpi.h>

#include "bench/turn.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const turn::Turn turn = turn::parse(argc, argv, 1);
  for (const std::size_t bytes : turn.sizes) {
    std::vector<float> values(bytes / sizeof(float));
    const auto all_reduce = [&] {
      MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
    };
    turn::fill(values.data(), values.size(), rank);
    all_reduce();
    turn::check_sums(values.data(), values.size(), ranks, "mpi_allreduce");
    const auto times =
        turn::time_calls(turn.seconds, turn::least_calls(bytes), all_reduce, [](long number) {
          MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
          return number;
        });
    if (rank == 0) turn::print_row(bytes, "private", "MPI_Allreduce", times);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
