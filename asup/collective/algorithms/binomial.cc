#include "asup/collective/algorithms/binomial.h"

#include "asup/collective/algorithms/binomial_tree.h"
#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

// One rank's view of the tree. Places are counted from the root.
struct Node {
  Node(int rank, const Spec& spec)
      : root(spec.root),
        ranks(spec.ranks),
        place(around(rank, -root, ranks)),
        children(children_of(place, ranks)) {}

  bool is_root() const { return place == 0; }
  bool is_leaf() const { return children.empty(); }
  int rank_at(int at) const { return around(root, at, ranks); }
  int parent() const { return rank_at(parent_of(place)); }

  int root, ranks;
  int place;
  std::vector<int> children;  // places; the one with the fewest descendants first
};

// Where the blocks of a subtree lie: on the root in the row of all blocks, elsewhere in scratch,
// one after the other.
class Subtree {
 public:
  Subtree(const Node& node, const Spec& spec, Area area)
      : node_(node), blocks_(spec.blocks(area)), before_(spec.ranks + 1, 0) {
    for (int place = 0; place < node.ranks; ++place) {
      before_[place + 1] = before_[place] + blocks_[node.rank_at(place)].size();
    }
  }

  std::size_t elements() const { return of_places(node_.place, end_of(node_.place)).size(); }
  AreaRange own() const { return of_places(node_.place, node_.place + 1); }

  // The ranges of the subtree at `place`: two where its ranks go over the end of the row.
  std::vector<AreaRange> runs_at(int place) const {
    const int end = end_of(place), seam = node_.ranks - node_.root;  // where rank 0 stands
    if (place >= seam || end <= seam) return {of_places(place, end)};
    return {of_places(place, seam), of_places(seam, end)};
  }

 private:
  int end_of(int place) const { return place + descent_of(place, node_.ranks); }

  // needs: their ranks do not go over the end of the row
  AreaRange of_places(int first, int end) const {
    if (node_.is_root()) {
      const AreaRange& begin = blocks_[node_.rank_at(first)];
      return {begin.area, begin.begin, begin.begin + before_[end] - before_[first]};
    }
    const std::size_t base = before_[node_.place];
    return scratch(before_[first] - base, before_[end] - base);
  }

  const Node& node_;
  std::vector<AreaRange> blocks_;    // by rank
  std::vector<std::size_t> before_;  // by place: elements of all places before it
};

}  // namespace

Plan binomial_broadcast(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Node node(rank, spec);
  const AreaRange data = out(0, spec.count);
  const AreaRange source = node.is_root() ? in(0, spec.count) : data;
  Lane lane;
  if (!node.is_root()) lane.push_back({recv(node.parent(), data)});
  Round down;
  // The child with the most descendants first: they wait longest.
  for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
    down.push_back(send(node.rank_at(*child), source));
  }
  if (!down.empty()) lane.push_back(std::move(down));
  if (node.is_root() && !spec.aliased() && spec.count > 0) lane.push_back({copy(source, data)});
  return {.lanes = {std::move(lane)}, .scratch = 0};
}

Plan binomial_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Node node(rank, spec);
  Plan plan = in_lanes(spec, spec.count, [&](Cut part) {
    Lane lane;
    AreaRange sum = in(part);
    for (const int child : node.children) {
      const AreaRange next = node.is_root() ? out(part) : scratch(part);
      const bool last = node.is_root() && child == node.children.back();
      lane.push_back({recv_reduce(node.rank_at(child), sum, next, last)});
      sum = next;
    }
    if (!node.is_root()) lane.push_back({send(node.parent(), sum)});
    return lane;
  });
  if (!node.is_root() && !node.is_leaf()) plan.scratch = spec.count;
  return plan;
}

Plan binomial_gather(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Node node(rank, spec);
  const AreaRange block = in(0, spec.block(Area::input, rank).size());
  if (node.is_leaf()) return {.lanes = {{{send(node.parent(), block)}}}, .scratch = 0};
  const Subtree subtree(node, spec, Area::output);
  Lane lane;
  if (block.size() > 0) lane.push_back({copy(block, subtree.own())});
  Round arriving, leaving;
  for (const int child : node.children) {
    for (const AreaRange& run : subtree.runs_at(child)) {
      arriving.push_back(recv(node.rank_at(child), run));
    }
  }
  lane.push_back(std::move(arriving));
  if (node.is_root()) return {.lanes = {std::move(lane)}, .scratch = 0};
  for (const AreaRange& run : subtree.runs_at(node.place))
    leaving.push_back(send(node.parent(), run));
  lane.push_back(std::move(leaving));
  return {.lanes = {std::move(lane)}, .scratch = subtree.elements()};
}

Plan binomial_scatter(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Node node(rank, spec);
  const AreaRange block = out(0, spec.block(Area::output, rank).size());
  if (node.is_leaf()) return {.lanes = {{{recv(node.parent(), block)}}}, .scratch = 0};
  const Subtree subtree(node, spec, Area::input);
  Lane lane;
  if (!node.is_root()) {
    Round arriving;
    for (const AreaRange& run : subtree.runs_at(node.place)) {
      arriving.push_back(recv(node.parent(), run));
    }
    lane.push_back(std::move(arriving));
  }
  Round leaving;
  for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
    for (const AreaRange& run : subtree.runs_at(*child)) {
      leaving.push_back(send(node.rank_at(*child), run));
    }
  }
  lane.push_back(std::move(leaving));
  if (block.size() > 0) lane.push_back({copy(subtree.own(), block)});
  return {.lanes = {std::move(lane)}, .scratch = node.is_root() ? 0 : subtree.elements()};
}

}  // namespace asup::collective
