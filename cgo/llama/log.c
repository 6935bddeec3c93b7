#include "log.h"
#include "llama.h"
#include "_cgo_export.h"

static void les_llama_log_forward(enum ggml_log_level level, const char * text, void * user_data) {
    (void) user_data;
    lesLlamaLog((int) level, (char *) text);
}

void les_llama_log_install(void) {
    llama_log_set(les_llama_log_forward, NULL);
}
