// Windows 8 and later: WaitOnAddress is not older.

#undef  _WIN32_WINNT
#define _WIN32_WINNT 0x0602

#include "les-os.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <share.h>
#include <stdlib.h>
#include <windows.h>

#define LES_PAGE 4096

void * les_os_reserve(size_t n_bytes) {
    return VirtualAlloc(NULL, n_bytes, MEM_RESERVE, PAGE_NOACCESS);
}

void les_os_unreserve(void * addr, size_t n_bytes) {
    (void) n_bytes;
    VirtualFree(addr, 0, MEM_RELEASE);
}

void * les_os_alloc(size_t n_bytes) {
    return les_os_reserve(n_bytes);
}

void les_os_free(void * addr, size_t n_bytes) {
    les_os_unreserve(addr, n_bytes);
}

// Large pages need a privilege that programs do not have, so ordinary ones it is. What is committed counts against the
// limit of the system at once, and is put behind the addresses at the first access.
int les_os_commit(void * addr, size_t n_bytes) {
    return VirtualAlloc(addr, n_bytes, MEM_COMMIT, PAGE_READWRITE) ? 0 : -1;
}

void les_os_decommit(void * addr, size_t n_bytes) {
    const uintptr_t begin = ((uintptr_t) addr + LES_PAGE - 1) / LES_PAGE * LES_PAGE;
    const uintptr_t end   = ((uintptr_t) addr + n_bytes) / LES_PAGE * LES_PAGE;
    if (begin < end) {
        VirtualFree((void *) begin, end - begin, MEM_DECOMMIT);
    }
}

void les_os_advise_huge(void * addr, size_t n_bytes) {
    (void) addr;
    (void) n_bytes;
}

// A load brings a page as a store does; a store would race with reads into the arena.
void les_os_populate(void * addr, size_t n_bytes) {
    for (size_t off = 0; off < n_bytes; off += LES_PAGE) {
        (void) ((const volatile uint8_t *) addr)[off];
    }
}

int les_os_file_open(const char * path) {
    const int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t * wide = n > 0 ? malloc((size_t) n*sizeof(*wide)) : NULL;
    if (!wide) {
        errno = n > 0 ? ENOMEM : EILSEQ;
        return -1;
    }
    MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, n);
    const int handle = _wsopen(wide, _O_RDONLY | _O_BINARY | _O_RANDOM | _O_NOINHERIT, _SH_DENYNO, 0);
    const int reason = errno;
    free(wide);
    errno = reason;
    return handle;
}

void les_os_file_close(int handle) {
    _close(handle);
}

uint64_t les_os_file_bytes(int handle) {
    const int64_t n = _filelengthi64(handle);
    return n > 0 ? (uint64_t) n : 0;
}

static int les_errno(DWORD error) {
    switch (error) {
        case ERROR_ACCESS_DENIED:
        case ERROR_LOCK_VIOLATION:    return EACCES;
        case ERROR_NOT_ENOUGH_MEMORY:
        case ERROR_NO_SYSTEM_RESOURCES: return ENOMEM;
        case ERROR_NOT_READY:
        case ERROR_DEV_NOT_EXIST:     return ENODEV;
        default:                      return EIO;
    }
}

int les_os_file_read(int handle, void * buf, size_t n_bytes, uint64_t off) {
    const HANDLE file = (HANDLE) _get_osfhandle(handle);
    for (size_t done = 0; done < n_bytes;) {
        OVERLAPPED  at   = { .Offset = (DWORD) (off + done), .OffsetHigh = (DWORD) ((off + done) >> 32) };
        const DWORD want = n_bytes - done > (1u << 30) ? 1u << 30 : (DWORD) (n_bytes - done);
        DWORD       n    = 0;
        if (!ReadFile(file, (char *) buf + done, want, &n, &at)) {
            const DWORD error = GetLastError();
            return error == ERROR_HANDLE_EOF ? -1 : les_errno(error);
        }
        if (n == 0) {
            return -1;
        }
        done += n;
    }
    return 0;
}

void les_os_wait(_Atomic uint32_t * word, uint32_t seen, uint64_t timeout_ns) {
    WaitOnAddress((volatile void *) word, &seen, sizeof(seen), (DWORD) ((timeout_ns + 999999) / 1000000));
}

void les_os_wake(_Atomic uint32_t * word) {
    WakeByAddressAll((void *) word);
}

uint64_t les_os_now_ns(void) {
    LARGE_INTEGER ticks, second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&second); // constant since the system started, and cheap
    const uint64_t t = (uint64_t) ticks.QuadPart;
    const uint64_t s = (uint64_t) second.QuadPart;
    return t / s*1000000000 + t % s*1000000000 / s;
}

uint64_t les_os_memory_available(void) {
    MEMORYSTATUSEX status = { .dwLength = sizeof(status) };
    if (!GlobalMemoryStatusEx(&status)) {
        return 0;
    }
    return status.ullAvailPhys < status.ullAvailPageFile ? status.ullAvailPhys : status.ullAvailPageFile;
}

void les_os_trim(void) {
}
