# Toolchain: x86-64 on another machine, by Debian's cross compiler and the libraries of its amd64
# packages, which lie in folders of their own beside this machine's. `make x86` uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER x86_64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-x86_64)

# This machine's own pkg-config would name this machine's libraries.
set(ENV{PKG_CONFIG_LIBDIR} "/usr/lib/x86_64-linux-gnu/pkgconfig:/usr/share/pkgconfig")
