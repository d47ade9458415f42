#include "asup/gossip/graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "asup/base/error.h"

namespace asup::gossip {
namespace {

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

// Ranks that can be reached from rank 0, itself included.
std::vector<bool> reached_from_first(const Graph& graph) {
  std::vector<bool> reached(at(graph.ranks()));
  std::vector<int> to_visit{0};
  reached[0] = true;
  while (!to_visit.empty()) {
    const int rank = to_visit.back();
    to_visit.pop_back();
    for (const int partner : graph.partners(rank)) {
      if (reached[at(partner)]) continue;
      reached[at(partner)] = true;
      to_visit.push_back(partner);
    }
  }
  return reached;
}

// "3" of "3-4"; the text then begins after it.
int parse_rank(std::string_view& text, std::string_view edge, int ranks) {
  int rank = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  require(error == std::errc(),
          "graph: '{}' is no edge; use ring, random, exponential, or edges between ranks such as "
          "0-1,1-2",
          edge);
  require(rank >= 0 && rank < ranks, "graph: there is no rank {} in '{}': ranks are 0 to {}", rank,
          edge, ranks - 1);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return rank;
}

Graph parse_edges(std::string_view text, int ranks) {
  Graph graph(ranks);
  while (!text.empty()) {
    const std::string_view edge = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), edge.size() + 1));
    std::string_view rest = edge;
    const int a = parse_rank(rest, edge, ranks);
    require(rest.starts_with('-'), "graph: '{}' is no edge: two ranks with a dash between are",
            edge);
    rest.remove_prefix(1);
    const int b = parse_rank(rest, edge, ranks);
    require(rest.empty() && a != b, "graph: '{}' is no edge between two ranks", edge);
    graph.join(a, b);
  }
  return graph;
}

void require_connected(const Graph& graph, std::string_view text) {
  if (graph.connected()) return;
  const std::vector<bool> reached = reached_from_first(graph);
  std::vector<int> apart;
  for (int rank = 0; rank < graph.ranks(); ++rank)
    if (!reached[at(rank)]) apart.push_back(rank);
  throw BadInput(
      fmt::format("graph: '{}' is not connected: nothing reaches rank {} from rank 0, and their "
                  "models would never be averaged. Add an edge between the two sides.",
                  text, fmt::join(apart, ", ")));
}

}  // namespace

Graph::Graph(int ranks) : edges_(at(ranks), std::vector<bool>(at(ranks))) {}

Graph Graph::ring(int ranks) {
  Graph graph(ranks);
  for (int rank = 0; rank < ranks; ++rank) graph.join(rank, (rank + 1) % ranks);
  return graph;
}

Graph Graph::exponential(int ranks) {
  Graph graph(ranks);
  for (int distance = 1; distance < ranks; distance *= 2) {
    graph.turns_.push_back(distance);
    for (int rank = 0; rank < ranks; ++rank) graph.join(rank, (rank + distance) % ranks);
  }
  return graph;
}

Graph Graph::complete(int ranks) {
  Graph graph(ranks);
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < a; ++b) graph.join(a, b);
  return graph;
}

void Graph::join(int a, int b) {
  if (a == b) return;
  edges_[at(a)][at(b)] = true;
  edges_[at(b)][at(a)] = true;
}

bool Graph::joined(int a, int b) const { return edges_[at(a)][at(b)]; }

std::vector<int> Graph::partners(int rank) const {
  std::vector<int> partners;
  for (int other = 0; other < ranks(); ++other)
    if (joined(rank, other)) partners.push_back(other);
  return partners;
}

bool Graph::connected() const {
  if (ranks() == 0) return true;
  const std::vector<bool> reached = reached_from_first(*this);
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

void Graph::remove(int rank) {
  const std::vector<int> left_alone = partners(rank);
  for (const int a : left_alone) {
    for (const int b : left_alone) join(a, b);
    edges_[at(rank)][at(a)] = false;
    edges_[at(a)][at(rank)] = false;
  }
}

Round Graph::round(int rank, std::uint64_t number) const {
  if (turns_.empty()) return {partners(rank), partners(rank)};
  const int on = turns_[number % turns_.size()];
  return {{(rank + on) % ranks()}, {(rank + ranks() - on) % ranks()}};
}

std::optional<Graph> named_graph(std::string_view name, int ranks) {
  if (name == "ring") return Graph::ring(ranks);
  if (name == "random") return Graph::complete(ranks);
  if (name == "exponential") return Graph::exponential(ranks);
  return std::nullopt;
}

Graph graph_of(std::string_view text, int ranks) {
  require(ranks >= 2,
          "pairs cannot average with {} worker: use two workers or more, or sync = allreduce",
          ranks);
  if (const auto named = named_graph(text, ranks)) return *named;
  Graph graph = parse_edges(text, ranks);
  require_connected(graph, text);
  return graph;
}

}  // namespace asup::gossip
