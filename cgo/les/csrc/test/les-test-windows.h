// What the tests use of POSIX and Windows has otherwise or not at all.

#pragma once

#include <direct.h>
#include <io.h>
#include <process.h>
#include <windows.h>

#define mkdir(path, mode) _mkdir(path)

static inline int setenv(const char * name, const char * value, int overwrite) {
    (void) overwrite;
    return _putenv_s(name, value);
}

static inline int unsetenv(const char * name) {
    return _putenv_s(name, "");
}

static inline char * mkdtemp(char * path) {
    return _mktemp(path) && _mkdir(path) == 0 ? path : NULL;
}

static unsigned __stdcall les_test_watch(void * seconds) {
    Sleep((DWORD) (uintptr_t) seconds*1000);
    fputs("the watchdog ends the test\n", stderr);
    _exit(3);
}

static inline void alarm(unsigned seconds) {
    CloseHandle((HANDLE) _beginthreadex(NULL, 0, les_test_watch, (void *) (uintptr_t) seconds, 0, NULL));
}
