// What Linux, Android, macOS and iOS have in common.

#include "les-os.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void * les_os_reserve(size_t n_bytes) {
    void * addr = mmap(NULL, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return addr == MAP_FAILED ? NULL : addr;
}

void les_os_unreserve(void * addr, size_t n_bytes) {
    munmap(addr, n_bytes);
}

void les_os_free(void * addr, size_t n_bytes) {
    munmap(addr, n_bytes);
}

int les_os_commit(void * addr, size_t n_bytes) {
    const uintptr_t page  = (uintptr_t) sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t) addr / page * page;
    if (mprotect((void *) begin, (uintptr_t) addr + n_bytes - begin, PROT_READ | PROT_WRITE) != 0) {
        return -1;
    }
    les_os_advise_huge(addr, n_bytes);
    return 0;
}

void les_os_decommit(void * addr, size_t n_bytes) {
    const uintptr_t page  = (uintptr_t) sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t) addr + page - 1) / page * page;
    const uintptr_t end   = ((uintptr_t) addr + n_bytes) / page * page;
    if (begin < end) {
        // First the pages, beside which others may take theirs; then the right to use them, and the promise of memory.
        madvise((void *) begin, end - begin, MADV_DONTNEED);
        mmap((void *) begin, end - begin, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
}

void les_os_file_close(int handle) {
    close(handle);
}

int les_os_file_read(int handle, void * buf, size_t n_bytes, uint64_t off) {
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = pread(handle, (char *) buf + done, n_bytes - done, (off_t) (off + done));
        if (n == 0) {
            return -1;
        }
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        done += n > 0 ? (size_t) n : 0;
    }
    return 0;
}

uint64_t les_os_file_bytes(int handle) {
    struct stat info;
    return fstat(handle, &info) == 0 && info.st_size > 0 ? (uint64_t) info.st_size : 0;
}

uint64_t les_os_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec*1000000000 + (uint64_t) ts.tv_nsec;
}
