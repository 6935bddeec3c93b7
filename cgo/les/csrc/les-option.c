// The options of a program, from itself and from the environment. Numbers are read by hand: the C library's functions would
// follow the locale of the host.

#include "les-option.h"
#include "les-impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The options of the process. The lock guards them.
static struct {
    _Atomic int32_t    lock;
    bool               set; // process holds options; without it they are the default ones
    struct les_options process;
} les_o;

static _Thread_local char les_reason[1400];

static const char * les_refuse(const char * format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(les_reason, sizeof(les_reason), format, args);
    va_end(args);
    return les_reason;
}

struct les_options les_options_default(void) {
    return (struct les_options) { .mode = LES_MODE_AUTO, .slots = LES_SLOTS_FROM_BUDGET, .lookahead = 1 };
}

// sizes and numbers

static bool les_is_digit(char c) {
    return c >= '0' && c <= '9';
}

static char les_upper(char c) {
    return c >= 'a' && c <= 'z' ? (char) (c - 'a' + 'A') : c;
}

// The power of 1024 that a unit stands for, -1 for what is no unit. Spaces around it count for nothing.
static int les_unit_power(const char * text) {
    static const char letters[] = "KMGT";
    while (*text == ' ') {
        text++;
    }
    int power = 0;
    for (int i = 0; letters[i]; i++) {
        if (les_upper(*text) == letters[i]) {
            power = i + 1;
        }
    }
    text += power > 0;
    text += power > 0 && les_upper(text[0]) == 'I' && les_upper(text[1]) == 'B';
    text += les_upper(*text) == 'B';
    while (*text == ' ') {
        text++;
    }
    return *text == 0 ? power : -1;
}

int32_t les_parse_size(const char * text, int64_t * bytes) {
    while (*text == ' ') {
        text++;
    }
    const bool negative = *text == '-';
    text += negative;
    double value  = 0;
    double scale  = 0; // of the next digit behind the point, 0 before it
    int    digits = 0;
    for (; les_is_digit(*text) || (*text == '.' && scale == 0); text++) {
        if (*text == '.') {
            scale = 1;
            continue;
        }
        digits++;
        if (scale > 0) {
            scale /= 10;
            value += (*text - '0')*scale;
        } else {
            value = value*10 + (*text - '0');
        }
    }
    const int power = les_unit_power(text);
    if (digits == 0 || power < 0) {
        return -1;
    }
    if (negative || value <= 0) {
        return -2;
    }
    value *= (double) ((int64_t) 1 << 10*power);
    if (value < 1 || value >= 9223372036854775808.0) {
        return -3;
    }
    *bytes = (int64_t) value;
    return 0;
}

// A whole number without a sign but minus; false for anything else.
static bool les_parse_number(const char * text, int32_t * number) {
    const bool negative = *text == '-';
    const char * at = text + negative;
    int64_t value = 0;
    for (; les_is_digit(*at) && value <= INT32_MAX; at++) {
        value = value*10 + (*at - '0');
    }
    if (*at != 0 || at == text + negative || value > INT32_MAX) {
        return false;
    }
    *number = (int32_t) (negative ? -value : value);
    return true;
}

// options, one by one

static const char * les_set_mode(struct les_options * o, const char * value) {
    static const char * const names[] = { "auto", "on", "off" };
    for (int i = 0; i < 3; i++) {
        if (strcmp(value, names[i]) == 0) {
            o->mode = (enum les_mode) i;
            return NULL;
        }
    }
    return les_refuse("\"%s\" is neither on, off nor auto", value);
}

static const char * les_set_budget(struct les_options * o, const char * value) {
    switch (les_parse_size(value, &o->budget)) {
        case -1: return les_refuse("\"%s\" is not a size like 4G, 512M or 1048576", value);
        case -2: return les_refuse("\"%s\" must be more than zero", value);
        case -3: return les_refuse("\"%s\" is out of range", value);
        default: return NULL;
    }
}

