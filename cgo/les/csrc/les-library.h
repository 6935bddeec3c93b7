// The engine as a library that is opened when it is wanted.

#pragma once

#include "les.h"

#include <stdint.h>

// Opens liblesext-engine, whose les_engine_register then registers it. Returns NULL, or the reason why it cannot be had; the
// text lives until the next call on this thread.
const char * les_library_open_engine(void);

// The reason why a limit of the system leaves this process too few addresses for Go's runtime, which ends a process that has not
// got them; NULL if there are enough.
LES_API const char * les_library_no_addresses(void);

// The number of this process, which a fork changes.
int64_t les_library_process(void);
