// What one rank does in a collective, as data.
//
// An algorithm is a pure function (rank, Spec) -> Plan. The same plan is executed on links,
// verified by a symbolic run over all ranks (verify.h) and drawn. Nothing here does I/O. Values
// only.
//
// A plan has lanes, which touch disjoint ranges and advance independently, so that one lane's bytes
// travel while another's are reduced. A lane has rounds, strictly one after the other. A round
// holds either messages (send, recv, recv_reduce: all in flight at once) or memory steps (copy,
// reduce_parts, peer_reduce, peer_write, peer_read: in the listed order, element by element, so
// that the executor may run tile after tile through all of them while a tile is in the cache).
//
// A message of no elements is a signal and is really sent: whether two ranks meet does not depend
// on the count, so that calls which disagree about it are found out. A plan may have no lanes at
// all: nothing to do, as in a group of one that works in place.
//
// A rank finds a peer's memory by what comes with the peer's messages: it reaches for it only after
// a round of the same lane in which it received one from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace asup::collective {

enum class Collective : std::uint8_t {
  all_reduce,      // in: count, out: count, the reduction of all inputs
  reduce_scatter,  // in: count, out: this rank's block of the reduction
  all_gather,      // in: this rank's block, out: count
  broadcast,       // out: count, the root's
  reduce,          // in: count, out: count on the root, the reduction of all inputs; none elsewhere
  gather,          // in: this rank's block, out: count on the root; none elsewhere
  scatter,         // in: count on the root, none elsewhere; out: this rank's block
  all_to_all,      // in: a block for each rank; out: a block from each, in the order of ranks
  barrier,         // no elements
  send,            // to `root`, outside the collective order
  recv             // from `root`, outside the collective order
};

std::string_view name_of(Collective collective);

inline bool is_point_to_point(Collective collective) {
  return collective == Collective::send || collective == Collective::recv;
}

enum class Area : std::uint8_t {
  input,
  output,
  scratch,  // this rank's alone
  stage,    // this rank's, within reach of all where Spec::stage says so
  // This rank's alone, where numbers are in the call's code (kernels/code.h): a copy to it encodes,
  // one from it decodes, and so does a reduce_parts whose src it is. Ranges begin at multiples of
  // kCodeBlock, and so do a reduce_parts' parts. Without a code it is as scratch.
  coded
};

// Elements [begin, end) of an area of one rank.
struct AreaRange {
  Area area = Area::output;
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool operator==(const AreaRange&) const = default;
};

inline AreaRange in(std::size_t begin, std::size_t end) { return {Area::input, begin, end}; }
inline AreaRange out(std::size_t begin, std::size_t end) { return {Area::output, begin, end}; }
inline AreaRange scratch(std::size_t begin, std::size_t end) { return {Area::scratch, begin, end}; }
inline AreaRange stage(std::size_t begin, std::size_t end) { return {Area::stage, begin, end}; }
inline AreaRange coded(std::size_t begin, std::size_t end) { return {Area::coded, begin, end}; }

struct Step {
  enum class Op : std::uint8_t {
    send,          // src leaves for peer; an empty range is a signal
    recv,          // dst = what peer sent
    recv_reduce,   // dst = src (+) what peer sent
    copy,          // dst = src
    reduce_parts,  // dst = (+) over all ranks, in rank order, of own and of the others' parts,
                   // which lie in src, one after the other
    peer_reduce,   // dst = (+) over all ranks, in rank order, of the others' src and of own
    peer_write,    // peer's dst = own src; writes peer's memory
    peer_read      // dst = peer's src; reads peer's memory
  };
  Op op;
  int peer = -1;
  AreaRange src;
  AreaRange dst;
  bool finish = false;  // dst now holds every contribution: an average divides here
  AreaRange own = {};   // this rank's operand of a reduce_parts or a peer_reduce

