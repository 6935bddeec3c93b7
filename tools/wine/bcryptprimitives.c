// Go programs ask this library of Windows for random bytes; wine before 9 has none. For tests only.

#include <windows.h>

#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE * data, SIZE_T n_bytes) {
    return RtlGenRandom(data, (ULONG) n_bytes);
}
