// What LES needs of the operating system: address space, memory, files, waiting, a clock.

#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

// Address space that faults on any access; NULL on failure.
void * les_os_reserve(size_t n_bytes);
void   les_os_unreserve(void * addr, size_t n_bytes);

// Address space on a huge-page boundary for memory that comes and goes; NULL on failure.
void * les_os_alloc(size_t n_bytes);
void   les_os_free(void * addr, size_t n_bytes);

// Lets the range be used, zeroed where it has not been, huge pages asked for where the system has them. 0, or -1 on failure.
int  les_os_commit(void * addr, size_t n_bytes);
// Gives what is behind the whole pages of the range back to the system; it must be committed before it is used again.
void les_os_decommit(void * addr, size_t n_bytes);

// Asks for huge pages behind memory that has not been used yet. Advice only.
void les_os_advise_huge(void * addr, size_t n_bytes);

// Makes the system put memory behind the range now rather than at the first access. Advice only.
void les_os_populate(void * addr, size_t n_bytes);

// Opens a file, its name in UTF-8, to read few bytes at any place, through the page cache. -1 on failure, with errno set.
int  les_os_file_open(const char * path);
void les_os_file_close(int handle);
uint64_t les_os_file_bytes(int handle); // 0 where it is not known

// Reads all the bytes: short reads are continued, interrupted ones repeated. Returns 0, or errno, or -1 at the end of the file.
int les_os_file_read(int handle, void * buf, size_t n_bytes, uint64_t off);

// Sleeps while *word == seen, at most timeout_ns; may return early.
void les_os_wait(_Atomic uint32_t * word, uint32_t seen, uint64_t timeout_ns);
void les_os_wake(_Atomic uint32_t * word);

uint64_t les_os_now_ns(void);

// What this process may still take before the system refuses memory or ends it, as far as the system tells; 0 when it does not.
uint64_t les_os_memory_available(void);

// Gives what malloc keeps of freed memory back to the system, where malloc can be asked to.
void les_os_trim(void);

// Inside a spin. It depends on the processor alone.
static inline void les_os_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}
