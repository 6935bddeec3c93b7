// macOS and iOS.

#include "les-os.h"

#include <TargetConditionals.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/sysctl.h>
#include <unistd.h>

#if TARGET_OS_IPHONE
#    include <os/proc.h>
#endif

// The system has no huge pages to ask for.
void * les_os_alloc(size_t n_bytes) {
    return les_os_reserve(n_bytes);
}

void les_os_advise_huge(void * addr, size_t n_bytes) {
    (void) addr;
    (void) n_bytes;
}

// The first access to a page of anonymous memory brings it, a load too; a store would race with reads into the arena.
void les_os_populate(void * addr, size_t n_bytes) {
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    for (size_t off = 0; off < n_bytes; off += page) {
        (void) ((const volatile uint8_t *) addr)[off];
    }
}

int les_os_file_open(const char * path) {
    const int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle >= 0) {
        fcntl(handle, F_RDAHEAD, 0); // what lies beside a row is not wanted; advice only
    }
    return handle;
}

// Waiting on an address is public since macOS 14.4 and iOS 17.4; what it rests on (ulock) is not, and keeps an app out of
// the App Store. Older systems wait on a condition.
#define LES_SHARED_NOT 0u // OS_SYNC_WAIT_ON_ADDRESS_NONE, OS_SYNC_WAKE_BY_ADDRESS_NONE
#define LES_CLOCK_MACH 32u // OS_CLOCK_MACH_ABSOLUTE_TIME

static struct {
    pthread_once_t  once;
    int (*wait)(void * addr, uint64_t value, size_t size, uint32_t flags, uint32_t clock, uint64_t timeout_ns);
    int (*wake)(void * addr, size_t size, uint32_t flags);
    pthread_mutex_t mutex; // orders a wake behind the look at the word that precedes a sleep
    pthread_cond_t  woken;
} les_waiting = { .once = PTHREAD_ONCE_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER, .woken = PTHREAD_COND_INITIALIZER };

static void les_waiting_find(void) {
    *(void **) &les_waiting.wait = dlsym(RTLD_DEFAULT, "os_sync_wait_on_address_with_timeout");
    *(void **) &les_waiting.wake = dlsym(RTLD_DEFAULT, "os_sync_wake_by_address_all");
}

void les_os_wait(_Atomic uint32_t * word, uint32_t seen, uint64_t timeout_ns) {
    pthread_once(&les_waiting.once, les_waiting_find);
    if (les_waiting.wait && les_waiting.wake) {
        les_waiting.wait(word, seen, sizeof(*word), LES_SHARED_NOT, LES_CLOCK_MACH, timeout_ns);
        return;
    }
    const struct timespec ts = { (time_t) (timeout_ns / 1000000000), (long) (timeout_ns % 1000000000) };
    pthread_mutex_lock(&les_waiting.mutex);
    if (atomic_load_explicit(word, memory_order_acquire) == seen) {
        pthread_cond_timedwait_relative_np(&les_waiting.woken, &les_waiting.mutex, &ts);
    }
    pthread_mutex_unlock(&les_waiting.mutex);
}

void les_os_wake(_Atomic uint32_t * word) {
    pthread_once(&les_waiting.once, les_waiting_find);
    if (les_waiting.wait && les_waiting.wake) {
        les_waiting.wake(word, sizeof(*word), LES_SHARED_NOT);
        return;
    }
    pthread_mutex_lock(&les_waiting.mutex);
    pthread_cond_broadcast(&les_waiting.woken);
    pthread_mutex_unlock(&les_waiting.mutex);
}

uint64_t les_os_memory_available(void) {
#if TARGET_OS_IPHONE && !TARGET_OS_SIMULATOR
    return os_proc_available_memory(); // up to the limit at which the system ends this process
#else
    uint64_t total = 0;
    uint32_t free_percent = 0; // what the system itself calls free: it counts what it can reclaim
    size_t   n_total   = sizeof(total);
    size_t   n_percent = sizeof(free_percent);
    if (sysctlbyname("hw.memsize", &total, &n_total, NULL, 0) != 0 ||
            sysctlbyname("kern.memorystatus_level", &free_percent, &n_percent, NULL, 0) != 0) {
        return 0;
    }
    return total / 100 * free_percent;
#endif
}

void les_os_trim(void) {
}
