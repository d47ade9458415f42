# Toolchain: the processor that ASUP_CROSS names (aarch64, x86_64) on a machine of another one, by
# Debian's cross compiler and the libraries of that architecture's packages, which lie in folders of
# their own beside this machine's. `make arm` and `make x86` use it.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ASUP_CROSS)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${ASUP_CROSS})
set(CMAKE_C_COMPILER ${ASUP_CROSS}-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${ASUP_CROSS}-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${ASUP_CROSS})

# This machine's own pkg-config would name this machine's libraries.
set(ENV{PKG_CONFIG_LIBDIR} "/usr/lib/${ASUP_CROSS}-linux-gnu/pkgconfig:/usr/share/pkgconfig")
