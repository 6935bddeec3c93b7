// What a program may ask of LES, from itself and from the environment; the memory there is.

#include "les-test.h"

#include "les-fit.h"
#include "les-option.h"

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"
#include "gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void clear_environment(void) {
    static const char * const names[] = { "LES", "LES_BUDGET", "LES_SLOTS", "LES_LOOKAHEAD", "LES_LANES", "LES_WARM" };
    for (size_t i = 0; i < sizeof(names)/sizeof(names[0]); i++) {
        unsetenv(names[i]);
    }
    les_option_reset();
}

static struct les_options now(void) {
    struct les_options options;
    const char * reason = les_options_now(&options);
    if (reason) {
        fprintf(stderr, "%s\n", reason);
        abort();
    }
    return options;
}

static void test_nothing_given_is_auto(void) {
    clear_environment();
    const struct les_options o = now();
    CHECK(o.mode == LES_MODE_AUTO && o.budget == 0 && o.slots == LES_SLOTS_FROM_BUDGET && o.lookahead == 1 && o.lanes == 0 && !o.warm[0]);
}

static void test_process_wins_over_environment(void) {
    clear_environment();
    setenv("LES_BUDGET", "4G", 1);
    setenv("LES_LANES", "3", 1);
    CHECK(now().mode == LES_MODE_ON && now().budget == (int64_t) 4 << 30 && now().lanes == 3);
    CHECK(les_option_set("slots", "2") == NULL); // either size of the process replaces either of the environment
    CHECK(now().slots == 2 && now().budget == 0 && now().lanes == 3);
    CHECK(les_option_set("slots", NULL) == NULL);
    CHECK(now().slots == LES_SLOTS_FROM_BUDGET && now().budget == (int64_t) 4 << 30);
    CHECK(les_option_set("mode", "off") == NULL);
    CHECK(now().mode == LES_MODE_OFF);
    les_option_reset();
    setenv("LES", "off", 1);
    setenv("LES_LOOKAHEAD", "nonsense", 1); // not looked at
    CHECK(now().mode == LES_MODE_OFF);
    CHECK(les_option_set("lanes", "2") == NULL); // the process itself asks for it
    CHECK(now().mode == LES_MODE_ON && now().lanes == 2 && now().budget == 0);
}

static void test_refusals_change_nothing(void) {
    clear_environment();
    static const char * const refused[][2] = {
        { "mode", "yes" }, { "mode", "" }, { "budget", "" }, { "budget", "4X" }, { "budget", "0" }, { "budget", "-1" }, { "budget", "1e9" },
        { "budget", "99999999999T" }, { "slots", "-1" }, { "slots", "2.5" }, { "slots", "99999999999" }, { "lookahead", "-1" }, { "lookahead", "2" },
        { "lanes", "0" }, { "lanes", "257" }, { "warm", "" }, { "frob", "1" },
    };
    for (size_t i = 0; i < sizeof(refused)/sizeof(refused[0]); i++) {
        const char * reason = les_option_set(refused[i][0], refused[i][1]);
        CHECK(reason && reason[0]);
    }
    char name[2000];
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = 0;
    CHECK(les_option_set("warm", name));
    CHECK(les_option_set("budget", "4G") == NULL);
    CHECK(les_option_set("slots", "2") && les_option_set("mode", "off")); // contradictions
    const struct les_options o = now();
    CHECK(o.budget == (int64_t) 4 << 30 && o.slots == LES_SLOTS_FROM_BUDGET && o.mode == LES_MODE_ON && o.lanes == 0);
}

static void write_text(const char * folder, const char * name, const char * text) {
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE * file = fopen(path, "w");
    CHECK(file);
    fputs(text, file);
    fclose(file);
}

static void test_least_limit_of_all_groups_above_counts(void) {
    char root[] = "les-limits-XXXXXX";
    CHECK(mkdtemp(root));
    char outer[300], inner[400];
    snprintf(outer, sizeof(outer), "%s/outer", root);
    snprintf(inner, sizeof(inner), "%s/inner", outer);
    CHECK(mkdir(outer, 0700) == 0 && mkdir(inner, 0700) == 0);
    write_text(inner, "limit", "max\n");
    CHECK(les_memory_least_limit(root, "/outer/inner", "limit") == 0);
    write_text(outer, "limit", "4096\n");
    write_text(root, "limit", "8192\n");
    CHECK(les_memory_least_limit(root, "/outer/inner", "limit") == 4096);
    CHECK(les_memory_least_limit(root, "/", "limit") == 8192);
    write_text(root, "limit", "9223372036854771712\n"); // how the first version of the interface says none
    CHECK(les_memory_least_limit(root, "/", "limit") == 0);
    const char * const made[] = { inner, outer, root };
    for (int i = 0; i < 3; i++) {
        char path[500];
        snprintf(path, sizeof(path), "%s/limit", made[i]);
        unlink(path);
        rmdir(made[i]);
    }
}

