// Linux and Android.

#include "les-os.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LES_HUGE ((size_t) 2 << 20)

void * les_os_alloc(size_t n_bytes) {
    const size_t page = (size_t) sysconf(_SC_PAGESIZE); // 16 or 64 KiB on some arm64 systems
    n_bytes = (n_bytes + page - 1) / page * page;
    // One huge page more is reserved than needed, and what lies outside the aligned part is given back.
    uint8_t * addr = les_os_reserve(n_bytes + LES_HUGE);
    if (!addr) {
        return NULL;
    }
    const size_t head = (LES_HUGE - (uintptr_t) addr % LES_HUGE) % LES_HUGE;
    if (head > 0) {
        munmap(addr, head);
    }
    munmap(addr + head + n_bytes, LES_HUGE - head);
    return addr + head;
}

void les_os_advise_huge(void * addr, size_t n_bytes) {
    const uintptr_t page  = (uintptr_t) sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t) addr + page - 1) / page * page;
    const uintptr_t end   = ((uintptr_t) addr + n_bytes) / page * page;
    if (begin < end) {
        madvise((void *) begin, end - begin, MADV_HUGEPAGE); // without huge pages it is merely slower
    }
}

void les_os_populate(void * addr, size_t n_bytes) {
#ifdef MADV_POPULATE_WRITE
    madvise(addr, n_bytes, MADV_POPULATE_WRITE); // Linux 5.14; before it, pages come at the first read
#else
    (void) addr;
    (void) n_bytes;
#endif
}

int les_os_file_open(const char * path) {
    const int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle >= 0) {
        posix_fadvise(handle, 0, 0, POSIX_FADV_RANDOM); // what lies beside a row is not wanted; advice only
    }
    return handle;
}

void les_os_wait(_Atomic uint32_t * word, uint32_t seen, uint64_t timeout_ns) {
    const struct timespec ts = { (time_t) (timeout_ns / 1000000000), (long) (timeout_ns % 1000000000) };
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

void les_os_wake(_Atomic uint32_t * word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
}

uint64_t les_os_memory_available(void) {
    FILE * f = fopen("/proc/meminfo", "re");
    char   line[128];
    unsigned long long kib = 0;
    while (f && kib == 0 && fgets(line, sizeof(line), f)) {
        sscanf(line, "MemAvailable: %llu kB", &kib);
    }
    if (f) {
        fclose(f);
    }
    return (uint64_t) kib << 10;
}

void les_os_trim(void) {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}