static const char * les_set_slots(struct les_options * o, const char * value) {
    if (strcmp(value, "floor") == 0) {
        o->slots = 0;
    } else if (strcmp(value, "all") == 0) {
        o->slots = LES_SLOTS_ALL;
    } else if (!les_parse_number(value, &o->slots)) {
        return les_refuse("\"%s\" is neither a number, floor nor all", value);
    } else if (o->slots < 0) {
        return les_refuse("%d is negative", (int) o->slots);
    }
    return NULL;
}

static const char * les_set_lookahead(struct les_options * o, const char * value) {
    if (!les_parse_number(value, &o->lookahead)) {
        return les_refuse("\"%s\" is not a number", value);
    }
    if (o->lookahead < 0) {
        return les_refuse("%d is negative", (int) o->lookahead);
    }
    return o->lookahead > LES_LOOKAHEAD_MAX ? les_refuse("%d is more than %d", (int) o->lookahead, LES_LOOKAHEAD_MAX) : NULL;
}

static const char * les_set_lanes(struct les_options * o, const char * value) {
    if (!les_parse_number(value, &o->lanes)) {
        return les_refuse("\"%s\" is not a number", value);
    }
    if (o->lanes <= 0) {
        return les_refuse("%d must be more than zero", (int) o->lanes);
    }
    return o->lanes > LES_LANES_MAX ? les_refuse("%d is more than %d", (int) o->lanes, LES_LANES_MAX) : NULL;
}

static const char * les_set_warm(struct les_options * o, const char * value) {
    const size_t n = strlen(value);
    if (n == 0) {
        return les_refuse("the name of the file is empty");
    }
    if (n >= sizeof(o->warm)) {
        return les_refuse("the name of the file has %zu bytes, at most %zu are allowed", n, sizeof(o->warm) - 1);
    }
    memcpy(o->warm, value, n + 1);
    return NULL;
}

static const struct les_option {
    const char *   name;
    const char *   env;
    enum les_given bit;
    const char * (*set)(struct les_options * o, const char * value);
} les_table[] = {
    { "mode",      "LES",           LES_GIVEN_MODE,      les_set_mode      },
    { "budget",    "LES_BUDGET",    LES_GIVEN_BUDGET,    les_set_budget    },
    { "slots",     "LES_SLOTS",     LES_GIVEN_SLOTS,     les_set_slots     },
    { "lookahead", "LES_LOOKAHEAD", LES_GIVEN_LOOKAHEAD, les_set_lookahead },
    { "lanes",     "LES_LANES",     LES_GIVEN_LANES,     les_set_lanes     },
    { "warm",      "LES_WARM",      LES_GIVEN_WARM,      les_set_warm      },
};

enum { LES_N_OPTIONS = sizeof(les_table)/sizeof(les_table[0]) };

static const struct les_option * les_find_option(const char * name) {
    for (int i = 0; i < LES_N_OPTIONS; i++) {
        if (strcmp(name, les_table[i].name) == 0) {
            return &les_table[i];
        }
    }
    return NULL;
}

// The reason why options of one source cannot be had together, NULL where they can.
static const char * les_contradiction(const struct les_options * o) {
    if ((o->given & LES_GIVEN_BUDGET) && (o->given & LES_GIVEN_SLOTS)) {
        return les_refuse("a budget and a number of slots contradict: either decides the other");
    }
    if (o->mode == LES_MODE_OFF && (o->given & ~(uint32_t) LES_GIVEN_MODE)) {
        return les_refuse("off contradicts every other option");
    }
    return NULL;
}

const char * les_options_set(struct les_options * options, const char * name, const char * value) {
    const struct les_option * option = les_find_option(name);
    if (!option) {
        return les_refuse("there is no option \"%s\"; those there are: mode, budget, slots, lookahead, lanes, warm", name);
    }
    struct les_options changed = *options;
    const char * reason = option->set(&changed, value);
    changed.given |= (uint32_t) option->bit;
    if (!reason) {
        reason = les_contradiction(&changed);
    }
    if (!reason) {
        *options = changed;
    }
    return reason;
}

