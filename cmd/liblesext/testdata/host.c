// A program with signal handlers and forks of its own, while a model is streamed in it. Prints "ok" when all of it went on as
// before.
//
//   host MODEL

#include "llama.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t n_usr1;
static volatile sig_atomic_t stop;
static sigjmp_buf            after_fault;

// Neither handler asks for a stack of its own.
static void on_usr1(int signal) {
    (void) signal;
    char room[16384]; // would not fit on a small stack
    memset(room, 1, sizeof(room));
    n_usr1 += room[100];
}

static void on_segv(int signal) {
    (void) signal;
    siglongjmp(after_fault, 1);
}

static void * send_signals(void * user) {
    (void) user;
    while (!stop) {
        kill(getpid(), SIGUSR1);
        usleep(200);
    }
    return NULL;
}

static void fail(const char * what) {
    printf("failed: %s\n", what);
    exit(1);
}

static void quiet(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

static float decode(struct llama_context * lctx) {
    llama_token tokens[] = { 5, 6, 7, 8, 9 };
    llama_memory_clear(llama_get_memory(lctx), true);
    if (llama_decode(lctx, llama_batch_get_one(tokens, 5)) != 0) {
        fail("decode");
    }
    return llama_get_logits_ith(lctx, -1)[0];
}

static void fault(void) {
    if (sigsetjmp(after_fault, 1) == 0) {
        *(volatile int *) 8 = 1;
        fail("a fault that nobody saw");
    }
}

// The child has no thread of the engine: what it loads is refused, not hung.
static void fork_and_wait(const char * path) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(llama_model_load_from_file(path, llama_model_default_params()) ? 1 : 0);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fail("the child");
    }
}

// Threads that a signal of the program may be given to.
static int open_threads(void) {
    int n = 0;
    DIR * dir = opendir("/proc/self/task");
    for (struct dirent * entry; dir && (entry = readdir(dir)); ) {
        char name[300], line[256];
        snprintf(name, sizeof(name), "/proc/self/task/%s/status", entry->d_name);
        FILE * file = entry->d_name[0] == '.' ? NULL : fopen(name, "r");
        while (file && fgets(line, sizeof(line), file)) {
            unsigned long long blocked;
            n += sscanf(line, "SigBlk: %llx", &blocked) == 1 && !(blocked >> (SIGUSR1 - 1) & 1);
        }
        if (file) {
            fclose(file);
        }
    }
    closedir(dir);
    return n;
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        return 2;
    }
    signal(SIGUSR1, on_usr1);
    signal(SIGSEGV, on_segv);
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = 64;
    params.n_threads = params.n_threads_batch = 2;
    struct llama_context * lctx = model ? llama_init_from_model(model, params) : NULL;
    if (!lctx) {
        fail("the context");
    }
    pthread_t sender;
    pthread_create(&sender, NULL, send_signals, NULL);
    const float first = decode(lctx);
    for (int i = 0; i < 5; i++) {
        fault();
        fork_and_wait(argv[1]);
        if (decode(lctx) != first) {
            fail("another result");
        }
    }
    signal(SIGUSR1, on_usr1); // set anew, while the engine is there
    for (int i = 0; i < 5; i++) {
        if (decode(lctx) != first) {
            fail("another result");
        }
    }
    if (open_threads() > 3) { // this one, the other that computes, and the sender
        fail("signals that threads of the engine would be given");
    }
    stop = 1;
    pthread_join(sender, NULL);
    if (n_usr1 < 10) {
        fail("signals that nobody saw");
    }
    llama_free(lctx);
    llama_model_free(model);
    fault();
    puts("ok");
    return 0;
}
