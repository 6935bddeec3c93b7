// Stands in for what upstream's programs take from the common library: arguments, the model, the log, tokens. It is included
// before their source, which is compiled as it is. Everything has a name of its own, so that the real library may be there too.
#pragma once

#include "arg.h"
#include "common.h"
#include "fit.h"
#include "imatrix-loader.h"
#include "log.h"
#include "measure.h"

#include <clocale>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// A run in progress.
struct les_measure_session {
    llama_model *   model();
    llama_context * context();
};

int les_measure_imatrix_main(int argc, char ** argv);
int les_measure_perplexity_main(int argc, char ** argv);
void les_measure_imatrix_reset();

bool les_measure_params(common_params & params);
std::unique_ptr<les_measure_session> les_measure_init(const common_params & params);
void les_measure_log(ggml_log_level level, const char * format, ...) __attribute__((format(printf, 2, 3)));
[[noreturn]] void les_measure_exit();
bool les_measure_write(gguf_context * gguf, const char * name, bool only_meta);
int32_t les_measure_decode(llama_context * lctx, llama_batch batch);
std::vector<llama_token> les_measure_tokenize(const llama_context * lctx, const std::string & text, bool add_special, bool parse_special = false);
void les_measure_batch_clear(llama_batch & batch);
void les_measure_batch_add(llama_batch & batch, llama_token id, llama_pos pos, const std::vector<llama_seq_id> & seqs, bool logits);

#undef LOG_TMPL
#define LOG_TMPL(level, verbosity, ...) les_measure_log(level, __VA_ARGS__)

#define common_init()                            ((void) 0)
#define common_params_parse(argc, argv, params, ...) les_measure_params(params)
#define common_init_from_params(params)          les_measure_init(params)
#define common_params_get_system_info(params)    std::string()
#define common_memory_breakdown_print(lctx)      ((void) 0)
#define common_tokenize                          les_measure_tokenize
#define common_batch_clear                       les_measure_batch_clear
#define common_batch_add                         les_measure_batch_add
#define common_imatrix_load(name, imatrix)       (GGML_UNUSED(name), false)
#define llama_decode                             les_measure_decode
#define llama_backend_init()                     ((void) 0)
#define llama_backend_free()                     ((void) 0)
#define llama_numa_init(numa)                    ((void) 0)
#define llama_perf_context_print(lctx)           ((void) 0)
#define gguf_write_to_file                       les_measure_write
#define exit(code)                               les_measure_exit()
