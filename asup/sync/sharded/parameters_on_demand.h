// Parameters of which each rank has its part alone, and the others' while they are computed with.
//
// They are gathered in groups: a group when an operator is about to compute with a tensor of it, or
// with a view, forward or backward (operand_watch.h), and the one that is likely to follow beside
// that, as it did the last time. When an operator needs another group, the one before goes. Memory
// keeps its address, so that whatever backward has kept of a parameter sees it again.
//
// While it is not there, a parameter is NaN in a single element, which torch refuses to write to:
// whoever reads it in another way than by an operator (to save it, say) does not take it for one.
//
// Every rank must use its parameters in the same order, since each use may be a collective call;
// use on one rank alone needs all of them there (gather_all). Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "asup/sync/sharded/operand_watch.h"
#include "asup/sync/sharded/sharded_parameters.h"

namespace asup::sync {

class ParametersOnDemand : private OperandWatch::Listener {
 public:
  // `groups`: by parameter, as its bucket was made (layout/groups.h). The parameters are whole, and
  // must outlive this.
  ParametersOnDemand(ShardedParameters& parameters, std::vector<std::size_t> groups);
  // Parameters that are not all there are NaN, in memory of their own.
  ~ParametersOnDemand() override;
  ParametersOnDemand(const ParametersOnDemand&) = delete;
  ParametersOnDemand& operator=(const ParametersOnDemand&) = delete;

  // All of them are there until let_go(). Collective. Throws JobFailed.
  void gather_all();
  // This rank has its part alone again.
  void let_go();
  bool are_all_here() const { return all_here_; }

  // While it lives, parameters lie where they do, whether they are there or not, and nothing is
  // gathered: for work on this rank's part.
  class AsTheyLie {
   public:
    explicit AsTheyLie(ParametersOnDemand* parameters);  // null: does nothing
    ~AsTheyLie();
    AsTheyLie(const AsTheyLie&) = delete;
    AsTheyLie& operator=(const AsTheyLie&) = delete;

   private:
    ParametersOnDemand* parameters_;
  };

  // Throws JobFailed where parameters could not be gathered for an operator, which then has
  // computed with NaN.
  void check_gathered() const { failure_.or_throw("gathering parameters"); }
  double wait_seconds() const { return wait_seconds_; }

 private:
  struct Group {
    std::vector<std::size_t> parameters, buckets;
    std::vector<Work> coming;  // of the buckets
    bool here = false;
  };
  using Indices = std::set<std::size_t>;

  void before(OperandWatch::Operands operands, bool nested) noexcept override;
  std::optional<std::size_t> group_of(const torch::Tensor& tensor) const;
  void use(const Indices& groups);
  void note_use(std::size_t group);
  std::optional<std::size_t> likely_next() const;
  void start(Group& group);
  void wait_for(Group& group);
  void give_up(Group& group);
  void lay(std::size_t parameter, const torch::Tensor& data) const;
  void show(std::size_t parameter) const;
  void hide(std::size_t parameter) const;

  ShardedParameters& parameters_;
  const std::vector<std::size_t> group_of_;                    // by parameter
  std::unordered_map<const void*, std::size_t> parameter_of_;  // by tensor
  std::vector<torch::Tensor> hidden_;                          // what it is while it is not here
  std::vector<Group> groups_;
  bool all_here_ = false;
  int as_they_lie_ = 0;  // scopes of it

  // Groups in the order of their use since all went: after the two last ones, which came the last
  // time.
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::size_t last_ = kNone, before_last_ = kNone;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> followed_;

  Outcome failure_;
  double wait_seconds_ = 0;
  std::optional<OperandWatch> watch_;  // last
};

}  // namespace asup::sync