// Makes one option of a what it is in b, given or not.
static void les_copy_option(struct les_options * a, const struct les_options * b, enum les_given bit) {
    switch (bit) {
        case LES_GIVEN_MODE:      a->mode      = b->mode;      break;
        case LES_GIVEN_BUDGET:    a->budget    = b->budget;    break;
        case LES_GIVEN_SLOTS:     a->slots     = b->slots;     break;
        case LES_GIVEN_LOOKAHEAD: a->lookahead = b->lookahead; break;
        case LES_GIVEN_LANES:     a->lanes     = b->lanes;     break;
        case LES_GIVEN_WARM:      memcpy(a->warm, b->warm, sizeof(a->warm)); break;
    }
    a->given = (a->given & ~(uint32_t) bit) | (b->given & (uint32_t) bit);
}

// options of the process

static struct les_options les_process_options(void) {
    les_lock(&les_o.lock);
    struct les_options options = les_o.set ? les_o.process : les_options_default();
    les_unlock(&les_o.lock);
    return options;
}

void les_option_replace(const struct les_options * options) {
    les_lock(&les_o.lock);
    les_o.process = *options;
    les_o.set     = true;
    les_unlock(&les_o.lock);
}

const char * les_option_set(const char * name, const char * value) {
    struct les_options options = les_process_options();
    const struct les_option * option = les_find_option(name);
    if (option && !value) {
        const struct les_options none = les_options_default();
        les_copy_option(&options, &none, option->bit);
        les_option_replace(&options);
        return NULL;
    }
    const char * reason = les_options_set(&options, name, value ? value : "");
    if (!reason) {
        les_option_replace(&options);
    }
    return reason;
}

void les_option_reset(void) {
    const struct les_options none = les_options_default();
    les_option_replace(&none);
}

// The environment's options. An empty variable counts as none; with LES=off nothing else is looked at.
static const char * les_read_environment(struct les_options * o) {
    *o = les_options_default();
    for (int i = 0; i < LES_N_OPTIONS && o->mode != LES_MODE_OFF; i++) {
        const char * value = getenv(les_table[i].env);
        if (!value || !*value) {
            continue;
        }
        const char * reason = les_options_set(o, les_table[i].name, value);
        if (reason) {
            char text[sizeof(les_reason) - 32];
            snprintf(text, sizeof(text), "%s", reason);
            return les_refuse("%s: %s", les_table[i].env, text);
        }
    }
    return NULL;
}

const char * les_options_now(struct les_options * options) {
    struct les_options process = les_process_options();
    if (process.given & LES_GIVEN_MODE && process.mode == LES_MODE_OFF) {
        *options = process;
        return NULL;
    }
    const char * reason = les_read_environment(options);
    if (reason) {
        return reason;
    }
    // A size of the process takes the place of either size of the environment.
    if (process.given & (LES_GIVEN_BUDGET | LES_GIVEN_SLOTS)) {
        const struct les_options none = les_options_default();
        les_copy_option(options, &none, LES_GIVEN_BUDGET);
        les_copy_option(options, &none, LES_GIVEN_SLOTS);
    }
    for (int i = 0; i < LES_N_OPTIONS; i++) {
        if (process.given & (uint32_t) les_table[i].bit) {
            les_copy_option(options, &process, les_table[i].bit);
        }
    }
    // Who names a size or how to read wants LES; off in the environment gives way to what the process itself asks for.
    const bool off = options->mode == LES_MODE_OFF;
    if ((process.given | (off ? 0 : options->given)) & ~(uint32_t) LES_GIVEN_MODE) {
        options->mode = LES_MODE_ON;
    }
    return NULL;
}
