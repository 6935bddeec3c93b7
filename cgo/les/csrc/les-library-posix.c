// Linux, Android and Apple's. The engine is Go, whose runtime starts with its library and stays for good: the library is opened
// in processes that want it, and never closed.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE // dladdr
#endif

#include "les-library.h"
#include "les.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __APPLE__
#    define LES_ENGINE "liblesext-engine.dylib"
#else
#    define LES_ENGINE "liblesext-engine.so"
#endif

// Addresses that the engine takes when it starts, most of them only to reserve them: 0.6 GiB for Go's tables, the rest for stacks
// and heaps of its threads; 1.65 GiB were seen. Go ends a process that has not got them.
#define LES_ENGINE_BYTES ((size_t) 2 << 30)

static _Thread_local char les_why[1024];

// Threads that the engine starts inherit this thread's signal mask. With the signals of the program blocked in them, its
// handlers run on its own threads, whose stacks they expect. What Go's runtime needs is left to it: faults, and the signals by
// which it stops and samples its threads.
static void les_block_signals(sigset_t * before) {
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF, SIGURG };
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(own)/sizeof(own[0]); i++) {
        sigdelset(&all, own[i]);
    }
    pthread_sigmask(SIG_BLOCK, &all, before);
}

// Opens a library beside the one that this function is in.
static void * les_open_beside(const char * name) {
    static const char here = 0;
    Dl_info info;
    char path[4096];
    if (!dladdr(&here, &info) || !info.dli_fname) {
        return NULL;
    }
    const char * slash = strrchr(info.dli_fname, '/');
    const int n = slash ? (int) (slash - info.dli_fname) : 0;
    if (!slash || snprintf(path, sizeof(path), "%.*s/%s", n, info.dli_fname, name) >= (int) sizeof(path)) {
        return NULL;
    }
    if (access(path, F_OK) != 0) {
        return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static const char * les_refuse_library(const char * reason) {
    snprintf(les_why, sizeof(les_why), "%s", reason ? reason : "no reason given");
    return les_why;
}

// True if a limit of addresses (ulimit -v) leaves too few.
static bool les_lacks_addresses(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return false;
    }
    void * range = mmap(NULL, LES_ENGINE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (range == MAP_FAILED) {
        return true;
    }
    munmap(range, LES_ENGINE_BYTES);
    return false;
}

const char * les_library_no_addresses(void) {
    if (!les_lacks_addresses()) {
        return NULL;
    }
    snprintf(les_why, sizeof(les_why), "the limit of addresses of this process (ulimit -v) leaves less than the %d MiB that the engine needs", (int) (LES_ENGINE_BYTES >> 20));
    return les_why;
}

const char * les_library_open_engine(void) {
    const char * missing = les_library_no_addresses();
    if (missing) {
        return missing;
    }
    sigset_t before;
    les_block_signals(&before);
    dlerror();
    void * library = les_open_beside(LES_ENGINE);
    const char * reason = library ? NULL : dlerror(); // of a file that is there
    if (!library && !reason) {
        library = dlopen(LES_ENGINE, RTLD_NOW | RTLD_LOCAL);
        reason  = library ? NULL : dlerror();
    }
    if (!library) {
        reason = les_refuse_library(reason);
    } else {
        void * found = dlsym(library, "les_engine_register");
        int32_t (*start)(void) = NULL;
        memcpy(&start, &found, sizeof(start)); // ISO C has no cast from an object pointer to a function pointer
        reason = !start     ? les_refuse_library(LES_ENGINE " has no les_engine_register") :
                 start() != 0 ? les_refuse_library(LES_ENGINE " is of another version than libllama") : NULL;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reason;
}

int64_t les_library_process(void) {
    return (int64_t) getpid();
}