  bool is_message() const { return op <= Op::recv_reduce; }
  // Adds up an operand of each rank at once.
  bool sums_all() const { return op == Op::reduce_parts || op == Op::peer_reduce; }
  bool operator==(const Step&) const = default;
};

std::string_view name_of(Step::Op op);

// One operand of a step that sums all up, and whose memory it lies in.
struct Operand {
  int owner;
  AreaRange range;
};
// That of rank `of`, where `rank` does the step.
Operand operand(const Step& step, int rank, int of);
// Elements from one of a reduce_parts' parts to the next.
std::size_t between_parts(const Step& step);

using Round = std::vector<Step>;
using Lane = std::vector<Round>;

struct Plan {
  std::vector<Lane> lanes;
  std::size_t scratch = 0;  // elements this rank needs beside input and output
  std::size_t stage = 0;    // and where others reach them
  std::size_t coded = 0;    // and in code
};

// What is asked of all ranks together; equal on every rank.
struct Spec {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  // Elements of the whole: all_gather's output, reduce_scatter's input. Of an all_to_all: each
  // rank's input where blocks are even, all inputs together where `counts` has the blocks.
  std::size_t count = 0;
  // Blocks of the ranks (reduce_scatter, all_gather, gather, scatter); of an all_to_all,
  // [sender * ranks + receiver]. Empty: even.
  std::vector<std::size_t> counts = {};
  int root = 0;
  bool in_place = true;  // input and output are one memory (all_reduce, broadcast; reduce: the
                         // root's)
  bool shared = false;   // every rank can reach every other's input and output
  bool stage = false;    // every rank can reach every other's stage
  bool coded = false;    // numbers travel in a code
  std::size_t slice = 1 << 15;  // elements of a lane's message, about: how finely rounds overlap
  // Which host each rank is on, by numbers of any kind. Empty: all on one, or nobody knows.
  std::vector<int> hosts = {};

  // Rank r's block of the whole.
  AreaRange block(Area area, int r) const;
  // All of them, in one pass.
  std::vector<AreaRange> blocks(Area area) const;

  // Of an all_to_all: the blocks of rank r's input, by receiver, and of its output, by sender.
  std::vector<AreaRange> leaving(int r) const;
  std::vector<AreaRange> arriving(int r) const;

  // Input and output are one memory: in_place, for the collectives that know it.
  bool aliased() const;
  // Of rank r: in a reduce, only the root has both.
  bool aliased(int r) const;
  // Elements of rank r's input or output; 0 where it needs none. Of a send or recv, `root` is the
  // one rank at the far end, any other r the caller. needs: area is not scratch
  std::size_t elements(Area area, int r) const;
};

// Throws BadInput that says what is wrong with it: no ranks, a root outside them, counts that are
// not one for each rank or do not add up, a slice of nothing, hosts that are not one for each rank.
void require_valid(const Spec& spec);

// [begin, end) of part `index` of `parts` even parts of `count`: sizes differ by at most one grain.
// Cuts fall on multiples of `grain` so that neighbours do not share a cache line.
struct Cut {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};
Cut cut(std::size_t count, int parts, int index, std::size_t grain = 1);

struct Algorithm {
  std::string_view name;
  Collective collective;
  std::string_view description;  // steps and bytes a rank sends; shown to users
  bool needs_shared;             // every rank must reach every other's memory
  Plan (*plan)(int rank, const Spec& spec);
  bool needs_stage = false;  // every rank must reach every other's stage
  bool codes = false;        // it can carry numbers in a code
};

// Every algorithm there is, in the order of preference when nothing was measured.
const std::vector<Algorithm>& algorithms();

// By name; throws BadInput that lists the names when there is none for the collective.
const Algorithm& find_algorithm(Collective collective, std::string_view name);

// In words, for people.
std::string describe(const AreaRange& range);
std::string describe(const Step& step);
std::string describe(const Plan& plan);

}  // namespace asup::collective
