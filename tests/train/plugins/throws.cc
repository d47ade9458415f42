// Whatever it is asked for, it cannot.
#include <stdexcept>

#include "asup/data/plugin_stamp.h"

extern "C" const char* asup_model_stamp() { return ASUP_PLUGIN_STAMP; }
extern "C" void asup_model(const void*, void*) { throw std::runtime_error("out of luck"); }
extern "C" const char* asup_dataset_stamp() { return ASUP_PLUGIN_STAMP; }
extern "C" void asup_dataset(int, const void*, void*) { throw 42; }