static void test_override_of_an_expert_tensor_is_found(void) {
    CHECK(les_override_hits("\\.ffn_(up|down|gate|gate_up)_(ch|)exps", 4));
    CHECK(les_override_hits("blk\\.3\\.", 4) && !les_override_hits("blk\\.4\\.", 4));
    CHECK(les_override_hits(".*", 1));
    CHECK(!les_override_hits("attn_q", 4) && !les_override_hits("ffn_up_shexp", 4) && !les_override_hits("(", 4));
}

static void write_model(const char * path, uint32_t experts, bool longer) {
    struct gguf_context * gguf = gguf_init_empty();
    gguf_set_val_str(gguf, "general.architecture", "moe");
    gguf_set_val_u32(gguf, "moe.expert_count", experts);
    if (longer) {
        gguf_set_val_u32(gguf, "moe.block_count", 4);
    }
    CHECK(gguf_write_to_file(gguf, path, true));
    gguf_free(gguf);
}

static void test_metadata_are_read_once_for_a_load(void) {
    char path[] = "test-les-look-XXXXXX";
    const int handle = mkstemp(path);
    CHECK(handle >= 0 && close(handle) == 0);
    write_model(path, 8, false);
    CHECK(les_look_at(path).experts == 8);
    write_model(path, 9, false); // as nobody does between the two: it tells a reading from what was kept
    CHECK(les_look_again(path).experts == 8 && les_look_again(path).experts == 9);
    CHECK(les_look_at(path).experts == 9);
    write_model(path, 10, true);
    CHECK(les_look_again(path).experts == 10 && les_look_again(path).blocks == 4);
    CHECK(unlink(path) == 0 && !les_look_again(path).read && !les_look_again("").read);
}

// the memory of a device

static enum ggml_backend_dev_type graphics_type(ggml_backend_dev_t dev) {
    (void) dev;
    return GGML_BACKEND_DEVICE_TYPE_GPU;
}

static bool is_host(ggml_backend_buffer_type_t buft) {
    (void) buft;
    return true;
}

static void test_only_memory_of_the_processor_is_counted(void) {
    struct ggml_backend_device      graphics = { .iface = { .get_type = graphics_type } };
    struct ggml_backend_buffer_type own      = { .device = &graphics };
    struct ggml_backend_buffer_type pinned   = { .device = &graphics, .iface = { .is_host = is_host } };
    struct ggml_backend_buffer_type other    = { .device = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0) }; // rearranged weights
    CHECK(!les_memory_is_host(&own) && les_memory_is_host(&pinned) && les_memory_is_host(&other));
    CHECK(les_memory_is_host(ggml_backend_cpu_buffer_type()));

    struct ggml_backend_buffer on_device = { .buft = &own }, in_memory = { .buft = ggml_backend_cpu_buffer_type() };
    struct ggml_tensor t = { .type = GGML_TYPE_F32, .ne = { 100, 1, 1, 1 }, .nb = { 4, 400, 400, 400 }, .buffer = &on_device };
    les_memory_take_weights();
    les_memory_note_weight(&t);
    CHECK(les_memory_take_weights() == 0);
    t.buffer = &in_memory;
    les_memory_note_weight(&t);
    t.buffer = NULL; // is to be mapped
    les_memory_note_weight(&t);
    CHECK(les_memory_take_weights() == 800 && les_memory_take_weights() == 0);
}

int main(void) {
    RUN(test_nothing_given_is_auto);
    RUN(test_process_wins_over_environment);
    RUN(test_refusals_change_nothing);
    RUN(test_least_limit_of_all_groups_above_counts);
    RUN(test_override_of_an_expert_tensor_is_found);
    RUN(test_metadata_are_read_once_for_a_load);
    RUN(test_only_memory_of_the_processor_is_counted);
    puts("ok");
    return 0;
}
