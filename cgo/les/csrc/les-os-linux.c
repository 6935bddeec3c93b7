#include "les-os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LES_HUGE ((size_t) 2 << 20)

void * les_os_reserve(size_t n_bytes) {
    void * addr = mmap(NULL, n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return addr == MAP_FAILED ? NULL : addr;
}

void les_os_unreserve(void * addr, size_t n_bytes) {
    munmap(addr, n_bytes);
}

void * les_os_alloc(size_t n_bytes) {
    // One huge page more is reserved than needed, and what lies outside the aligned part is given back.
    uint8_t * addr = mmap(NULL, n_bytes + LES_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addr == MAP_FAILED) {
        return NULL;
    }
    const size_t head = (LES_HUGE - (uintptr_t) addr % LES_HUGE) % LES_HUGE;
    if (head > 0) {
        munmap(addr, head);
    }
    munmap(addr + head + n_bytes, LES_HUGE - head);
    les_os_advise_huge(addr + head, n_bytes);
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

void les_os_free(void * addr, size_t n_bytes) {
    munmap(addr, n_bytes);
}

int les_os_file_open(const char * path) {
    const int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle >= 0) {
        posix_fadvise(handle, 0, 0, POSIX_FADV_RANDOM); // what lies beside a row is not wanted; advice only
    }
    return handle;
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

void les_os_wait(_Atomic uint32_t * word, uint32_t seen, uint64_t timeout_ns) {
    const struct timespec ts = { (time_t) (timeout_ns / 1000000000), (long) (timeout_ns % 1000000000) };
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &ts, NULL, 0);
}

void les_os_wake(_Atomic uint32_t * word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
}

void les_os_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

uint64_t les_os_now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec*1000000000 + (uint64_t) ts.tv_nsec;
}
