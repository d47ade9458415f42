#include "asup/base/error.h"
#include "asup/cli/live/live_page.h"

namespace asup::cli {

void check_live_page(const train::LivePage&) {
  throw BadInput(
      "live: this asup was built without cpp-httplib, and serves no pages. Install "
      "libcpp-httplib-dev and build it again, or leave live out and use asup report.");
}

std::unique_ptr<report::Observer> make_live_page(const train::LivePage& where,
                                                 const report::Terminal&) {
  check_live_page(where);
  return nullptr;
}

}  // namespace asup::cli
