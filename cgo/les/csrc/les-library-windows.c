// Windows. As elsewhere, the engine is opened in processes that want it, and never closed.

#include "les-library.h"
#include "les.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>
#include <windows.h>

#define LES_ENGINE L"liblesext-engine.dll"

static _Thread_local char les_why[1024];

// What the system says about an error, in UTF-8 and without the line's end.
static const char * les_refuse_library(DWORD error) {
    wchar_t text[300];
    DWORD_PTR names[9] = { (DWORD_PTR) LES_ENGINE }; // some texts have a %1 for it
    DWORD n = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_ARGUMENT_ARRAY, NULL, error, 0, text, 300, (va_list *) names);
    while (n > 0 && (text[n - 1] == L'\r' || text[n - 1] == L'\n')) {
        n--;
    }
    text[n < 300 ? n : 299] = 0;
    const int length = snprintf(les_why, sizeof(les_why), "%ls: error %lu: ", LES_ENGINE, error);
    if (WideCharToMultiByte(CP_UTF8, 0, text, -1, les_why + length, (int) sizeof(les_why) - length, NULL, NULL) == 0) {
        les_why[length] = 0;
    }
    return les_why;
}

// Opens the engine beside the library that this function is in, where the libraries that it needs are looked for as well.
static HMODULE les_open_beside(void) {
    static const char here = 0;
    HMODULE self;
    wchar_t path[4096];
    const DWORD how = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    if (!GetModuleHandleExW(how, (const wchar_t *) &here, &self)) {
        return NULL;
    }
    const DWORD n = GetModuleFileNameW(self, path, 4096);
    wchar_t * slash = n > 0 && n < 4096 ? wcsrchr(path, L'\\') : NULL;
    if (!slash || slash + 1 - path + wcslen(LES_ENGINE) >= 4096) {
        SetLastError(ERROR_MOD_NOT_FOUND);
        return NULL;
    }
    wcscpy(slash + 1, LES_ENGINE);
    return LoadLibraryExW(path, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
}

const char * les_library_open_engine(void) {
    HMODULE library = les_open_beside();
    if (!library && GetLastError() == ERROR_MOD_NOT_FOUND) {
        library = LoadLibraryW(LES_ENGINE);
    }
    if (!library) {
        return les_refuse_library(GetLastError());
    }
    FARPROC found = GetProcAddress(library, "les_engine_register");
    int32_t (*start)(void) = NULL;
    memcpy(&start, &found, sizeof(start));
    return !start       ? "liblesext-engine.dll has no les_engine_register" :
           start() != 0 ? "liblesext-engine.dll is of another version than libllama" : NULL;
}

int64_t les_library_process(void) {
    return (int64_t) GetCurrentProcessId();
}

// A job's limit is one of memory.
const char * les_library_no_addresses(void) {
    return NULL;
}
