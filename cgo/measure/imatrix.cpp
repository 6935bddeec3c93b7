// Upstream's collector of importance data.
#include "standin.h"

#define main les_measure_imatrix_main
#include "tools/imatrix/imatrix.cpp"
#undef main

#include <new>

// The collector is global and adds up over the life of a process; here each run has its own.
void les_measure_imatrix_reset() {
    g_collector.~IMatrixCollector();
    new (&g_collector) IMatrixCollector();
}
