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

// The whole pages of a range.
struct pages {
    void * begin;
    size_t n_bytes;
};

static struct pages pages_in(void * addr, size_t n_bytes) {
    const uintptr_t page  = (uintptr_t) sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t) addr + page - 1) / page * page;
    const uintptr_t end   = ((uintptr_t) addr + n_bytes) / page * page;
    return (struct pages) { (void *) begin, begin < end ? end - begin : 0 };
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
    const struct pages whole = pages_in(addr, n_bytes);
    if (whole.n_bytes > 0) {
        // First the pages, beside which others may take theirs; then the right to use them, and the promise of memory.
        madvise(whole.begin, whole.n_bytes, MADV_DONTNEED);
        mmap(whole.begin, whole.n_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
}

void les_os_advise_huge(void * addr, size_t n_bytes) {
    const struct pages whole = pages_in(addr, n_bytes);
    if (whole.n_bytes > 0) {
        madvise(whole.begin, whole.n_bytes, MADV_HUGEPAGE); // without huge pages it is merely slower
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
