// What a program shows of LES, as text: options for its command line, metrics for a server, a plan.

#pragma once

#include "les-host.h"

#ifdef __cplusplus
extern "C" {
#endif

// One of the options of les-option.h as a program offers it.
struct les_flag {
    const char * name; // of les_option_set
    const char * flag; // of a command line
    const char * hint; // what its value is
    const char * help;
};

#define LES_N_FLAGS 6

// The flag with this number, below LES_N_FLAGS.
LES_API struct les_flag les_report_flag(int32_t i);

// So many models are told of, those that were loaded first.
#define LES_N_TOLD 8

// The functions below write no more than size bytes, the end included, and return the length of the whole text.

// What the streamed models of this process did, in the text format of Prometheus; nothing where there was none. From the first
// time on that several are told of, each line has a label with the model's name.
LES_API size_t les_report_metrics(char * text, size_t size);

// The plan of the model that was loaded first, with what it was worth so far, as a JSON object; "others" are those loaded later.
LES_API size_t les_report_plan(char * text, size_t size);

#ifdef __cplusplus
}
#endif
