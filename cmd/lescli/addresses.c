// Go's runtime takes addresses before the first line of Go, and ends a program that has not got them with a trace of its own.
// The constructors of C run before it.

#include "les-library.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void lescli_check_addresses(void) {
    const char * missing = les_library_no_addresses();
    if (missing) {
        fprintf(stderr, "lescli: %s\n", missing);
        _Exit(EXIT_FAILURE);
    }
}
