// What a program may ask of LES before it loads a model, with the names and meanings of lescli's --les-* flags: mode, budget,
// slots, lookahead, lanes, warm. Options set in the process win over the environment (LES, LES_BUDGET, LES_SLOTS,
// LES_LOOKAHEAD, LES_LANES, LES_WARM), which is read when a load begins.

#pragma once

#include "les.h"

#ifdef __cplusplus
extern "C" {
#endif

enum les_mode { LES_MODE_AUTO, LES_MODE_ON, LES_MODE_OFF };

#define LES_SLOTS_FROM_BUDGET (-1)
#define LES_SLOTS_ALL         (-2)
#define LES_LANES_MAX         256 // as in lesext/sched
#define LES_LOOKAHEAD_MAX     1   // the next layer's router is all that is asked

enum les_given {
    LES_GIVEN_MODE      = 1 << 0,
    LES_GIVEN_BUDGET    = 1 << 1,
    LES_GIVEN_SLOTS     = 1 << 2,
    LES_GIVEN_LOOKAHEAD = 1 << 3,
    LES_GIVEN_LANES     = 1 << 4,
    LES_GIVEN_WARM      = 1 << 5,
};

struct les_options {
    uint32_t      given; // a bit for each option that has a value of its own
    enum les_mode mode;
    int64_t       budget;    // bytes for the whole process, 0 when not given
    int32_t       slots;     // a layer, above the floor; LES_SLOTS_FROM_BUDGET, LES_SLOTS_ALL
    int32_t       lookahead; // layers
    int32_t       lanes;     // 0 for the engine's choice
    char          warm[1024]; // file, empty for none
};

// The options when nothing is given.
LES_API struct les_options les_options_default(void);

// Gives one option a value. Returns NULL, or the reason why it is refused; the options are then as they were. The text
// lives until the next call on this thread.
LES_API const char * les_options_set(struct les_options * options, const char * name, const char * value);

// The same for the process: coming loads have the option. A value of NULL takes it back.
LES_API const char * les_option_set(const char * name, const char * value);

// Puts these in the place of all options of the process.
LES_API void les_option_replace(const struct les_options * options);

// Takes all options of the process back.
LES_API void les_option_reset(void);

// What a load that begins now is to do: options of the process, else of the environment. Returns NULL, or the reason.
LES_API const char * les_options_now(struct les_options * options);

// Reads a size such as 4G, 512M, 1.5GiB or 1048576; units are powers of 1024. Returns 0, -1 where it is none, -2 where it is
// not more than zero, -3 where it is out of range.
LES_API int32_t les_parse_size(const char * text, int64_t * bytes);

#ifdef __cplusplus
}
#endif
