// A program of llama.cpp at its end: a log like that of common, which has a lock, and a handler that exits like that of
// llama-server at the second interrupt.
//
//   exit plain    the log is written at once
//   exit stopped  nobody reads the log
//   exit locked   the interrupt comes while the log is locked

#include "les-programs.h"

#include <mutex>
#include <signal.h>
#include <string>

struct common_log {
    std::mutex lock;
    std::mutex reader;
};

common_log * common_log_main() {
    static common_log * log = new common_log;
    return log;
}

void common_log_pause(common_log * log) {
    const std::lock_guard<std::mutex> guard(log->lock);
    const std::lock_guard<std::mutex> written(log->reader);
}

static void interrupted(int) {
    exit(1);
}

int main(int argc, char ** argv) {
    const std::string how = argc > 1 ? argv[1] : "";
    les_write_log_at_exit();
    signal(SIGINT, interrupted);
    if (how == "stopped") {
        common_log_main()->reader.lock();
    }
    if (how == "locked") {
        common_log_main()->lock.lock();
        raise(SIGINT);
    }
    return 7;
}
