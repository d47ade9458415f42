// Who averages with whom: an undirected graph of the workers, by rank. Values only.
//
// Averages of pairs bring all workers together if the graph is connected; how fast is told by its
// spectral gap (docs/pairwise.md). In synchronous gossip all exchange at once, in rounds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace asup::gossip {

// Whom a rank sends its model to, and whom it hears from: ascending, without the rank itself.
struct Round {
  std::vector<int> to, from;
};

class Graph {
 public:
  // No edges.
  explicit Graph(int ranks);

  // Every worker has the one before it and the one after it as partners.
  static Graph ring(int ranks);
  // Those at distances 1, 2, 4, … on the ring, both ways: about 2 log2(n) partners.
  static Graph exponential(int ranks);
  // All others.
  static Graph complete(int ranks);

  int ranks() const { return static_cast<int>(edges_.size()); }
  void join(int a, int b);
  bool joined(int a, int b) const;
  // Ascending.
  std::vector<int> partners(int rank) const;
  // Every worker can be reached from every other.
  bool connected() const;
  // The rank is gone: who was its partner becomes a partner of its other partners, so that what was
  // connected stays so. A ring of n becomes one of n - 1.
  void remove(int rank);

  // Round `number`, counted from 0, of synchronous gossip: with all partners, or, on the
  // exponential graph, with one rank 1, 2, 4, … places on, by turns. On the named graphs each rank
  // sends to as many as it hears from, and all to equally many: if each takes the mean of its own
  // model and those it hears, the mean over all ranks stays what it was. needs: remove() was not
  // called
  Round round(int rank, std::uint64_t number) const;
  // Rounds after which a rank has the same ones again.
  std::uint64_t turns() const { return turns_.empty() ? 1 : turns_.size(); }

 private:
  std::vector<std::vector<bool>> edges_;
  std::vector<int> turns_;  // distances of which a round takes one; none: it takes all partners
};

// The graph of this name, of any number of workers; none where no graph has it.
std::optional<Graph> named_graph(std::string_view name, int ranks);

// The graph of this name, `ring`, `random` (complete: the choice of the partner is at random in
// every graph) or `exponential`; or of these edges, "0-1,1-2". Throws BadInput that says what is
// wrong: fewer than two workers, no such name or rank, not connected.
Graph graph_of(std::string_view text, int ranks);

}  // namespace asup::gossip
