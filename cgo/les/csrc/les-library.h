// The engine as a library that is opened when it is wanted.

#pragma once

#include <stdint.h>

// Opens liblesext-engine, whose les_engine_register then registers it. Returns NULL, or the reason why it cannot be had; the
// text lives until the next call on this thread.
const char * les_library_open_engine(void);

// The number of this process, which a fork changes.
int64_t les_library_process(void);
