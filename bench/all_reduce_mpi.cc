// Runs the collectives of bench_all_reduce with Open MPI, for bench/all_reduce.py. It is built if Open MPI's headers
// are installed, and started by mpirun.
#include <mpi.h>

#include <chrono>
#include <string>
#include <vector>

#include "bench/collectives.h"

int main(int argc, char** argv) {
  using namespace karez::bench;
  using Clock = std::chrono::steady_clock;
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (std::string_view kind : collective_kinds) {
    for (std::int64_t bytes : collective_sizes(ranks)) {
      const int elements = static_cast<int>(bytes / 4), part = elements / ranks;
      std::vector<float> in(static_cast<std::size_t>(elements), 1.0F), out(static_cast<std::size_t>(elements));
      auto run = [&] {
        if (kind == "all_reduce") MPI_Allreduce(in.data(), out.data(), elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (kind == "reduce_scatter")
          MPI_Reduce_scatter_block(in.data(), out.data(), part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (kind == "all_gather")
          MPI_Allgather(in.data(), part, MPI_FLOAT, out.data(), part, MPI_FLOAT, MPI_COMM_WORLD);
        if (kind == "all_to_all")
          MPI_Alltoall(in.data(), part / ranks, MPI_FLOAT, out.data(), part / ranks, MPI_FLOAT, MPI_COMM_WORLD);
      };
      const int samples = sample_count(bytes), warm_up = warm_up_count(samples);
      std::vector<double> own_times, slowest_times(static_cast<std::size_t>(samples));
      for (int s = -warm_up; s < samples; ++s) {
        MPI_Barrier(MPI_COMM_WORLD);
        auto begin = Clock::now();
        run();
        if (s >= 0) own_times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() * 1e6);
      }
      MPI_Reduce(own_times.data(), slowest_times.data(), samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      if (rank == 0) print_row(kind, bytes, slowest_times);
    }
  }
  MPI_Finalize();
}
