// What llama.cpp's programs call to offer LES: options of their command lines, columns of llama-bench, and in les-server.h what
// llama-server tells and is asked. It knows none of their types: they come as template arguments, so that every change of the
// programs themselves is one line, LES_HOOK(call).

#pragma once

#include "les-report.h"
#include "les-server.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <signal.h>
#endif

#define LES_HOOK(...) __VA_ARGS__

// options

inline void les_set_option(const char * name, const char * value) {
    if (const char * reason = les_option_set(name, value)) {
        throw std::invalid_argument(reason);
    }
}

// Adds the flags to a list of Arg whose handlers take Params. Handlers hold no state, so there is one for each flag.
template <typename Arg, typename Params, int I = 0, typename Add>
void les_add_options(Add & add) {
    if constexpr (I < LES_N_FLAGS) {
        const les_flag flag = les_report_flag(I);
        add(Arg({ flag.flag }, flag.hint, flag.help, [](Params &, const std::string & value) {
            les_set_option(les_report_flag(I).name, value.c_str());
        }));
        les_add_options<Arg, Params, I + 1>(add);
    }
}

// the log

struct common_log;
common_log * common_log_main();
void         common_log_pause(common_log * log);

#ifdef _WIN32
inline void les_write_log_at_exit() {} // threads are gone before the handlers of a library run
#else
// How long a program waits at its end for a reader of its log that has stopped. It is chosen, not measured: an interrupt ends it.
constexpr std::chrono::seconds les_log_patience{5};

// True in a handler of what asks a program to end.
inline bool les_is_interrupted() {
    sigset_t blocked;
    return pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0 && (sigismember(&blocked, SIGINT) == 1 || sigismember(&blocked, SIGTERM) == 1);
}

// Writes what the log still has. A handler, in which llama-server ends at the second Ctrl-C, may have interrupted whoever holds
// the lock of the log: nothing is written there.
inline void les_write_log() {
    if (les_is_interrupted()) {
        return;
    }
    for (const int number : { SIGINT, SIGTERM }) {
        struct sigaction action;
        if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
            signal(number, SIG_DFL);
        }
    }
    try {
        const auto written = std::make_shared<std::promise<void>>();
        std::thread([written] {
            common_log_pause(common_log_main()); // the log itself is never freed
            written->set_value();
        }).detach();
        written->get_future().wait_for(les_log_patience);
    } catch (const std::exception &) { // no thread is to be had
    }
}

// The log of common has a thread of its own, which no program but llama-server waits for at its end: the reason why a model is
// refused would be lost.
inline void les_write_log_at_exit() {
    static bool done = false;
    les_options options;
    if (done || (!les_options_now(&options) && options.mode == LES_MODE_OFF)) {
        return;
    }
    done = true;
    std::atexit(les_write_log);
}
#endif

// contexts

// Chooses the length of a context that nobody has asked for. llama.cpp would take what the model was trained for, and makes that
// less only for the memory of devices, of which streaming uses none; -c 0, which sets no least length, still asks for it.
template <typename Params>
void les_choose_context(Params & params) {
    les_write_log_at_exit();
    if (params.n_ctx != 0 || static_cast<uint32_t>(params.fit_params_min_ctx) == UINT32_MAX) {
        return;
    }
    params.n_ctx = static_cast<int32_t>(les_host_context_tokens(params.model.path.c_str()));
}

// llama-bench

// The paths of models that were asked for.
inline std::vector<std::string> & les_bench_models() {
    static std::vector<std::string> models;
    return models;
}

// Takes argument i and its value if the flag is one of LES. It looks at the models too.
inline bool les_bench_option(const std::string & arg, int & i, int argc, char ** argv) {
    const char * value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (value && (arg == "-m" || arg == "--model")) {
        les_bench_models().push_back(value);
    }
    for (int32_t f = 0; f < LES_N_FLAGS; f++) {
        const les_flag flag = les_report_flag(f);
        if (arg == flag.flag) {
            if (!value) {
                throw std::invalid_argument("a value is missing");
            }
            les_set_option(flag.name, value);
            i++;
            return true;
        }
    }
    return false;
}

inline void les_bench_usage() {
    printf("\nexperts streamed from flash:\n");
    for (int32_t f = 0; f < LES_N_FLAGS; f++) {
        const les_flag flag = les_report_flag(f);
        printf("  %-16s %-14s %s\n", flag.flag, flag.hint, flag.help);
    }
}

// The fields and, if one of the models is to be streamed, the columns behind them.
inline std::vector<std::string> les_bench_fields(std::vector<std::string> fields) {
    for (const std::string & path : les_bench_models()) {
        if (les_host_would_stream(path.c_str())) {
            fields.insert(fields.end(), { "les_slots", "les_budget", "les_hit_rate" });
            break;
        }
    }
    return fields;
}

inline bool les_bench_is_number(const std::string & field) {
    return field.compare(0, 4, "les_") == 0;
}

// Adds the values of the columns if n fields are wanted: of the test that has just ended, its warm-up included.
inline void les_bench_values(std::vector<std::string> & values, size_t n) {
    static les_stats before = {};
    static double    rate   = 0;
    if (values.size() == n) {
        return;
    }
    les_plan  plan = {};
    les_stats now  = {};
    const llama_model * model = les_host_first_model();
    if (model && les_host_plan(model, &plan) == 0 && les_host_stats(model, &now) == 0 && now.lookups != before.lookups) {
        if (now.lookups < before.lookups) {
            before = {}; // another model
        }
        rate   = double(now.hits - before.hits)/double(now.lookups - before.lookups);
        before = now;
    }
    values.push_back(std::to_string(plan.slot_count));
    values.push_back(std::to_string(plan.budget));
    values.push_back(std::to_string(model ? rate : 0));
}
