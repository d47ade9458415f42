// How the members of a broken communicator agree on who is left.
//
// Each says whom it takes to be left, to all of those; who hears of a smaller set leaves the others
// out too and says so. Sets only shrink, and nobody goes on before all of its set have said the
// very same, so no two ranks go on in different sets that have a member in common. Only the view of
// those who are still in counts: where two ranks have lost each other and a third reaches both, the
// one that is heard first stays.
//
// Logic only: whoever uses it carries the views. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace asup::collective {

class Survivors {
 public:
  // Who is left, ascending, and how often the speaker's communicator was rebuilt before.
  struct View {
    std::uint64_t generation = 0;
    std::vector<int> left;
    bool operator==(const View&) const = default;
  };

  Survivors(int self, std::uint64_t generation, std::vector<int> members);

  void lose(int rank);
  void hear(int rank, const View& view);

  // What the others must be told; once, until it changes.
  std::optional<View> news();

  const std::vector<int>& left() const { return own_.left; }
  // This one has said the same.
  bool agrees(int rank) const;
  // All that are left have.
  bool agreed() const;
  // Those who have not.
  std::vector<int> missing() const;
  // The generation that those who are left agree on. needs: agreed()
  std::uint64_t next_generation() const;
  // Who has left this rank out, while it was still here.
  std::optional<int> left_out_by() const { return left_out_by_; }

 private:
  bool is_left(int rank) const;
  void keep_only(const std::vector<int>& ranks);

  const int self_;
  View own_;
  std::map<int, View> heard_;  // the last of each
  bool told_ = false;
  std::optional<int> left_out_by_;
};

// "2 0,1,5"; nothing where the text is no such view.
std::string write_view(const Survivors::View& view);
std::optional<Survivors::View> read_view(std::string_view text);

}  // namespace asup::collective
