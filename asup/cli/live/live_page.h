// A run to watch in a browser while it goes: the report's page, served by the process that keeps
// the run's folder. One folder, with a stub (none.cc) where asup is built without cpp-httplib.
//
//   http://127.0.0.1:PORT/TOKEN/         the page
//   http://127.0.0.1:PORT/TOKEN/events   what it is told (server-sent events): the run as its
//   folder
//                                        shows it, rows as they come, and the end
//
// The token is random, printed, and nowhere else: any other path is answered by 404. The server has
// threads of its own. The observer is called by the thread that trains, which waits for nobody; at
// the end, viewers have a moment to take the last news.
#pragma once

#include <memory>

#include "asup/report/observer.h"
#include "asup/report/terminal.h"
#include "asup/train/config.h"

namespace asup::cli {

// Throws BadInput where no page could be served there.
void check_live_page(const train::LivePage& where);

// Serves from started() on, and prints the address. A run goes on without its page where that does
// not work any more.
std::unique_ptr<report::Observer> make_live_page(const train::LivePage& where,
                                                 const report::Terminal& terminal);

}  // namespace asup::cli
