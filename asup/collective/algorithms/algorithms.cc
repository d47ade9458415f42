// The table of algorithms: a row for each. docs/adding_an_algorithm.md says how to add one.
#include "asup/collective/algorithms/binary_blocks.h"
#include "asup/collective/algorithms/binomial.h"
#include "asup/collective/algorithms/bruck.h"
#include "asup/collective/algorithms/chain.h"
#include "asup/collective/algorithms/direct.h"
#include "asup/collective/algorithms/dissemination.h"
#include "asup/collective/algorithms/exchange.h"
#include "asup/collective/algorithms/halving_doubling.h"
#include "asup/collective/algorithms/hierarchical.h"
#include "asup/collective/algorithms/linear.h"
#include "asup/collective/algorithms/owners.h"
#include "asup/collective/algorithms/pairwise.h"
#include "asup/collective/algorithms/point_to_point.h"
#include "asup/collective/algorithms/recursive_doubling.h"
#include "asup/collective/algorithms/ring.h"
#include "asup/collective/algorithms/staged.h"
#include "asup/collective/algorithms/tree.h"
#include "asup/collective/plan/plan.h"

namespace asup::collective {

// clang-format off
const std::vector<Algorithm>& algorithms() {
  static const std::vector<Algorithm> table = {
      {"direct", Collective::all_reduce,
       "3 rounds; each rank reduces its slice out of all memories and writes it into all",
       true, direct_all_reduce},
      {"ring", Collective::all_reduce,
       "2(n-1) rounds; 2(n-1)/n of the elements, the least there is; large counts",
       false, ring_all_reduce},
      {"staged", Collective::all_reduce,
       "2 barriers a piece of n slices; by way of memory that all reach; private buffers on one host",
       false, staged_all_reduce, true},
      {"recursive_doubling", Collective::all_reduce,
       "log2 n rounds of the whole, the fewest there are; two more where n is no power of two; "
       "small counts",
       false, recursive_doubling_all_reduce},
      {"exchange", Collective::all_reduce,
       "1 round; the whole to each other rank; few ranks and small counts",
       false, exchange_all_reduce},
      {"halving_doubling", Collective::all_reduce,
       "2 log2 n rounds; 2(n-1)/n of the elements; two more of the whole where n is no power of "
       "two",
       false, halving_doubling_all_reduce},
      {"binary_blocks", Collective::all_reduce,
       "2 log2 n rounds and 2 for each further power of two in n; about 2(n-1)/n of the elements",
       false, binary_blocks_all_reduce},
      {"tree", Collective::all_reduce,
       "2 ceil(log2 n) messages deep; rank 0 sends the whole ceil(log2 n) times, half of the ranks "
       "once",
       false, tree_all_reduce},
      {"hierarchical", Collective::all_reduce,
       "2(m-1) rounds inside hosts of m ranks, 2 log2 h across h hosts; 2(h-1)/h of the elements "
       "between two hosts, shared by m ranks",
       false, hierarchical_all_reduce},
      {"owners", Collective::all_reduce,
       "2 rounds; 2(n-1)/n of the elements; each rank sums a block of all and sends it to all; the "
       "way of numbers in a code",
       false, owners_all_reduce, false, true},

      {"direct", Collective::reduce_scatter,
       "3 rounds; each rank reduces its block out of all memories",
       true, direct_reduce_scatter},
      {"ring", Collective::reduce_scatter,
       "n-1 rounds; (n-1)/n of the elements, the least there is",
       false, ring_reduce_scatter},
      {"halving", Collective::reduce_scatter,
       "log2 n rounds; (n-1)/n of the elements; two more where n is no power of two",
       false, halving_reduce_scatter},

      {"direct", Collective::all_gather,
       "3 rounds; each rank reads every other's block out of its memory",
       true, direct_all_gather},
      {"ring", Collective::all_gather,
       "n-1 rounds; (n-1)/n of the elements, the least there is",
       false, ring_all_gather},
      {"doubling", Collective::all_gather,
       "log2 n rounds; (n-1)/n of the elements; two more where n is no power of two",
       false, doubling_all_gather},
      {"bruck", Collective::all_gather,
       "ceil(log2 n) rounds; (n-1)/n of the elements, in up to twice as many messages",
       false, bruck_all_gather},

      {"direct", Collective::broadcast,
       "3 rounds; each rank reads the root's memory",
       true, direct_broadcast},
      {"binomial", Collective::broadcast,
       "ceil(log2 n) messages deep; the root sends the whole ceil(log2 n) times; small counts",
       false, binomial_broadcast},
      {"chain", Collective::broadcast,
       "n-2 + chunks messages deep; each rank sends the whole once; large counts",
       false, chain_broadcast},

      {"direct", Collective::reduce,
       "3 rounds; each rank reduces its slice out of all memories and writes it into the root's",
       true, direct_reduce},
      {"binomial", Collective::reduce,
       "ceil(log2 n) messages deep; the root receives the whole ceil(log2 n) times; small counts",
       false, binomial_reduce},
      {"chain", Collective::reduce,
       "n-2 + chunks messages deep; each rank sends the whole once; large counts",
       false, chain_reduce},

      {"direct", Collective::gather,
       "3 rounds; each rank writes its block into the root's memory",
       true, direct_gather},
      {"linear", Collective::gather,
       "1 round; each rank sends its block straight to the root",
       false, linear_gather},
      {"binomial", Collective::gather,
       "ceil(log2 n) messages deep; the root receives ceil(log2 n) messages; small blocks",
       false, binomial_gather},

      {"direct", Collective::scatter,
       "3 rounds; each rank reads its block out of the root's memory",
       true, direct_scatter},
      {"linear", Collective::scatter,
       "1 round; the root sends each rank its block",
       false, linear_scatter},
      {"binomial", Collective::scatter,
       "ceil(log2 n) messages deep; the root sends ceil(log2 n) messages; small blocks",
       false, binomial_scatter},

      {"direct", Collective::all_to_all,
       "3 rounds; each rank reads its blocks out of every other's memory",
       true, direct_all_to_all},
      {"pairwise", Collective::all_to_all,
       "n-1 rounds; all of the input but its own block, the least there is",
       false, pairwise_all_to_all},
      {"bruck", Collective::all_to_all,
       "ceil(log2 n) rounds; log2(n)/2 times the input; small blocks",
       false, bruck_all_to_all},

      {"dissemination", Collective::barrier,
       "ceil(log2 n) rounds of one signal",
       false, dissemination_barrier},

      {"message", Collective::send, "1 message of the whole", false, send_message},
      {"message", Collective::recv, "1 message of the whole", false, recv_message},
  };
  return table;
}
// clang-format on

}  // namespace asup::collective
