// What the wrappers for phones stand on, run on this machine: the same answer however short memory is, whole characters only,
// answers that can be ended at any time, and errors that say why. Writes the answer, which must be the same with a buffer that
// no token fits into. Compiled with llama_decode named les_test_decode in les-mobile.c, so that steps fail when told to.

#include "les-mobile.h"

#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "test-les-mobile: line %d: %s\n", __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

static bool failing; // whether steps fail

int32_t les_test_decode(struct llama_context * lctx, struct llama_batch batch);

int32_t les_test_decode(struct llama_context * lctx, struct llama_batch batch) {
    return failing ? -2 : llama_decode(lctx, batch);
}

struct answer {
    char                text[4096];
    int                 n_pieces;
    int                 n_max;    // pieces that are wanted
    struct les_mobile * canceled; // with the first piece
};

static bool take(void * user, const char * piece) {
    struct answer * a = user;
    CHECK(*piece != 0 && ((unsigned char) *piece & 0xC0) != 0x80);
    CHECK(strlen(a->text) + strlen(piece) < sizeof(a->text));
    strcat(a->text, piece);
    if (a->canceled) {
        les_mobile_cancel(a->canceled);
    }
    return ++a->n_pieces < a->n_max;
}

static struct les_mobile * open_model(const char * path, uint64_t budget, char * error, size_t n_error) {
    return les_mobile_open(&(struct les_mobile_params) {
        .model_path = path, .budget_bytes = budget, .n_threads = 2, .n_ctx = 256,
    }, error, n_error);
}

static int generate(struct les_mobile * m, const char * prompt, int n_max, struct answer * a) {
    return les_mobile_generate(m, &(struct les_mobile_question) { .asked = les_mobile_ask(m), .prompt = prompt, .n_max = n_max }, take, a);
}

static void test_answers(struct les_mobile * m, struct answer * first) {
    CHECK(generate(m, "func main() {", 16, first) > 4);
    for (int level = 2; level >= 0; level--) {
        struct answer again = { .n_max = 1000 };
        CHECK(les_mobile_pressure(m, level) == 0);
        CHECK(generate(m, "func main() {", 16, &again) > 4);
        CHECK(strcmp(again.text, first->text) == 0);
    }
    struct answer ended = { .n_max = 3 };
    CHECK(generate(m, "func main() {", 16, &ended) >= 3 && ended.n_pieces == 3);
    CHECK(generate(m, "x", 1000, &ended) == -1 && strstr(les_mobile_error(m), "longer than the context of 256"));
}

// A cancel ends what was asked before it, at whatever stage, and nothing later.
static void test_cancel(struct les_mobile * m, const char * want) {
    struct answer early = { .n_max = 1000 }, during = { .n_max = 1000, .canceled = m }, later = { .n_max = 1000 };
    const struct les_mobile_question before = { .asked = les_mobile_ask(m), .prompt = "func main() {", .n_max = 16 };
    les_mobile_cancel(m);
    CHECK(les_mobile_generate(m, &before, take, &early) == 0 && early.n_pieces == 0);
    CHECK(generate(m, "func main() {", 16, &during) >= 1 && during.n_pieces == 1);
    les_mobile_cancel(m);
    CHECK(generate(m, "func main() {", 16, &later) > 4 && strcmp(later.text, want) == 0);
}

// The reason of a failure is that of this call, not of an earlier one.
static void test_reasons(struct les_mobile * m) {
    struct answer none = { .n_max = 1000 };
    char error[1024] = "";
    CHECK(les_mobile_pressure(m, 7) != 0);
    failing = true;
    CHECK(generate(m, "func main() {", 16, &none) == -1 && strcmp(les_mobile_error(m), "the step failed; the log says more") == 0);
    failing = false;
    CHECK(generate(m, "func main() {", 16, &none) > 4 && les_mobile_error(m)[0] == 0);
    CHECK(les_mobile_pressure(m, 7) != 0);
    CHECK(!open_model("none.gguf", 0, error, sizeof(error)) && strcmp(error, "none.gguf: cannot be loaded; the log says more") == 0);
}

int main(int argc, char ** argv) {
    char error[1024] = "";
    CHECK(argc == 2);
    CHECK(!open_model(argv[1], 1000000, error, sizeof(error)) && strstr(error, "below the floor"));
    for (int cycle = 0; cycle < 2; cycle++) {
        struct les_mobile * m = open_model(argv[1], 0, error, sizeof(error));
        CHECK(m);
        struct answer first = { .n_max = 1000 };
        test_answers(m, &first);
        test_cancel(m, first.text);
        test_reasons(m);
        les_mobile_close(m);
        puts(first.text);
    }
    les_mobile_close(NULL);
    return 0;
}
