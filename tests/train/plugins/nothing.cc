// A shared library that has nothing to do with asup.
extern "C" int answer() { return 42; }
