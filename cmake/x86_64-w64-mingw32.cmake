# windows/amd64 with mingw-w64 and POSIX threads (g++-mingw-w64-x86-64-posix on Debian); programs run under wine.
set(CMAKE_SYSTEM_NAME      Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)

set(CMAKE_C_COMPILER   x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER  x86_64-w64-mingw32-windres)

# What ggml's C uses of Windows 8 and later is missing in older headers, as in Debian 12's; it does without where it is
# told so. The C++ of upstream's programs is for Windows 10 and later alone.
set(CMAKE_C_FLAGS_INIT   -D_WIN32_WINNT=0x0601)
set(CMAKE_CXX_FLAGS_INIT -D_WIN32_WINNT=0x0A00)

set(CMAKE_FIND_ROOT_PATH /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(CMAKE_CROSSCOMPILING_EMULATOR wine)
