// What the standard output can show. Used from one thread.
#pragma once

#include <string>
#include <string_view>

namespace asup::report {

class Terminal {
 public:
  // Of a file descriptor, and TERM, NO_COLOR (https://no-color.org) in the environment.
  explicit Terminal(int fd);

  bool live() const { return live_; }  // lines can be drawn anew
  // Columns that a line may have now, without the last one, behind which some terminals break it.
  // 79 where a terminal does not say; no limit where it is none.
  int room() const;

  // The text in an SGR style such as "1;32", or as it is where colours are not wanted.
  std::string styled(std::string_view style, std::string_view text) const;

  // One write, so that a line never shows half drawn. What cannot be written is nobody's loss.
  void write(std::string_view text) const;

 private:
  int fd_;
  bool live_;
  bool color_;
};

inline constexpr std::string_view kBold = "1";
inline constexpr std::string_view kFaint = "2";
inline constexpr std::string_view kGood = "1;32";
inline constexpr std::string_view kAccent = "36";
inline constexpr std::string_view kBadge = "1;30;46";

}  // namespace asup::report
