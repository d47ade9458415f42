// One worker's side of averages with partners, while its model goes on being trained.
//
// Three vectors as long as the model are kept:
//   own        the model as of the last visit of the thread that trains, with all averages since
//   theirs     a partner's own, as it comes
//   difference what averages since the last visit are to change in the model
// An exchange is between the owns of two workers, which stay as they are while it lasts. At its end
// each adds d = (theirs - own) / 2 to its own, which thereby becomes the average of the two, and to
// its difference. The next visit adds the difference to the model, wherever training has moved it:
// what one worker adds the other takes away, so the sum of the models is kept but for rounding, and
// no gradient is lost. Since own holds all earlier averages, they never add up beyond the partner.
//
// Where models travel in bf16, d is half of the difference of the two as they travel, so that what
// one adds the other takes away here too. The two differ by what rounding has lost of them then,
// 2^-9 of a number at most.
//
// Values only: whoever uses it keeps its threads apart.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace asup::gossip {

class Averaging {
 public:
  explicit Averaging(std::size_t elements, bool in_bf16 = false)
      : in_bf16_(in_bf16), own_(elements), theirs_(elements), difference_(elements) {}

  std::size_t elements() const { return own_.size(); }

  // Adds the difference to the model. Then own is the model, unless an exchange is under way; says
  // which. needs: as many elements
  bool visit(std::span<float> model);
  bool has_difference() const { return has_difference_; }

  // From here to the end of complete(), or drop(), own stays. needs: no exchange is under way
  void begin();
  bool under_way() const { return under_way_; }
  std::span<const float> own() const { return own_; }
  std::span<float> theirs() { return theirs_; }
  // All of theirs is there: averages up to `most` elements; true when these were the last. It may
  // take several calls, with visits between them.
  bool complete(std::size_t most);
  void drop() { under_way_ = false; }

 private:
  const bool in_bf16_;
  std::vector<float> own_, theirs_, difference_;
  bool under_way_ = false;
  bool has_difference_ = false;
  std::size_t averaged_ = 0;  // elements, of the exchange under way
};

}  // namespace asup::gossip
