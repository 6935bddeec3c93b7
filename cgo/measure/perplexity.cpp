// Upstream's measure of perplexity and divergence.
#include "standin.h"

#define llama_perplexity les_measure_perplexity_main
#include "tools/perplexity/perplexity.cpp"
