// What the wrappers for phones stand on, run on this machine: the same answer however short memory is, whole characters only,
// an answer that can be ended, and errors that say why.

#include "les-mobile.h"

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

struct answer {
    char text[4096];
    int  n_pieces;
    int  n_max; // pieces that are wanted
};

static bool take(void * user, const char * piece) {
    struct answer * a = user;
    CHECK(*piece != 0 && ((unsigned char) *piece & 0xC0) != 0x80);
    CHECK(strlen(a->text) + strlen(piece) < sizeof(a->text));
    strcat(a->text, piece);
    return ++a->n_pieces < a->n_max;
}

static struct les_mobile * open_model(const char * path, uint64_t budget, char * error, size_t n_error) {
    return les_mobile_open(&(struct les_mobile_params) {
        .model_path = path, .budget_bytes = budget, .n_threads = 2, .n_ctx = 256,
    }, error, n_error);
}

static void test_answers(struct les_mobile * m) {
    struct answer first = { .n_max = 1000 };
    CHECK(les_mobile_generate(m, "func main() {", 16, take, &first) > 4);
    for (int level = 2; level >= 0; level--) {
        struct answer again = { .n_max = 1000 };
        CHECK(les_mobile_pressure(m, level) == 0);
        CHECK(les_mobile_generate(m, "func main() {", 16, take, &again) > 4);
        CHECK(strcmp(again.text, first.text) == 0);
    }
    struct answer ended = { .n_max = 3 };
    CHECK(les_mobile_generate(m, "func main() {", 16, take, &ended) >= 3 && ended.n_pieces == 3);
    CHECK(les_mobile_pressure(m, 7) != 0);
    CHECK(les_mobile_generate(m, "x", 1000, take, &ended) == -1 && strstr(les_mobile_error(m), "longer than the context of 256"));
}

int main(int argc, char ** argv) {
    char error[1024] = "";
    CHECK(argc == 2);
    CHECK(!open_model("none.gguf", 0, error, sizeof(error)) && strstr(error, "none.gguf: "));
    CHECK(!open_model(argv[1], 1000000, error, sizeof(error)) && strstr(error, "below the floor"));
    for (int cycle = 0; cycle < 2; cycle++) {
        struct les_mobile * m = open_model(argv[1], 0, error, sizeof(error));
        CHECK(m);
        test_answers(m);
        les_mobile_close(m);
    }
    les_mobile_close(NULL);
    puts("test-les-mobile: passed");
    return 0;
}
