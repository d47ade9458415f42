// Whether text is XML that a reader accepts. Functions only.
#pragma once

#include <string>
#include <vector>

namespace asup::testing {

inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Every tag is closed in its order and every attribute quoted; "" where that is so.
inline std::string flaw_of_xml(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != text.npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == text.npos) return "a tag that does not end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.find('<') != tag.npos) return "a tag inside a tag: " + tag;
    if (count_of(tag, "\"") % 2 != 0) return "a quote that does not end: " + tag;
    const std::string name =
        tag.substr(tag[0] == '/', tag.find_first_of(" /", 1) - (tag[0] == '/'));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "unexpected " + tag;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

}  // namespace asup::testing
