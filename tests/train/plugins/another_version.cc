// As a library that an earlier asup was built with: nothing of it may be called but its stamp.
#include <cstdlib>

extern "C" const char* asup_model_stamp() { return "asup 0.0.9 with interface 1 and torch 2.10.0"; }
extern "C" void asup_model(const void*, void*) { std::abort(); }
