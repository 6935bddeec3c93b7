#include "standin.h"

#undef gguf_write_to_file
#undef llama_decode
#undef exit

#include <atomic>
#include <climits>
#include <cstdarg>
#include <cstring>

// The run of this process, there being one at a time.
static struct {
    const les_measure_request * request;
    std::string                 log;
    ggml_backend_sched_eval_callback observer;
} g_run;

static std::atomic<bool>    g_stop;  // stored by any thread, loaded before each batch
static std::atomic<int64_t> g_done;  // stored by the run, loaded by any thread
static std::atomic<int64_t> g_total;

llama_model * les_measure_session::model() {
    return const_cast<llama_model *>(llama_get_model(g_run.request->lctx));
}

llama_context * les_measure_session::context() {
    return g_run.request->lctx;
}

bool les_measure_params(common_params & params) {
    const les_measure_request & r = *g_run.request;
    params.prompt        = r.text;
    params.prompt_file   = r.text_name;
    params.n_ctx         = r.n_ctx;
    params.n_batch       = r.n_batch;
    params.n_chunks      = r.n_chunks;
    params.out_file      = r.file;
    params.logits_file   = r.what == LES_MEASURE_IMATRIX ? "" : r.file;
    params.kl_divergence = r.what == LES_MEASURE_DIVERGENCE;
    params.compute_ppl   = r.what != LES_MEASURE_IMATRIX;
    params.imat_dat      = -1;      // GGUF, whatever the name of the file
    params.n_out_freq    = INT_MAX; // written once, at the end
    return true;
}

std::unique_ptr<les_measure_session> les_measure_init(const common_params & params) {
    g_run.observer = params.cb_eval;
    return std::make_unique<les_measure_session>();
}

bool les_measure_observe(struct ggml_tensor * tensor, bool ask, void * user_data) {
    return g_run.observer ? g_run.observer(tensor, ask, user_data) : !ask;
}

void les_measure_log(ggml_log_level, const char * format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    g_run.log += text;
}

void les_measure_exit() {
    throw std::runtime_error("it gave up");
}

// Upstream's importance data say nothing of their model, and names and shapes do not tell a model from its finetune.
bool les_measure_write(gguf_context * gguf, const char * name, bool only_meta) {
    const llama_model * model = llama_get_model(g_run.request->lctx);
    const int32_t n = llama_model_meta_val_str(model, "general.name", nullptr, 0);
    if (n > 0) {
        std::string called(n + 1, '\0'); // with the end of a C string
        llama_model_meta_val_str(model, "general.name", called.data(), called.size());
        gguf_set_val_str(gguf, LES_MEASURE_MODEL_KEY, called.c_str());
    }
    return gguf_write_to_file(gguf, name, only_meta);
}

int32_t les_measure_decode(llama_context * lctx, llama_batch batch) {
    if (g_stop.load()) {
        throw std::runtime_error("stopped");
    }
    const int32_t code = llama_decode(lctx, batch);
    llama_synchronize(lctx);
    if (code != 0) {
        throw std::runtime_error("decode failed with code " + std::to_string(code));
    }
    g_done += batch.n_tokens;
    return code;
}

// How many tokens of a text are computed: whole chunks, as many as are asked for.
static void les_measure_expect(int64_t n_tokens) {
    const les_measure_request & r = *g_run.request;
    const int64_t n_chunks = n_tokens/r.n_ctx;
    g_total = r.n_ctx*(r.n_chunks < 0 || n_chunks < r.n_chunks ? n_chunks : r.n_chunks);
}

std::vector<llama_token> les_measure_tokenize(const llama_context * lctx, const std::string & text, bool add_special, bool parse_special) {
    const llama_vocab * vocab = llama_model_get_vocab(llama_get_model(lctx));
    std::vector<llama_token> tokens(text.size() + 2);
    const int32_t n = llama_tokenize(vocab, text.data(), text.size(), tokens.data(), tokens.size(), add_special, parse_special);
    if (n < 0) {
        throw std::runtime_error("the text cannot be turned into tokens");
    }
    tokens.resize(n);
    les_measure_expect(n);
    return tokens;
}

void les_measure_batch_clear(llama_batch & batch) {
    batch.n_tokens = 0;
}

void les_measure_batch_add(llama_batch & batch, llama_token id, llama_pos pos, const std::vector<llama_seq_id> & seqs, bool logits) {
    const int32_t i = batch.n_tokens++;
    batch.token[i]    = id;
    batch.pos[i]      = pos;
    batch.n_seq_id[i] = seqs.size();
    std::copy(seqs.begin(), seqs.end(), batch.seq_id[i]);
    batch.logits[i]   = logits;
}

char * les_measure_run(const struct les_measure_request * request, bool * ok) {
    g_run  = { request, "", nullptr };
    g_stop = false;
    g_done = g_total = 0;
    les_measure_imatrix_reset();
    const std::string locale = setlocale(LC_NUMERIC, nullptr); // the programs set their own
    char name[] = "lescli";
    char * argv[] = { name, nullptr };
    try {
        *ok = (request->what == LES_MEASURE_IMATRIX ? les_measure_imatrix_main : les_measure_perplexity_main)(1, argv) == 0;
    } catch (const std::exception & err) {
        g_run.log += std::string("\n") + err.what() + "\n";
        *ok = false;
    }
    setlocale(LC_NUMERIC, locale.c_str());
    les_measure_imatrix_reset();
    char * log = strdup(g_run.log.c_str());
    g_run = {};
    return log;
}

void les_measure_stop(void) {
    g_stop = true;
}

void les_measure_progress(int64_t * done, int64_t * total) {
    *done  = g_done;
    *total = g_total;
}
