// Upstream says what it would make of each tensor in its log only, so the log is what this returns.
#include "quantize.h"

#include <cstring>
#include <list>
#include <sstream>
#include <string>
#include <vector>

static void les_llama_collect(ggml_log_level, const char * text, void * user_data) {
    static_cast<std::string *>(user_data)->append(text);
}

char * les_llama_quantize_plan(const char * path, enum llama_ftype ftype, bool imatrix, const char * overrides, bool * ok) {
    std::list<std::string> patterns; // a list does not move its elements
    std::vector<llama_model_tensor_override> list;
    std::istringstream lines(overrides);
    for (int type; lines >> type;) {
        std::string pattern;
        std::getline(lines >> std::ws, pattern);
        patterns.push_back(pattern);
        list.push_back({ patterns.back().c_str(), static_cast<ggml_type>(type) });
    }
    list.push_back({ nullptr, GGML_TYPE_COUNT });

    // The choice of types depends on whether there is importance data, not on what it says.
    const float one = 1.0f;
    const llama_model_imatrix_data some[] = { { "", &one, 1 }, { nullptr, nullptr, 0 } };

    llama_model_quantize_params params = llama_model_quantize_default_params();
    params.ftype        = ftype;
    params.dry_run      = true;
    params.imatrix      = imatrix ? some : nullptr;
    params.tt_overrides = list.data();

    ggml_log_callback callback;
    void * user_data;
    std::string log;
    llama_log_get(&callback, &user_data);
    llama_log_set(les_llama_collect, &log);
    *ok = llama_model_quantize(path, "", &params) == 0;
    llama_log_set(callback, user_data);
    return strdup(log.c_str());
}
