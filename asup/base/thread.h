// Threads that a library may start in somebody else's program: named, and deaf to signals, which
// stay with the program's own threads. And how many can run at once.
#pragma once

#include <functional>
#include <thread>

namespace asup {

// `name`: at most 15 characters, as shown by top -H and debuggers.
std::thread start_thread(const char* name, std::function<void()> body);

// Cores that this process may use.
int usable_cores();

}  // namespace asup
